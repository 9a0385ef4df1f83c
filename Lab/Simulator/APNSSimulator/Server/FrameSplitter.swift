/// Splits frames: DATA into frames of one byte, HEADERS into a frame of one byte and four CONTINUATION frames. Clients must
/// accept this (RFC 9113, 4.3 and 6.10). Many accept at most eight CONTINUATION frames, since CVE-2024-27316.
enum FrameSplitter {
    private enum Kind {
        static let data: UInt8 = 0, headers: UInt8 = 1, continuation: UInt8 = 9
    }

    private enum Flag {
        static let endStream: UInt8 = 1, endHeaders: UInt8 = 4
    }

    private static let continuations = 4

    private static let headLength = 9

    /// - Parameter bytes: complete frames without padding and priority.
    static func append(_ bytes: [UInt8], to output: inout [UInt8]) {
        var rest = bytes[...]
        while rest.count >= headLength {
            let head = rest.startIndex
            let length = Int(rest[head]) << 16 | Int(rest[head + 1]) << 8 | Int(rest[head + 2])
            let frame = rest.prefix(headLength + length)
            switch frame[head + 3] {
            case Kind.data where length > 1: cut(frame, into: 1, last: Flag.endStream, next: Kind.data, to: &output)
            case Kind.headers where length > 1:
                let piece = (length - 1 + continuations - 1) / continuations
                cut(frame, into: piece, last: Flag.endHeaders, next: Kind.continuation, to: &output)
            default: output.append(contentsOf: frame)
            }
            rest = rest.dropFirst(frame.count)
        }
        output.append(contentsOf: rest)
    }

    /// Splits a frame into a piece of one byte and pieces of `size` bytes.
    ///
    /// - Parameter last: the flag of the last piece. The other flags stay on the first.
    private static func cut(
        _ frame: ArraySlice<UInt8>, into size: Int, last: UInt8, next: UInt8, to output: inout [UInt8]
    ) {
        let head = frame.startIndex
        let flags = frame[head + 4]
        var rest = frame.dropFirst(headLength)
        var isFirst = true
        while !rest.isEmpty {
            let piece = rest.prefix(isFirst ? 1 : size)
            rest = rest.dropFirst(piece.count)
            output += [UInt8(piece.count >> 16 & 255), UInt8(piece.count >> 8 & 255), UInt8(piece.count & 255)]
            output.append(isFirst ? frame[head + 3] : next)
            output.append((isFirst ? flags & ~last : 0) | (rest.isEmpty ? flags & last : 0))
            output.append(contentsOf: frame[head + 5..<head + headLength])
            output.append(contentsOf: piece)
            isFirst = false
        }
    }
}
