internal import CLinux
import Glibc
internal import Platform
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

/// TCP ports of the loopback interface, for programs that cannot choose a port themselves.
public enum FreePort {
    /// Returns a port that was free a moment ago. It is below 50,000, because a cluster node also uses the port 10,000 above.
    public static func pick() -> Int {
        while true {
            let port = Int.random(in: 20_000..<50_000)
            if (try? Listener(port: port)) != nil, (try? Listener(port: port + 10_000)) != nil { return port }
        }
    }

    /// Returns whether a server listens on a port.
    public static func isTaken(_ port: Int) -> Bool {
        guard let address = try? SocketAddress.resolve(host: "127.0.0.1", port: port).first,
            let socket = try? Socket(connectingTo: address)
        else { return false }
        var descriptors = [pollfd(fd: socket.descriptor, events: Int16(POLLOUT), revents: 0)]
        return unsafe poll(&descriptors, 1, 1000) == 1 && socket.connectError() == nil
    }
}
