/// Arguments of a command in the Redis protocol, ready to be sent but for the line that counts them.
///
/// Our own writer and not hiredis' formatter: a batch of 256 acknowledgements is built in place while the answers come
/// in, and is copied once.
struct Arguments: Equatable {
    private(set) var bytes: [UInt8] = []
    private(set) var count = 0

    var isEmpty: Bool { count == 0 }

    mutating func append(_ argument: [UInt8]) {
        start(length: argument.count)
        bytes.append(contentsOf: argument)
        end()
    }

    mutating func append(_ argument: String) {
        start(length: argument.utf8.count)
        bytes.append(contentsOf: argument.utf8)
        end()
    }

    mutating func append(_ number: Int) {
        append(String(number))
    }

    /// Without a `String` in between and with one copy: this is written once for every job that is acknowledged.
    mutating func append(_ number: UInt64) {
        var text = InlineArray<27, UInt8>(repeating: 0)  // `$20`, 20 digits and two line ends
        text[26] = UInt8(ascii: "\n")
        text[25] = UInt8(ascii: "\r")
        var start = Arguments.writeDigits(of: number, into: &text, before: 25)
        let count = 25 - start
        text[start - 1] = UInt8(ascii: "\n")
        text[start - 2] = UInt8(ascii: "\r")
        start = Arguments.writeDigits(of: UInt64(count), into: &text, before: start - 2) - 1
        text[start] = UInt8(ascii: "$")
        text.span.extracting(start..<27).withUnsafeBufferPointer { bytes.append(contentsOf: $0) }
        self.count += 1
    }

    /// Returns where they begin.
    @inline(__always)
    private static func writeDigits(of number: UInt64, into text: inout InlineArray<27, UInt8>, before end: Int) -> Int {
        var rest = number
        var start = end
        repeat {
            start -= 1
            text[start] = UInt8(ascii: "0") + UInt8(truncatingIfNeeded: rest % 10)
            rest /= 10
        } while rest > 0
        return start
    }

    mutating func append(contentsOf other: Arguments) {
        bytes.append(contentsOf: other.bytes)
        count += other.count
    }

    private mutating func start(length: Int) {
        bytes.append(UInt8(ascii: "$"))
        if length < 10 {
            bytes.append(UInt8(ascii: "0") + UInt8(length))
        } else {
            bytes.append(contentsOf: String(length).utf8)
        }
        end()
        count += 1
    }

    private mutating func end() {
        bytes.append(UInt8(ascii: "\r"))
        bytes.append(UInt8(ascii: "\n"))
    }

    init() {}

    init(_ arguments: [String]) {
        for argument in arguments { append(argument) }
    }

    init(_ arguments: [[UInt8]]) {
        for argument in arguments { append(argument) }
    }
}

extension [UInt8] {
    /// Writes one whole command: the head, then the parts, one after the other.
    mutating func appendCommand(_ head: Arguments, _ parts: [Arguments] = []) {
        var count = head.count
        for index in parts.indices { count += parts[index].count }
        append(UInt8(ascii: "*"))
        append(contentsOf: String(count).utf8)
        append(UInt8(ascii: "\r"))
        append(UInt8(ascii: "\n"))
        append(contentsOf: head.bytes)
        for index in parts.indices { append(contentsOf: parts[index].bytes) }
    }
}
