import Clocks
import Glibc
import RedisQueue

/// A real `redis-server` on a Unix socket in a directory of its own. Both are gone with this object, and also when the
/// whole test process dies: a watchdog then reads the end of its pipe.
final class RedisServer {
    let directory: String
    var socketPath: String { directory + "/redis.sock" }
    private let options: [String]
    private var process: pid_t = 0
    private var watchdog: pid_t = 0
    private var leash: CInt = -1

    struct Failure: Error, CustomStringConvertible {
        var description: String
    }

    /// - Parameter options: as in redis.conf, name and value in turn.
    init(_ options: String...) throws {
        self.options = options
        var template = Array("/tmp/gaplessd-redis-XXXXXX".utf8CString)
        guard mkdtemp(&template) != nil else { throw Failure(description: "mkdtemp: errno \(errno)") }
        directory = String(decoding: template.prefix { $0 != 0 }.map(UInt8.init(bitPattern:)), as: UTF8.self)
        try start()
    }

    deinit {
        kill()
        _ = try? RedisServer.run(["/bin/rm", "-rf", directory], input: nil, waits: true)
    }

    func start() throws {
        process = try RedisServer.run(
            [
                "/usr/bin/env", "redis-server", "--port", "0", "--unixsocket", socketPath, "--dir", directory, "--save", "",
                "--logfile", directory + "/log",
            ]
                + options.enumerated().map { $0.offset.isMultiple(of: 2) ? "--" + $0.element : $0.element },
            input: nil, waits: false)
        var ends: [CInt] = [0, 0]
        let type = CInt(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue)  // pipe2 is not in Swift's Glibc.
        guard socketpair(AF_UNIX, type, 0, &ends) == 0 else { throw Failure(description: "socketpair: errno \(errno)") }
        leash = ends[1]
        watchdog = try RedisServer.run(
            [
                "/bin/sh", "-c", "cat >/dev/null; kill -9 \(process) 2>/dev/null; sleep 0.2; test -n \"$0\" && rm -rf \"$0\"",
                directory,
            ],
            input: ends[0], waits: false)
        close(ends[0])
        try waitUntilItServes()
    }

    /// SIGKILL, as an outage would.
    func kill() {
        if process == 0 { return }
        // The watchdog must not take the directory along when its leash is let go.
        Glibc.kill(watchdog, SIGKILL)
        waitpid(watchdog, nil, 0)
        close(leash)
        Glibc.kill(process, SIGKILL)
        waitpid(process, nil, 0)
        process = 0
        unlink(socketPath)
    }

    func signal(_ signal: CInt) { Glibc.kill(process, signal) }

    func settings(list: String = "jobs", password: String? = nil) -> QueueSettings {
        QueueSettings(list: list, server: .unix(path: socketPath), password: password)
    }

    func client(password: String? = nil) throws -> RedisClient {
        try RedisClient(settings: settings(password: password))
    }

    /// One command over a connection of its own.
    @discardableResult
    func ask(_ command: String..., password: String? = nil) throws -> RedisReply {
        var client = try client(password: password)
        return try client.command(command)
    }

    func push(_ jobs: [String], to list: String = "jobs") throws {
        var client = try client()
        for start in stride(from: 0, to: jobs.count, by: 500) {
            _ = try client.command(["RPUSH", list] + jobs[start..<min(start + 500, jobs.count)])
        }
    }

    func list(_ key: String) throws -> [String] {
        var client = try client()
        return try client.command(["LRANGE", key, "0", "-1"]).items?.compactMap(\.text) ?? []
    }

    func status(list: String = "jobs") throws -> QueueStatus {
        var client = try client()
        return try QueueStatus.read(&client, Keys(list: list))
    }

    private func waitUntilItServes() throws {
        let deadline = Instant.now + .seconds(10)
        while Instant.now < deadline {
            do {
                _ = try client()
                return
            } catch RedisError.reply(let text) where !text.hasPrefix("LOADING") {
                return  // It wants a password: it is up.
            } catch {
                poll(nil, 0, 5)
            }
        }
        throw Failure(description: "redis-server does not answer in \(directory)")
    }

    @discardableResult
    private static func run(_ arguments: [String], input: CInt?, waits: Bool) throws -> pid_t {
        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0)
        posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0)
        if let input {
            posix_spawn_file_actions_adddup2(&actions, input, 0)
        } else {
            posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0)
        }
        var strings: [UnsafeMutablePointer<CChar>?] = arguments.map { strdup($0) }
        defer { for string in strings { free(string) } }
        strings.append(nil)
        var process = pid_t()
        let status = posix_spawn(&process, arguments[0], &actions, nil, &strings, environ)
        guard status == 0 else { throw Failure(description: "cannot run \(arguments[0]): errno \(status)") }
        if waits { waitpid(process, nil, 0) }
        return process
    }
}
