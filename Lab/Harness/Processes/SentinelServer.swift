import Glibc

/// A Sentinel of our own that watches one master, gone when this object goes.
public final class SentinelServer {
    /// Milliseconds of silence after which it calls a server down. Sentinel takes up to a second until it connects to a master that it
    /// has just named: with less than that it takes it for dead again, and turns all round once more, and once more.
    private static let downAfter = 2000

    public let port: Int
    private let folder = TemporaryFolder()
    private(set) public var process: ChildProcess

    /// - Parameters:
    ///   - master: the port of the server on this machine that it is to call the master.
    ///   - quorum: how many Sentinels must agree before it does anything.
    ///   - lines: more of its configuration.
    public init(master name: String, at master: Int, quorum: Int = 1, lines: [String] = []) throws {
        port = FreePort.pick()
        let configuration = [
            "port \(port)", "dir \(folder.path)", "logfile \(folder.file("sentinel.log"))",
            "sentinel monitor \(name) 127.0.0.1 \(master) \(quorum)",
            "sentinel down-after-milliseconds \(name) \(Self.downAfter)",
            "sentinel failover-timeout \(name) 3000",
        ]
        try File.write((configuration + lines).joined(separator: "\n") + "\n", to: folder.file("sentinel.conf"))
        process = try SentinelServer.start(folder)
    }

    deinit { kill() }

    public func kill() {
        process.kill(SIGKILL)
        _ = process.wait()
    }

    public func restart() throws { process = try SentinelServer.start(folder) }

    /// What it has written into its log.
    public var log: String { File.read(folder.file("sentinel.log")) }

    private static func start(_ folder: TemporaryFolder) throws -> ChildProcess {
        let process = try ChildProcess("redis-server", [folder.file("sentinel.conf"), "--sentinel"])
        // "+monitor master" is its first line about a master: from then on it answers.
        let isUp = waitUntil(atMost: .seconds(30)) { File.read(folder.file("sentinel.log")).contains("+monitor master") }
        guard isUp, process.poll() == nil else {
            throw ChildProcess.Failure(description: "Sentinel did not start:\n" + File.read(folder.file("sentinel.log")))
        }
        return process
    }
}
