/// The peer's first frame, when it is a GOAWAY.
///
/// nghttp2 takes anything but SETTINGS there for an error and tells nobody what it was. APNs says GOAWAY there, and why
/// (jchambers/pushy#831), and that is what an operator wants to read.
struct FirstFrame {
    private static let goAwayType: UInt8 = 7
    private static let headerBytes = 9

    private var bytes: [UInt8] = []

    mutating func append(_ more: Span<UInt8>) {
        // A frame of the usual limit (RFC 9113, 4.2) is all that is wanted.
        let room = FirstFrame.headerBytes + 16384 - bytes.count
        for place in 0..<min(room, more.count) { bytes.append(more[place]) }
    }

    private var length: Int { Int(bytes[0]) << 16 | Int(bytes[1]) << 8 | Int(bytes[2]) }

    /// Nothing more is to be learnt from what follows.
    var isDecided: Bool {
        guard bytes.count >= FirstFrame.headerBytes else { return false }
        return bytes[3] != FirstFrame.goAwayType || bytes.count >= min(length, 16384) + FirstFrame.headerBytes
    }

    /// The GOAWAY, once all of it is here (RFC 9113, 6.8).
    var goAway: HTTP2Event? {
        guard isDecided, bytes[3] == FirstFrame.goAwayType, length >= 8, bytes.count >= length + FirstFrame.headerBytes
        else { return nil }
        func number(at place: Int) -> UInt32 { bytes[place..<place + 4].reduce(0) { $0 << 8 | UInt32($1) } }
        let payload = FirstFrame.headerBytes
        return .goAway(
            last: StreamID(number(at: payload) & 0x7FFF_FFFF), code: number(at: payload + 4),
            debugData: Array(bytes[(payload + 8)..<(payload + length)]))
    }
}
