import Harness
import JSONBytes
import Testing

@testable import gaplessd

private let hasJSONSchema = (try? ChildProcess("python3", ["-c", "import jsonschema"]).wait().status == 0) ?? false

@Suite("gaplessd schema")
struct SchemaCallTests {
    private let folder = SettingsFolder()

    @Test func `prints a schema that covers every setting and every key of a job`() throws {
        let settings = try JSONValue.parse(Array(try Call(["schema", "settings"]).output.utf8))
        for key in SettingsTable.keys {
            let property = try #require(settings["properties"]?[key.name], "\(key.name)")
            #expect(property["description"]?.stringValue == key.help)
            #expect((settings["$defs"]?["app"]?["properties"]?[key.name] != nil) == (key.scope != .daemon), "\(key.name)")
            for source in [key.fileName, key.variableName].compactMap(\.self) {
                #expect(settings["properties"]?[source] != nil)
            }
        }
        let job = try JSONValue.parse(Array(try Call(["schema", "job"]).output.utf8))
        for key in JobKey.allCases { #expect(job["properties"]?["\(key.name)"] != nil, "\(key.name)") }
        #expect(job["additionalProperties"] == nil)
        #expect(try Call(["schema", "other"]).status == 64)
        #expect(try Call(["schema", "job", "--json"]).output == Call(["schema", "job"]).output)
    }

    /// Validates the samples with Python's jsonschema, and returns which are valid.
    private func valid(_ subject: String, _ samples: [String]) throws -> [Bool] {
        try valid(subject, samples.map { Array($0.utf8) })
    }

    private func valid(_ subject: String, _ samples: [[UInt8]]) throws -> [Bool] {
        let schema = folder.write(try Call(["schema", subject]).output, to: "schema.json")
        let lines = samples.map { String(decoding: Base64.encode($0), as: UTF8.self) + "\n" }
        let file = folder.write(lines.joined(), to: "samples")
        // Python accepts NaN and Infinity, which are not JSON.
        let script = """
            import base64, json, sys, jsonschema
            schema = json.load(open(sys.argv[1]))
            jsonschema.Draft202012Validator.check_schema(schema)
            validator = jsonschema.Draft202012Validator(schema)
            def is_valid(data):
                try: return validator.is_valid(json.loads(data.decode(), parse_constant=int))
                except ValueError: return False
            for line in open(sys.argv[2]): print(is_valid(base64.b64decode(line)))
            """
        let call = try ChildProcess(
            "python3", ["-W", "ignore", "-c", script, schema, file], standardOutput: .file(folder.file("out")),
            standardError: .file(folder.file("err")))
        #expect(call.wait(atMost: .seconds(60))?.status == 0, "\(File.read(folder.file("err")))")
        return File.read(folder.file("out")).split(separator: "\n").map { $0 == "True" }
    }

    private static let settingsSamples = [
        "{}", settings(), settings(#""$schema": "x", "_a": 1, "//": [], "//b": {}"#), settings(#""pool_sise": 2"#),
        "{\(smallestAPNS)}", #"{"redis_queue_key": "q", "apns_server": "sandbox"}"#, settings(#""redis_queue_key_": "q""#),
        "{\(smallestAPNS), \"redis_queue_key\": [\"a\", \"b\"]}", "{\(smallestAPNS), \"redis_queue_key\": [\"a\", \"a\"]}",
        "{\(smallestAPNS), \"redis_queue_key\": []}", "{\(smallestAPNS), \"redis_queue_key\": \"\"}",
        settings(#""log_successes": 0.01"#), settings(#""log_successes": true"#), settings(#""log_successes": 2"#),
        settings(#""log_successes": "0.5""#), settings(#""log_format": "json""#), settings(#""log_format": "xml""#),
        settings(#""pool_size": 0"#), settings(#""pool_size": 100"#), settings(#""pool_size": 101"#),
        settings(#""max_rate": 0"#), settings(#""max_rate": 0.0001"#), settings(#""max_rate": 5"#),
        settings(#""retry_delays": []"#), settings(#""retry_delays": [1, 2.5]"#), settings(#""retry_delays": [-1]"#),
        settings(#""metrics_listen": "127.0.0.1:9464""#), settings(#""metrics_listen": "off""#),
        settings(#""metrics_listen": "9464""#), settings(#""metrics_hosts": ["a"]"#), settings(#""metrics_hosts": "a""#),
        settings(#""redis_password": "x""#), settings(#""redis_password": """#),
        settings(#""redis_password": "x", "redis_password_file": "y""#),
        settings(#""redis_password": "x", "redis_password_env": "Y_Z""#), settings(#""redis_password_env": "not a name""#),
        settings(#""redis_password_env": 1"#), settings(#""redis_url": "rediss://u:p@h:1/2""#), settings(#""redis_url": "h:1""#),
        settings(#""redis_tls": true, "redis_tls_name": "redis.example.com""#), settings(#""redis_tls_name": 1"#),
        settings(apns: smallestAPNS.replacing("sandbox", with: "api.push.apple.com")),
        settings(apns: smallestAPNS.replacing("sandbox", with: "https://api.push.apple.com")),
        settings(apns: smallestAPNS.replacing("sandbox", with: "push.example")),
        settings(#""apns_topic": "a b""#),
        settings(#""filter_words": []"#), settings(#""filter_words": [""]"#), settings(#""watch_files": 1"#),
        settings(
            #""apps": {"a": {"apns_auth_key_path": "k.p8", "apns_auth_key_id": "ABCDE12345", "apns_team_id": "TEAM123456"}}"#),
        settings(#""apps": {"a": {"pool_size": 2}}"#), settings(#""apps": {"_a": {"pool_size": 2}}"#), settings(#""apps": []"#),
        settings(apns: smallestAPNS.replacing("ABCDE12345", with: "ABC")), "[]", "7",
    ]

    @Test(.enabled(if: hasJSONSchema, "python3-jsonschema is not installed"))
    func `agrees with the daemon about settings`() throws {
        var samples = Self.settingsSamples
        for key in SettingsTable.keys {
            let apns = key.name == "apns_server" ? smallestAPNS.replacing(#""apns_server": "sandbox", "#, with: "") : smallestAPNS
            if smallestAPNS.contains(key.name), key.name != "apns_server" || key.name == "redis_queue_key" { continue }
            samples.append(settings("\"\(key.name)\": [{}]", apns: apns))
            guard let text = key.defaultText else { continue }
            samples.append(settings(JSONValue.object([JSONMember(key.name, key.value(text))]).line.dropFirst().dropLast() + ""))
        }
        #expect(samples.count > 100)
        let valid = try valid("settings", samples)
        for (sample, isValid) in zip(samples, valid) {
            #expect(folder.faults(sample).isEmpty == isValid, "\(sample): \(folder.faults(sample))")
        }
        #expect(valid.count == samples.count && valid.count { $0 } > 40)
    }

    private static let jobSamples = [
        "{}", "[]", #"{"token": "ab", "data": {}}"#, #"{"token": "ab"}"#, #"{"data": {}}"#, #"{"token": "ab", "data": []}"#,
        #"{"token": "ab", "data": null}"#, #"{"token": null, "tokens": ["ab"], "data": {}}"#, #"{"token": "", "data": {}}"#,
        #"{"token": "ab", "tokens": ["ab"], "data": {}}"#, #"{"tokens": [], "data": {}}"#, #"{"tokens": "ab", "data": {}}"#,
        #"{"tokens": ["ab", "cD"], "data": {}}"#, #"{"tokens": ["ab", "x"], "data": {}}"#, #"{"tokens": [5], "data": {}}"#,
        #"{"token": "ab/", "data": {}}"#, #"{"token": 5, "data": {}}"#, #"{"channel": "AAAA", "data": {}}"#,
        #"{"channel": "A A", "data": {}}"#, #"{"channel": "A A", "token": "ab", "data": {}}"#,
        #"{"channel": [5], "tokens": ["ab"], "data": {}}"#, #"{"channel": 5, "token": null, "data": {}}"#,
        #"{"channel": "A A", "token": null, "data": {}}"#, #"{"channel": "", "data": {}}"#,
        #"{"tokens_from": "k", "data": {}}"#, #"{"tokens_from": "k", "campaign": "c", "over": 60, "stop_at": 0, "data": {}}"#,
        #"{"tokens_from": null, "data": {}}"#, #"{"tokens_from": 5, "data": {}}"#, #"{"tokens_from": "k"}"#,
        #"{"tokens_from": "k", "token": "ab", "data": {}}"#, #"{"tokens_from": "k", "tokens": ["ab"], "data": {}}"#,
        #"{"tokens_from": "k", "token": null, "tokens": null, "data": {}}"#,
        #"{"tokens_from": "k", "replaces": "r", "data": {}}"#,
        #"{"channel": null, "data": {}}"#, #"{"channel": "AA==", "token": "ab", "data": {}}"#,
    ]
    private static let memberSamples = [
        #""unknown": [1]"#, #""identifier": 154"#, #""identifier": "x""#, #""identifier": true"#, #""identifier": 1.5"#,
        #""identifier": -9223372036854775808"#, #""identifier": 18446744073709551615"#, #""identifier": 18446744073709551616"#,
        #""identifier": null"#, #""expiry": 0"#, #""expiry": -1"#, #""expiry": "60""#, #""expiry": null"#, #""expires_at": -5"#,
        #""expiry": 60.5"#, #""expiry": -0.5"#,
        #""expires_at": 1.5"#, #""topic": "com.example.app""#, #""topic": """#, #""topic": " x""#, #""topic": "x ""#,
        #""topic": "x\u0007""#, #""topic": 1"#, #""push_type": "anything""#, #""push_type": null"#, #""priority": 5"#,
        #""priority": 7"#, #""priority": "5""#, #""priority": null"#, #""collapse_id": "\#(String(repeating: "c", count: 64))""#,
        #""collapse_id": "\#(String(repeating: "c", count: 65))""#, #""apns_id": "123e4567-e89b-12d3-a456-426614174000""#,
        #""apns_id": "123e4567""#, #""not_before": 1.5"#, #""not_before": "1""#, #""not_before": 1e300"#,
        #""_gapless_RETRYING": -3"#, #""_gapless_RETRYING": "x""#, #""_gapless_deadline": 1.5"#, #""app": "a""#, #""app": 1"#,
    ]

    @Test(.enabled(if: hasJSONSchema, "python3-jsonschema is not installed"))
    func `agrees with the daemon about jobs`() throws {
        let samples = Self.jobSamples + Self.memberSamples.map { #"{"token": "ab", "data": {}, \#($0)}"# }
        let valid = try valid("job", samples)
        #expect(valid.count == samples.count && valid.count { $0 } > 20)
        var reader = JobReader(retryLimit: 3, appNames: ["a"])
        for (sample, isValid) in zip(samples, valid) {
            let job = try? reader.read(Array(sample.utf8))
            #expect((job.map { $0.tokens.allSatisfy { $0.fault == nil } } ?? false) == isValid, "\(sample)")
        }
    }

    /// Parts of faults that a schema does not express: lengths in bytes, names of the settings, pairs of push type and topic.
    /// To a schema, 15E4 is an integer.
    private static let rules = ["bytes long", "is unknown", "push type", "push_type", "an integer"]

    @Test(.enabled(if: hasJSONSchema, "python3-jsonschema is not installed"))
    func `agrees with the daemon about hostile jobs, except for the rules that a schema does not express`() throws {
        let seed = UInt64.random(in: 0...UInt64.max)
        print("SchemaCallTests seed \(seed)")
        let samples = DaemonBadJobTests.structures.map { Array($0.0.utf8) } + JobHostileTests.mutants(10_000, seed: seed)
        let valid = try valid("job", samples)
        #expect(valid.count == samples.count && valid.count { $0 } > 500)
        var reader = JobReader(retryLimit: 3, appNames: ["a"])
        for (sample, isValid) in zip(samples, valid) {
            var fault: String?
            do { fault = try reader.read(sample).tokens.compactMap(\.fault).first.map { "\($0)" } } catch { fault = "\(error)" }
            let isExempt = isValid && Self.rules.contains { fault?.contains($0) == true }
            let text = String(decoding: sample, as: UTF8.self)
            #expect((fault == nil) == isValid || isExempt, "seed \(seed): \(text): \(fault ?? "")")
        }
    }

    @Test(.enabled(if: hasJSONSchema, "python3-jsonschema is not installed"))
    func `accepts the sample settings`() throws {
        let samples = ["beta", "demo", "production"].map { Checkout.read("config/\($0).json") }
        #expect(try valid("settings", samples) == [true, true, true])
    }

    @Test(.enabled(if: hasJSONSchema, "python3-jsonschema is not installed"))
    func `accepts the job of the README`() throws {
        let job = try #require(Checkout.read("README.md").firstMatch(of: /RPUSH apns_queue '(.*)'/)).output.1
        #expect(try valid("job", [String(job)]) == [true])
    }
}
