import Glibc

/// A Redis Sentinel that watches one master. It ends with this object.
public final class SentinelServer {
    /// Milliseconds of silence after which Sentinel calls a server down. Sentinel takes up to a second to connect to a master
    /// that it has just named. With a lower value it calls that master dead again, and repeats the failover.
    private static let downAfter = 2000

    public let port: Int
    private let folder = TemporaryFolder()
    private(set) public var process: ChildProcess

    /// - Parameters:
    ///   - master: the port of the master on this machine.
    ///   - quorum: the number of Sentinels that must agree on a failover.
    ///   - lines: more lines of the configuration.
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

    /// The content of the log file.
    public var log: String { File.read(folder.file("sentinel.log")) }

    private static func start(_ folder: TemporaryFolder) throws -> ChildProcess {
        let process = try ChildProcess("redis-server", [folder.file("sentinel.conf"), "--sentinel"])
        // "+monitor master" is the first line about a master: from then on Sentinel replies.
        let isUp = waitUntil(atMost: .seconds(30)) { File.read(folder.file("sentinel.log")).contains("+monitor master") }
        guard isUp, process.poll() == nil else {
            throw HarnessError("Sentinel did not start:\n" + File.read(folder.file("sentinel.log")))
        }
        return process
    }
}
