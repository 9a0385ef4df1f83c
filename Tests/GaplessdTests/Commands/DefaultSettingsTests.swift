import ArgumentParser
import Harness
import JSONBytes
import RedisQueue
import Testing

@testable import gaplessd

@Suite("A call without SETTINGS.json")
struct DefaultSettingsTests {
    /// Runs the program with `GAPLESSD_SETTINGS`.
    private func call(_ stage: CallStage, _ words: String...) throws -> Call {
        try Call(words, environment: ["GAPLESSD_SETTINGS": stage.settings])
    }

    @Test func `uses the file that GAPLESSD_SETTINGS names, with options and actions`() throws {
        let stage = try CallStage()
        try stage.redis("RPUSH", "calls", CallStage.job("aa"))
        try stage.deadLetter(["bb", "cc"])
        #expect(try call(stage, "status").output.hasPrefix("list        calls\nbacklog     1\n"))
        #expect(try JSONValue.parse(Array(call(stage, "status", "--json").output.utf8))["dead"]?.integerValue == 2)
        #expect(try call(stage, "peek", "--limit", "1").output.contains("token aa"))
        #expect(try call(stage, "audit").status == 0)
        #expect(try call(stage, "find", "--token", "aa").status == 0)
        #expect(try call(stage, "dead", "list", "--json", "--limit", "1").output.contains("bb"))
        #expect(try call(stage, "dead", "show", "2").output.contains("cc"))
        #expect(try call(stage, "feedback", "list").status == 0)
        #expect(try call(stage, "pause", "--for", "1m").status == 0)
        #expect(try call(stage, "resume").output == "calls: resumed\n")
        #expect(try call(stage, "cancel", "--token", "aa").output.hasSuffix("1 cancelled\n"))
        #expect(try call(stage, "dead", "purge", "--reason", "Unregistered").output.hasSuffix("2 deleted\n"))
        #expect(try call(stage, "check", "--offline").status == 78, "the key file is missing")
    }

    @Test func `recognizes the files of enqueue and explain by their jobs`() throws {
        let stage = try CallStage()
        let (jobs, bad) = (stage.folder.file("jobs"), stage.folder.file("more.ndjson"))
        try File.write(CallStage.job("aa") + "\n" + CallStage.job("bb") + "\n", to: jobs)
        try File.write("\n{\"token\": \"cc\", \"data\": {}}\n{\n", to: bad)
        #expect(try call(stage, "enqueue", jobs).output == "2 jobs pushed to calls\n")
        #expect(try call(stage, "enqueue", jobs, bad).status == 65)
        let shell = try stage.shell("echo '\(CallStage.job("dd"))' | GAPLESSD_SETTINGS=$S $G enqueue -")
        #expect(shell.output == "1 job pushed to calls\n")
        let standard = try stage.shell("echo '\(CallStage.job("ee"))' | GAPLESSD_SETTINGS=$S $G enqueue")
        #expect(standard.output == "1 job pushed to calls\n")
        // A settings file is the settings, as ever.
        let given = try stage.shell("echo '\(CallStage.job("ff"))' | GAPLESSD_SETTINGS=none.json $G enqueue $S")
        #expect(given.output == "1 job pushed to calls\n", "\(given.errors)")
        #expect(try stage.redis("LLEN", "calls").integer == 8)
        let served = try Stage()
        let settings = try served.write()
        let job = served.folder.file("job.json")
        try File.write(#"{"token": "ab01",\#n "data": {"aps": {}}}"#, to: job)
        let explained = try Call(["explain", job, "--json"], environment: ["GAPLESSD_SETTINGS": settings])
        #expect(explained.output.contains("/3/device/ab01"), "\(explained.errors)")
    }

    @Test func `a given file comes first, and a missing one is a fault`() throws {
        let stage = try CallStage()
        let given = try Call(["status", stage.settings], environment: ["GAPLESSD_SETTINGS": stage.folder.file("none.json")])
        #expect(given.status == 0)
        let missing = try Call(["status"], environment: ["GAPLESSD_SETTINGS": stage.folder.file("none.json")])
        #expect(missing.status == 78 && missing.errors.contains("none.json: cannot be read: No such file"))
        let unset = try Call(["status"], environment: ["GAPLESSD_SETTINGS": ""])
        #expect(unset.status == 64)
        #expect(
            unset.errors.hasPrefix(
                "Error: SETTINGS.json is missing: name the settings file, set GAPLESSD_SETTINGS, or create "
                    + "/etc/gaplessd/settings.json.\n"))
    }

    @Test func `without any word the program prints the usage, and does not run`() throws {
        let stage = try CallStage()
        let call = try Call([], environment: ["GAPLESSD_SETTINGS": stage.settings])
        #expect(call.status == 64 && call.output == "" && call.errors.lowercased().contains("usage: gaplessd"), "\(call.errors)")
    }

    @Test(arguments: [["dead", "lst"], ["dead", "list", "--bogus"], ["feedback"], ["send"], ["pause", "--for", "soon"]])
    func `wrong usage stays wrong usage`(words: [String]) throws {
        let stage = try CallStage()
        let call = try Call(words, environment: ["GAPLESSD_SETTINGS": stage.settings])
        #expect(call.status == 64 && call.errors.hasPrefix("Error: "), "\(call.errors)")
    }
}

@Suite("--json")
struct JSONCallTests {
    @Test func `each call that prints something for a person has it`() {
        // They print a log, or always JSON.
        let others = ["run", "relay", "schema"]
        for call in Gaplessd.configuration.subcommands where !others.contains(call.configuration.commandName ?? "") {
            let help = Gaplessd.helpMessage(for: call)
            #expect(help.contains("--json"), "\(call)")
        }
    }

    @Test func `enqueue prints the counts, and each invalid line as an object`() throws {
        let stage = try CallStage()
        let path = stage.folder.file("jobs")
        try File.write(CallStage.job("aa") + "\n{\n" + #"{"tokens":["ab","x"],"data":{}}"# + "\n", to: path)
        let result = try stage.call("enqueue", path, "--json")
        #expect(result.status == 65)
        #expect(result.lines == [#"{"list": "calls", "pushed": 2, "invalid": 1}"#])
        let lines = try result.errorLines.map { try JSONValue.parse(Array($0.utf8)) }
        #expect(lines.map { $0["line"]?.integerValue } == [2, 3] && lines.allSatisfy { $0["file"]?.stringValue == path })
        #expect(lines.map { $0["pushed"]?.boolValue } == [false, true])
    }

    @Test func `check prints faults, certificates, apps and connections`() throws {
        let stage = try Stage()
        let settings = try stage.write(["metrics_listen": "\"127.0.0.1:0\""])
        let call = try Call(["check", settings, "--json"])
        let report = try JSONValue.parse(Array(call.output.utf8))
        #expect(call.status == 0 && report["ok"]?.boolValue == true && report["exit_status"]?.integerValue == 0, "\(call.output)")
        guard case .array(let checks)? = report["checks"], case .array(let apps)? = report["apps"] else {
            throw Unexpected(call.output)
        }
        #expect(checks.map { $0["name"]?.stringValue } == ["metrics", "redis", "apns"])
        #expect(checks.allSatisfy { $0["ok"]?.boolValue == true } && apps[0]["topic"]?.stringValue == Stage.topic)
        #expect(call.errors == "")
        let path = try stage.write(["pool_size": "0", "retry_limit": "-1"])
        let faulty = try Call(["check", path, "--json"])
        let faults = try JSONValue.parse(Array(faulty.output.utf8))
        #expect(faulty.status == 78 && faults["ok"]?.boolValue == false && faults["exit_status"]?.integerValue == 78)
        #expect(faults["faults"]?.line.contains(#"{"key": "pool_size", "problem": "0 is out of range", "#) == true)
        #expect(
            faulty.errors.split(separator: "\n") == [
                "\(path): pool_size: 0 is out of range; expected an integer from 1 to 100",
                "\(path): retry_limit: -1 is out of range; expected an integer from 0 to 1000",
            ])
        #expect(faults["faults"]?.line.contains(#""file": "\#(path)""#) == true)
        let away = try Call(["check", stage.write(["redis_socket_path": "\"/nowhere\""]), "--json"])
        let silent = try JSONValue.parse(Array(away.output.utf8))
        #expect(away.status == 69 && silent["exit_status"]?.integerValue == 69)
        #expect(silent["checks"]?.line.contains(#"{"name": "redis", "ok": false, "#) == true)
    }

    @Test func `top prints one reading, and health its verdict`() throws {
        let (stage, daemon) = try givenOpen(["metrics_listen": "\"127.0.0.1:0\""])
        let port = try #require(daemon.metricsPort())
        let settings = try stage.write(["metrics_listen": "\"127.0.0.1:\(port)\""], name: "calls.json")
        let health = try Call(["health", settings, "--json"])
        #expect(health.status == 0 && health.output == "{\"healthy\": true, \"response\": \"ok\"}\n")
        let top = try JSONValue.parse(Array(Call(["top", settings, "--json"]).output.utf8))
        #expect(top["workers"]?.integerValue == 1 && top["counters"]?["sent"]?.integerValue == 1)
        #expect(daemon.stop()?.status == 0)
        let gone = try Call(["health", settings, "--json"])
        #expect(gone.status == 69 && gone.output == "{\"healthy\": false, \"response\": null}\n")
    }
}
