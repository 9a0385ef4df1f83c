/// Daemons on one machine that share one provider token.
public struct Fleet {
    public private(set) var daemons: [DaemonProcess]

    /// - Parameter start: starts a daemon by its number, from 0 on.
    public init(_ size: Int, start: (Int) throws -> DaemonProcess) rethrows {
        daemons = try (0..<size).map(start)
    }

    public mutating func replace(_ index: Int, by daemon: DaemonProcess) { daemons[index] = daemon }

    /// Waits until each daemon has a session. Returns false at the limit.
    public func isOpen(within limit: Duration) -> Bool {
        daemons.allSatisfy { daemon in waitUntil(atMost: limit) { daemon.standardOutput.contains(" is open, ") } }
    }

    /// The number of provider tokens that the daemons signed.
    public var minted: Int {
        daemons.reduce(0) {
            $0 + $1.standardOutput.split(separator: "\n").count { $0.contains("A new provider token was signed ") }
        }
    }

    /// The number of daemons that could not share the token.
    public var unshared: Int { daemons.count { $0.standardError.contains(" cannot be kept for other processes") } }
}
