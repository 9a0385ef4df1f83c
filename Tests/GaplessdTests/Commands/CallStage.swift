import APNSSimulator
import Glibc
import Harness
import RedisQueue

@testable import gaplessd

/// A Redis server, a settings file for it, and the built program.
final class CallStage {
    struct Result {
        var status: CInt?
        var output: String
        var errors: String

        var lines: [String] { output.split(separator: "\n", omittingEmptySubsequences: false).dropLast().map(String.init) }
        var errorLines: [String] { errors.split(separator: "\n").map(String.init) }
    }

    let folder = TemporaryFolder()
    let redis: RedisServer
    let lists: [String]
    let settings: String
    private(set) var client: RedisClient
    private var calls = 0

    init(lists: [String] = ["calls"], redis options: [String] = [], _ changes: [String: String?] = [:]) throws {
        redis = try RedisServer(options: options)
        self.lists = lists
        client = try RedisClient(settings: QueueSettings(list: lists[0], server: .unix(path: redis.socketPath)))
        settings = try CallStage.write(
            ["redis_socket_path": redis.socketPath.quoted].merging(changes) { $1 }, lists: lists, to: folder.file("settings.json")
        )
    }

    /// Writes settings. The credential files do not exist: calls to Redis do not read them.
    ///
    /// - Parameter changes: raw JSON by key; `nil` removes a key.
    static func write(_ changes: [String: String?], lists: [String] = ["calls"], to path: String) throws -> String {
        var values = [
            "apns_server": "\"localhost:1\"", "apns_auth_key_path": "\"missing.p8\"", "apns_auth_key_id": "\"SIMKEY0001\"",
            "apns_team_id": "\"SIMTEAM001\"", "apns_topic": "\"com.example.app\"",
            "redis_queue_key": "[\(lists.map(\.quoted).joined(separator: ", "))]",
        ]
        for (key, value) in changes { values[key] = value }
        try File.write("{" + values.map { "\($0.key.quoted): \($0.value)" }.joined(separator: ", ") + "}", to: path)
        return path
    }

    /// Returns a stage with the top level and four apps: `cert` and `p12` have certificates with the topics `com.NAME` and
    /// `com.NAME.more`, `voice` has a topic with a suffix, and `bare` none. The certificate of `p12` has expired, and no key
    /// file exists.
    static func withApps(_ changes: [String: String?] = [:]) throws -> CallStage {
        let key = #""apns_auth_key_path": "missing.p8", "apns_auth_key_id": "SIMKEY0001", "apns_team_id": "SIMTEAM001""#
        let apps = """
            {"cert": {"apns_cert_path": "cert/client.pem", "apns_key_path": "missing.pem"},
             "p12": {"apns_p12_path": "p12/client.p12", "apns_p12_password": "simulator"},
             "voice": {\(key), "apns_topic": "com.voice.voip"}, "bare": {\(key)}}
            """
        let stage = try CallStage(["apps": apps].merging(changes) { $1 })
        for name in ["cert", "p12"] {
            var request = Credentials.Request(topics: ["com.\(name)", "com.\(name).more"])
            if name == "p12" { request.clientValidity = -7200...(-3600) }
            try Credentials.make(request).write(to: stage.folder.file(name))
        }
        return stage
    }

    var keys: Keys { Keys(list: lists[0]) }
    var letters: DeadLetterList { DeadLetterList(keys) }

    @discardableResult
    func redis(_ words: String...) throws -> RedisReply { try client.command(words) }

    func redis(_ words: [String]) throws -> RedisReply { try client.command(words) }

    func elements(_ key: String) throws -> [String] {
        try redis("LRANGE", key, "0", "-1").items?.compactMap(\.text) ?? []
    }

    /// Starts a call whose output goes to files.
    func start(_ call: String, _ arguments: [String], settings: String? = nil) throws -> (
        process: ChildProcess, out: String, err: String
    ) {
        calls += 1
        let (out, err) = (folder.file("out\(calls)"), folder.file("err\(calls)"))
        let process = try ChildProcess(
            BuiltProducts.path("gaplessd"), [call, settings ?? self.settings] + arguments,
            environment: ["STATE_DIRECTORY": folder.file("state")], standardOutput: .file(out),
            standardError: .file(err))
        return (process, out, err)
    }

    func call(_ call: String, _ arguments: String..., settings: String? = nil) throws -> Result {
        let (process, out, err) = try start(call, arguments, settings: settings)
        let exit = process.wait(atMost: .seconds(60))
        return Result(status: exit?.status, output: File.read(out), errors: File.read(err))
    }

    /// Runs a shell command, in which `$G` is the program and `$S` the settings.
    func shell(_ line: String) throws -> Result {
        calls += 1
        let (out, err) = (folder.file("out\(calls)"), folder.file("err\(calls)"))
        let process = try ChildProcess(
            "bash", ["-c", "cd \"$F\"; set -o pipefail; " + line],
            environment: ["G": BuiltProducts.path("gaplessd"), "S": settings, "F": folder.path], standardOutput: .file(out),
            standardError: .file(err))
        let exit = process.wait(atMost: .seconds(60))
        return Result(status: exit?.status, output: File.read(out), errors: File.read(err))
    }

    /// Stores dead letters of jobs with these tokens.
    func deadLetter(_ tokens: some Sequence<String>, reason: String = "Unregistered", marks: String = "") throws {
        var records: [[UInt8]] = []
        func flush() throws {
            if records.isEmpty { return }
            _ = try client.command([Array("RPUSH".utf8), Array(keys.dead.utf8)] + records)
            records.removeAll()
        }
        for token in tokens {
            records.append(CallStage.letter(token, reason: reason, marks: marks))
            if records.count == 1000 { try flush() }
        }
        try flush()
    }

    static func job(_ token: String, marks: String = "") -> String {
        #"{"token":"\#(token)","data":{"aps":{"alert":"x"}}\#(marks)}"#
    }

    static func letter(_ token: String, reason: String = "Unregistered", marks: String = "") -> [UInt8] {
        DeadLetter(
            reason: reason, status: 410, identifier: Array("154".utf8), token: token, attempts: 1, at: 1_795_218_609, worker: "w",
            job: Array(job(token, marks: marks).utf8)
        ).record()
    }
}

extension String {
    var quoted: String { "\"\(self)\"" }
}
