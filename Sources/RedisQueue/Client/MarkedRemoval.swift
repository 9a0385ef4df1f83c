/// How a script removes elements in the middle of a list: it sets each to a marker, and then removes the markers.
enum MarkedRemoval {
    /// Returns a random text, which no element equals.
    static func marker() -> String {
        (0..<2).map { _ in String(UInt64.random(in: .min ... .max), radix: 16) }.joined(separator: "-")
    }

    /// Tries the commands on KEYS[1], which exists only during the script. Without the right to one of them, a call that is
    /// repeated would add its jobs again.
    static let trial = """
        redis.call('DEL', KEYS[1])
        redis.call('RPUSH', KEYS[1], '') redis.call('LSET', KEYS[1], 0, '') redis.call('LREM', KEYS[1], 0, '')

        """
}
