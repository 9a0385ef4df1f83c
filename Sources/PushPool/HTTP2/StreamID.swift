/// An HTTP/2 stream identifier of 31 bits: odd for a stream that the client opens, 0 for the connection (RFC 9113, 5.1.1).
struct StreamID: Hashable, Comparable, ExpressibleByIntegerLiteral, CustomStringConvertible {
    let number: Int32

    init(_ number: Int32) { self.number = number }

    /// Returns `nil` for more than 31 bits.
    init?(exactly number: UInt32) {
        guard let number = Int32(exactly: number) else { return nil }
        self.init(number)
    }

    /// Reads the field of a frame, whose highest bit is reserved.
    init(field: UInt32) { self.init(Int32(field & 0x7FFF_FFFF)) }

    init(integerLiteral number: Int32) { self.init(number) }

    var isOpenedByClient: Bool { number & 1 == 1 }

    var description: String { "\(number)" }

    static func < (left: StreamID, right: StreamID) -> Bool { left.number < right.number }
}
