/// Daemons of one key on one machine, who share its provider token.
public struct Fleet {
    public private(set) var daemons: [DaemonProcess]

    /// - Parameter start: starts the one of a number, from 0 on.
    public init(_ size: Int, start: (Int) throws -> DaemonProcess) rethrows {
        daemons = try (0..<size).map(start)
    }

    /// One of them was started anew.
    public mutating func replace(_ index: Int, by daemon: DaemonProcess) { daemons[index] = daemon }

    /// Waits until each has a session; whether it came about.
    public func isOpen(within limit: Duration) -> Bool {
        daemons.allSatisfy { daemon in waitUntil(atMost: limit) { daemon.standardOutput.contains(" is open, ") } }
    }

    /// Provider tokens that they have signed.
    public var minted: Int {
        daemons.reduce(0) {
            $0 + $1.standardOutput.split(separator: "\n").count { $0.contains("A new provider token was signed ") }
        }
    }

    /// Those who could not share the token, and so had to make their own.
    public var loners: Int { daemons.count { $0.standardError.contains(" cannot be kept for other processes") } }
}
