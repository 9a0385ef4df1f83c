import Glibc
internal import RedisQueue

/// A redis-server of our own: in a temporary folder, on a Unix socket, on no port, gone when this object goes.
public final class RedisServer {
    public let socketPath: String
    private let folder = TemporaryFolder()
    private let options: [String]
    private(set) public var process: ChildProcess

    /// - Parameter options: as on the command line (`["--appendonly", "yes"]`).
    public init(options: [String] = []) throws {
        self.options = options
        socketPath = folder.file("redis.sock")
        process = try RedisServer.start(folder, options)
        try awaitReady()
    }

    deinit {
        process.kill(SIGKILL)
        _ = process.wait()
    }

    /// Where its log, its append-only file and its dump are.
    public var path: String { folder.path }

    /// kill -9, as a power cut would.
    public func kill() {
        process.kill(SIGKILL)
        _ = process.wait()
        unlink(socketPath)
    }

    /// Starts it anew in the same folder, from what its files hold.
    public func restart() throws {
        process = try RedisServer.start(folder, options)
        try awaitReady()
    }

    private func awaitReady() throws {
        let settings = QueueSettings(list: "none", server: .unix(path: socketPath))
        // A client is let in only once the server serves: not while it loads its files.
        let isUp = waitUntil(atMost: .seconds(60)) {
            guard process.poll() == nil else { return true }
            do {
                var client = try RedisClient(settings: settings)
                return try client.command(["PING"]) == .status("PONG")
            } catch {
                return false
            }
        }
        guard isUp, process.poll() == nil else {
            throw ChildProcess.Failure(description: "redis-server did not start:\n" + File.read(folder.file("redis.log")))
        }
    }

    private static func start(_ folder: TemporaryFolder, _ options: [String]) throws -> ChildProcess {
        try ChildProcess(
            "redis-server",
            [
                "--port", "0", "--unixsocket", folder.file("redis.sock"), "--dir", folder.path, "--save", "",
                "--logfile", folder.file("redis.log"), "--daemonize", "no",
            ] + options)
    }
}
