import Glibc
public import RedisQueue

/// A redis-server with a temporary folder and a Unix socket. It ends with this object.
public final class RedisServer {
    public let socketPath: String
    /// The optional port on 127.0.0.1: replicas cannot reach a Unix socket.
    public let port: Int?
    private let folder = TemporaryFolder()
    private let options: [String]
    private let environment: [String: String]
    private(set) public var process: ChildProcess

    /// - Parameters:
    ///   - options: as on the command line (`["--appendonly", "yes"]`).
    ///   - hasPort: whether the server also listens on a port.
    public init(options: [String] = [], hasPort: Bool = false, environment: [String: String] = [:]) throws {
        port = hasPort ? FreePort.pick() : nil
        // Of two options with one name the last one applies.
        self.options = (port.map { ["--port", String($0), "--bind", "127.0.0.1"] } ?? ["--port", "0"]) + options
        self.environment = environment
        socketPath = folder.file("redis.sock")
        process = try RedisServer.start(folder, self.options, environment)
        try awaitReady()
    }

    deinit {
        process.kill(SIGKILL)
        _ = process.wait()
    }

    /// The folder of the log, the append-only file and the dump.
    public var path: String { folder.path }

    /// The append-only file with the last writes. Each rewrite starts another one with a higher number.
    public var appendOnlyFile: String {
        let name = { [path] (number: Int) in "\(path)/appendonlydir/appendonly.aof.\(number).incr.aof" }
        var number = 1
        while unsafe access(name(number), F_OK) != 0 && number < 1000 { number += 1 }
        return name(number)
    }

    /// Sends SIGKILL.
    public func kill() {
        process.kill(SIGKILL)
        _ = process.wait()
        unsafe unlink(socketPath)
    }

    /// Starts the server again in the same folder, from its files.
    public func restart() throws {
        process = try RedisServer.start(folder, options, environment)
        try awaitReady()
    }

    /// Runs one command on a new connection.
    @discardableResult
    public func command(_ words: [String]) throws -> RedisReply {
        var client = try RedisClient(settings: QueueSettings(list: "none", server: .unix(path: socketPath)))
        return try client.command(words)
    }

    private func awaitReady() throws {
        let settings = QueueSettings(list: "none", server: .unix(path: socketPath))
        // The server accepts no client while it loads its files.
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
            throw HarnessError("redis-server did not start:\n" + File.read(folder.file("redis.log")))
        }
    }

    private static func start(
        _ folder: TemporaryFolder, _ options: [String], _ environment: [String: String]
    ) throws -> ChildProcess {
        try ChildProcess(
            "redis-server",
            [
                "--unixsocket", folder.file("redis.sock"), "--dir", folder.path, "--save", "",
                "--logfile", folder.file("redis.log"), "--daemonize", "no",
            ] + options, environment: environment)
    }
}
