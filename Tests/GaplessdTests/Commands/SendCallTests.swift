import APNSSimulator
import Harness
import JSONBytes
import Testing

@testable import gaplessd

@Suite("gaplessd send")
struct SendCallTests {
    private static let channel = "dHN0LXNyY2gtY2hubA=="
    private static let key = """
        "apns_auth_key_path": "credentials/AuthKey_SIMKEY0001.p8", "apns_auth_key_id": "SIMKEY0001", "apns_team_id": "SIMTEAM001"
        """

    private let stage: CallStage
    private let simulator: Simulator
    private let settings: String

    init() throws {
        stage = try CallStage()
        let credentials = try Credentials.make(Credentials.Request(topics: ["com.example.app", "com.example.other"]))
        try credentials.write(to: stage.folder.file("credentials"))
        var configuration = Simulator.Configuration(credentials: credentials)
        configuration.channels = [.init(app: "com.example.app", id: Self.channel)]
        configuration.ledgerDetail = .requests(keepsBodies: true)
        simulator = try Simulator(configuration)
        let apps = #"{"other": {\#(Self.key), "apns_topic": "com.example.other"}}"#
        settings = try Self.write(["apps": apps], simulator, stage, to: "send.json")
    }

    /// Writes settings for a simulator. `send` needs no Redis.
    private static func write(
        _ changes: [String: String?], _ simulator: Simulator, _ stage: CallStage, to name: String
    ) throws -> String {
        try CallStage.write(
            [
                "apns_server": "\"localhost:\(simulator.port)\"", "apns_ca_path": "\"credentials/ca.pem\"",
                "apns_auth_key_path": "\"credentials/AuthKey_SIMKEY0001.p8\"", "redis_socket_path": "\"/nonexistent\"",
            ].merging(changes) { $1 }, to: stage.folder.file(name))
    }

    private func send(_ arguments: String..., settings other: String? = nil) throws -> CallStage.Result {
        let (process, out, err) = try stage.start("send", arguments, settings: other ?? settings)
        let exit = process.wait(atMost: .seconds(60))
        return CallStage.Result(status: exit?.status, output: File.read(out), errors: File.read(err))
    }

    @Test func `prints the status, apns-id and milliseconds of an accepted push and exits with 0`() throws {
        let result = try send("--token", "0A1b", "--alert", "Hello \"you\"")
        #expect(result.status == 0 && result.errors == "")
        let entry = try #require(simulator.ledger.requests(for: "0A1b").first)
        #expect(entry.topic == "com.example.app" && entry.pushType == "alert" && entry.priority == "10")
        #expect(try #/200, apns-id (.*), \d+\.\d ms\n/#.wholeMatch(in: result.output)?.1 == Substring(entry.apnsID))
    }

    @Test func `prints the id by which Apple's console finds a push of the sandbox`() throws {
        var configuration = Simulator.Configuration(credentials: try Credentials(directory: stage.folder.file("credentials")))
        configuration.environment = .sandbox
        let sandbox = try Simulator(configuration)
        let settings = try Self.write([:], sandbox, stage, to: "sandbox.json")
        let result = try send("--token", "ab", "--alert", "Hi", settings: settings)
        #expect(result.output.contains(#/^200, apns-id .*, apns-unique-id \S+, \d+\.\d ms\n$/#), "\(result)")
        let answer = try JSONValue.parse(
            Array(try send("--token", "ab", "--alert", "Hi", "--json", settings: settings).output.utf8))
        #expect(answer["apns_unique_id"]?.stringValue?.isEmpty == false)
    }

    @Test func `starts, updates and ends a Live Activity`() throws {
        func aps(_ token: String) throws -> JSONValue {
            let entry = try #require(simulator.ledger.requests(for: token).last)
            #expect(entry.pushType == "liveactivity")
            return try #require(try JSONValue.parse(entry.body ?? [])["aps"])
        }
        let started = try send(
            "--token", "aa", "--live-event", "start", "--content-state", #"{"score": "0:0"}"#, "--attributes-type", "Match",
            "--attributes", #"{"home": "A"}"#, "--alert", "Kick-off", "--input-push-channel", Self.channel, "--stale-date", "7")
        #expect(started.status == 0, "\(started.errors)")
        #expect(simulator.ledger.requests(for: "aa").last?.topic == "com.example.app.push-type.liveactivity")
        let start = try aps("aa")
        #expect(start["event"]?.stringValue == "start" && start["content-state"]?.line == #"{"score": "0:0"}"#)
        #expect(start["attributes-type"]?.stringValue == "Match" && start["attributes"]?.line == #"{"home": "A"}"#)
        #expect(start["alert"]?["title"]?.stringValue == "Kick-off" && start["stale-date"]?.integerValue == 7)
        #expect(start["input-push-channel"]?.stringValue == Self.channel && start["timestamp"]?.integerValue ?? 0 > 1_000_000)
        #expect(
            try send("--channel", Self.channel, "--live-event", "update", "--content-state", "{}", "--timestamp", "9").status == 0
        )
        let update = try aps(Self.channel)
        #expect(update["event"]?.stringValue == "update" && update["timestamp"]?.integerValue == 9 && update["alert"] == nil)
        #expect(try send("--token", "bb", "--live-event", "end", "--dismissal-date", "1").status == 0)
        let end = try aps("bb")
        #expect(end["event"]?.stringValue == "end" && end["dismissal-date"]?.integerValue == 1 && end["content-state"] == nil)
    }

    @Test(arguments: [
        ["--live-event", "update"], ["--live-event", "update", "--content-state", "[]"],
        ["--live-event", "update", "--content-state", "{"], ["--live-event", "start", "--content-state", "{}"],
        ["--live-event", "end", "--data", "{}"], ["--live-event", "stop"], ["--content-state", "{}", "--alert", "x"],
        ["--live-event", "update", "--content-state", "{}", "--dismissal-date", "1"],
        ["--live-event", "update", "--content-state", "{}", "--attributes", "{}"],
    ])
    func `refuses options of Live Activities that do not go together`(options: [String]) throws {
        let (process, _, _) = try stage.start("send", ["--token", "ab"] + options, settings: settings)
        #expect(process.wait(atMost: .seconds(60))?.status == 64)
    }

    @Test func `sends every header, and the payload byte for byte`() throws {
        let result = try send(
            "--token", "0a", "--data", #"{"aps":{"content-available":1},  "n":1.50}"#, "--topic", "com.example.other",
            "--priority", "1",
            "--expires-at", "4000000000", "--collapse-id", "one", "--apns-id", "123E4567-e89b-12d3-a456-426614174000", "--json")
        #expect(result.status == 0, "\(result.errors)")
        let answer = try JSONValue.parse(Array(result.output.utf8))
        #expect(answer["status"]?.integerValue == 200 && answer["reason"] == .null)
        #expect(answer["apns_id"]?.stringValue?.lowercased() == "123e4567-e89b-12d3-a456-426614174000")
        #expect(answer["milliseconds"]?.doubleValue ?? -1 > 0 && answer["connect_milliseconds"]?.doubleValue ?? -1 > 0)
        let entry = try #require(simulator.ledger.entries.first)
        #expect(entry.topic == "com.example.other" && entry.pushType == "background" && entry.priority == "1")
        #expect(entry.expiration == "4000000000" && entry.collapseID == "one")
        _ = try send("--token", "0b", "--alert", "x", "--push-type", "voip", "--expiry", "0", "--app", "other")
        let other = try #require(simulator.ledger.requests(for: "0b").first)
        #expect(other.topic == "com.example.other.voip" && other.pushType == "voip" && other.expiration == "0")
    }

    @Test func `sends a broadcast to a channel, and reports an unknown channel`() throws {
        let data = #"{"aps": {"timestamp": 1795300000, "event": "update", "content-state": {}}}"#
        let result = try send("--channel", Self.channel, "--data", data)
        #expect(result.status == 0 && result.errors == "", "\(result.errors)")
        let entry = try #require(simulator.ledger.requests(for: Self.channel).first)
        #expect(entry.isBroadcast && entry.topic == "com.example.app" && entry.pushType == "liveactivity")
        #expect(entry.priority == "10" && entry.expiration == "0")
        #expect(try #/200, apns-id (.*), \d+\.\d ms\n/#.wholeMatch(in: result.output)?.1 == Substring(entry.apnsID))
        let unknown = try send("--channel", "AAAA", "--data", data)
        #expect(unknown.status == 1 && unknown.output.hasPrefix("400 ChannelNotRegistered, apns-id "), "\(unknown.output)")
        let other = try send("--channel", Self.channel, "--data", data, "--app", "other")
        #expect(other.status == 1 && other.output.hasPrefix("400 ChannelNotRegistered, "), "\(other.output)")
    }

    @Test func `sends a broadcast to the app of the certificate`() throws {
        let path = try Self.write(
            [
                "apns_cert_path": "\"credentials/client.pem\"", "apns_key_path": "\"credentials/client-key.pem\"",
                "apns_auth_key_path": nil, "apns_auth_key_id": nil, "apns_team_id": nil, "apns_topic": nil,
            ], simulator, stage, to: "certificate.json")
        let result = try send("--channel", Self.channel, "--data", "{}", "--expiry", "60", settings: path)
        #expect(result.status == 0, "\(result.errors)\(result.output)")
        let entry = try #require(simulator.ledger.requests(for: Self.channel).first)
        #expect(entry.isBroadcast && entry.topic == "com.example.app" && entry.expiration != "0")
    }

    @Test func `accepts a text that starts with a dash, and reports a negative number`() throws {
        #expect(try send("--token", "0a", "--alert", "-20 % today").status == 0)
        let result = try send("--token", "0a", "--alert", "x", "--expiry", "-1")
        #expect(result.status == 64)
        #expect(result.errors.hasPrefix("Error: expiry is negative.\n"), "\(result.errors)")
    }

    @Test(arguments: [
        ("410", "Unregistered"), ("400", "BadDeviceToken"), ("503", "ServiceUnavailable"), ("429", "TooManyRequests"),
    ])
    func `prints the reason of a rejected push and exits with 1`(status: String, reason: String) throws {
        simulator.plan(token: "0a", answers: [try Answer(status)])
        let result = try send("--token", "0a", "--alert", "x")
        #expect(result.status == 1 && result.errors == "")
        #expect(result.output.hasPrefix("\(status) \(reason), apns-id ") && result.output.hasSuffix(" ms\n"))
    }

    @Test func `prints the timestamp of an unregistered token`() throws {
        simulator.plan(token: "0a", answers: [try Answer("410")])
        let answer = try JSONValue.parse(Array(try send("--token", "0a", "--alert", "x", "--json").output.utf8))
        #expect(answer["reason"]?.stringValue == "Unregistered" && answer["timestamp"]?.integerValue ?? 0 > 1_500_000_000_000)
    }

    @Test(arguments: ["rst", "cut", "goaway"]) func `exits with 69 and one line if APNs does not respond`(fault: String) throws {
        simulator.plan(token: "0a", answers: [try Answer(fault)])
        let result = try send("--token", "0a", "--alert", "x")
        #expect(result.status == 69 && result.output == "")
        #expect(
            result.errorLines.count == 1 && result.errors.hasPrefix("apns: ") && result.errors.contains("no response"),
            "\(result.errors)")
    }

    @Test func `exits with 69 if no server listens or TLS fails`() throws {
        let untrusting = try Self.write(["apns_ca_path": nil], simulator, stage, to: "untrusting.json")
        let untrusted = try send("--token", "0a", "--alert", "x", settings: untrusting)
        #expect(untrusted.status == 69)
        #expect(untrusted.errorLines.count == 1 && untrusted.errors.contains("certificate"), "\(untrusted.errors)")
        let port = simulator.port
        simulator.stop()
        let absent = try send("--token", "0a", "--alert", "x")
        #expect(absent.status == 69)
        #expect(absent.errorLines.count == 1 && absent.errors.contains("\(port)"), "\(absent.errors)")
    }

    @Test(arguments: [
        (["--token", "0a"], "--alert or --data is required."),
        (["--token", "0a", "--alert", "x", "--data", "{}"], "--alert and --data exclude each other."),
        (["--alert", "x"], "--token or --channel is required."),
        (["--token", "0a", "--channel", "AAAA", "--data", "{}"], "--token and --channel exclude each other."),
        (["--channel", "AAAA", "--alert", "x"], "--channel requires --data; --alert is for a device token."),
        (["--channel", "a b", "--data", "{}"], "channel is not base64."),
        (["--channel", "AAAA", "--data", "{}", "--collapse-id", "x"], "collapse_id is for tokens, not for a channel."),
        (
            ["--channel", "AAAA", "--data", "{}", "--topic", "com.example.app/.."],
            "topic is no bundle id, and a channel belongs to one."
        ),
        (["--token", "xyz", "--alert", "x"], "token is not hex."),
        (["--token", "", "--alert", "x"], "token is empty."),
        (["--token", "0a", "--data", "[]"], "data is not an object."),
        (["--token", "0a", "--data", #"{}, "token": "ff""#], "--data is not valid JSON"),
        (["--token", "0a", "--alert", "x", "--priority", "7"], "priority is not 1, 5 or 10."),
        (["--token", "0a", "--alert", "x", "--apns-id", "7"], "apns_id is not a UUID."),
        (["--token", "0a", "--alert", "x", "--topic", "a\nb"], "topic has a control character."),
        (["--token", "0a", "--alert", "x", "--expires-at", "1000"], "--expires-at is in the past."),
        (["--token", "0a", "--alert", "x", "--app", "none"], "app \"none\" is unknown."),
    ])
    func `exits with 64 and one line on wrong usage, and sends nothing`(arguments: [String], sentence: String) throws {
        let (process, _, err) = try stage.start("send", arguments, settings: settings)
        #expect(process.wait(atMost: .seconds(30))?.status == 64)
        #expect(File.read(err).contains("Error: \(sentence)"), "\(File.read(err))")
        #expect(simulator.ledger.entries.isEmpty)
    }

    @Test func `exits with 78 if the key cannot be read`() throws {
        let result = try send("--token", "0a", "--alert", "x", settings: stage.settings)
        #expect(result.status == 78)
        #expect(result.errors.contains("settings.json: apns_auth_key_path: "), "\(result.errors)")
    }

    @Test func `requires a topic if the settings have none`() throws {
        let path = try Self.write(["apns_topic": nil], simulator, stage, to: "topicless.json")
        let result = try send("--token", "0a", "--alert", "x", settings: path)
        #expect(
            result.status == 64 && result.errors.contains("--topic is required: the settings define none."), "\(result.errors)")
        #expect(try send("--token", "0a", "--alert", "x", "--topic", "com.example.app", settings: path).status == 0)
    }

    @Test func `requires a topic for an app without one, even if the top level has one`() throws {
        let path = try Self.write(["apps": #"{"bare": {\#(Self.key)}}"#], simulator, stage, to: "bare.json")
        let result = try send("--token", "0a", "--alert", "x", "--app", "bare", settings: path)
        #expect(
            result.status == 64 && result.errors.contains("--topic is required: the settings define none."), "\(result.errors)")
        #expect(simulator.ledger.entries.isEmpty)
    }

    @Test(arguments: [
        (#", "apns_topic": "com.example.app""#, "--app or --topic is required"), ("", "--app and --topic are required"),
    ])
    func `requires an app if all apps are named`(topic: String, sentence: String) throws {
        let path = try Self.write(
            [
                "apns_auth_key_path": nil, "apns_auth_key_id": nil, "apns_team_id": nil, "apns_topic": nil,
                "apps": "{\"beta\": {\(Self.key)\(topic)}, \"gamma\": {\(Self.key)}}",
            ], simulator, stage, to: "named.json")
        let result = try send("--token", "0a", "--alert", "x", settings: path)
        #expect(result.status == 64)
        #expect(
            result.errors.contains(
                "Error: \(sentence): the settings have no top-level credential, only apps (beta, gamma)."),
            "\(result.errors)")
        #expect(
            try send("--token", "0a", "--alert", "x", "--app", "beta", "--topic", "com.example.app", settings: path).status == 0)
    }

    @Test func `a 403 names what to check, and --prove`() throws {
        simulator.plan(token: "0b", answers: [.reason(.invalidProviderToken)])
        let result = try send("--token", "0b", "--alert", "Hello")
        #expect(result.status == 1 && result.output.hasPrefix("403 InvalidProviderToken, "))
        #expect(
            result.errors == "APNs rejects the key; check apns_auth_key_path, apns_auth_key_id and apns_team_id; "
                + "'gaplessd check --prove' tests the credential, the topic and the environment\n")
    }

    @Test func `a payload that is valid and rarely meant causes a warning`() throws {
        let result = try send("--token", "<0b 0b>", "--data", #"{"aps":{"content_available":1}}"#)
        #expect(result.status == 0)
        #expect(result.errors == "warning: content_available is not a key of aps; it is content-available\n")
        #expect(simulator.ledger.requests(for: "0b0b").count == 1)
    }
}
