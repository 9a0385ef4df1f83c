import Glibc
public import RedisQueue

/// A redis-server of our own: in a temporary folder, on a Unix socket, on no port unless it is wanted, gone when this object goes.
public final class RedisServer {
    public let socketPath: String
    /// On 127.0.0.1, where one was wanted: replicas cannot reach a Unix socket.
    public let port: Int?
    private let folder = TemporaryFolder()
    private let options: [String]
    private let environment: [String: String]
    private(set) public var process: ChildProcess

    /// - Parameters:
    ///   - options: as on the command line (`["--appendonly", "yes"]`).
    ///   - hasPort: whether it listens on a port as well.
    public init(options: [String] = [], hasPort: Bool = false, environment: [String: String] = [:]) throws {
        // Free at this moment; should somebody else take it before Redis does, Redis says so and ends.
        port = hasPort ? FreePort.pick() : nil
        // Of two options with one name the last counts: those that were given.
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

    /// Where its log, its append-only file and its dump are.
    public var path: String { folder.path }

    /// The file that its last writes are in. Each rewrite begins another, with a higher number.
    public var appendOnlyFile: String {
        let name = { [path] (number: Int) in "\(path)/appendonlydir/appendonly.aof.\(number).incr.aof" }
        var number = 1
        while access(name(number), F_OK) != 0 && number < 1000 { number += 1 }
        return name(number)
    }

    /// kill -9, as a power cut would.
    public func kill() {
        process.kill(SIGKILL)
        _ = process.wait()
        unlink(socketPath)
    }

    /// Starts it anew in the same folder, from what its files hold.
    public func restart() throws {
        process = try RedisServer.start(folder, options, environment)
        try awaitReady()
    }

    /// Runs one command on a connection of its own.
    @discardableResult
    public func command(_ words: [String]) throws -> RedisReply {
        var client = try RedisClient(settings: QueueSettings(list: "none", server: .unix(path: socketPath)))
        return try client.command(words)
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
