import Harness
import RedisQueue
import Testing

@testable import gaplessd

@Suite("The command line", .timeLimit(.minutes(30)))
struct CommandTests {
    private let folder = SettingsFolder()

    @Test func `Version and help go to stdout, with 0`() throws {
        let version = try Call(["--version"])
        #expect(version.output == "\(gaplessdVersion)\n")
        #expect(version.status == 0)
        for arguments in [["--help"], ["help"], ["help", "run"], ["help", "check"], ["check", "--help"]] {
            let help = try Call(arguments)
            #expect(help.output.contains("USAGE: gaplessd"))
            #expect(help.errors == "")
            #expect(help.status == 0)
        }
    }

    @Test(arguments: [
        [], ["run"], ["check"], ["--bogus", "x.json"], ["check", "--bogus", "x.json"], ["x.json", "y.json"], ["help", "bogus"],
        ["send", "x.json"], ["run", "x.json", "--offline"],
    ])
    func `Wrong usage exits with 64 and a message on stderr`(arguments: [String]) throws {
        let call = try Call(arguments)
        #expect(call.status == 64)
        #expect(call.output == "")
        #expect(call.errors.contains("Error: "))
    }

    @Test(arguments: [["--version"], ["help"], ["help", "dead"]])
    func `Standard output that cannot be written is reported, with 1`(arguments: [String]) throws {
        for (output, fault) in [("/dev/full", "No space left on device"), ("&-", "Bad file descriptor")] {
            let call = try Call(arguments, under: ["sh", "-c", "exec \"$0\" \"$@\" >\(output)"])
            #expect(call.status == 1)
            #expect(call.errors == "Error: standard output cannot be written: \(fault)\n")
        }
    }

    @Test func `A closed pipe is not reported`() throws {
        let call = try Call(["help"], under: ["sh", "-c", "\"$0\" \"$@\" | true"])
        #expect(call.errors == "")
    }

    @Test func `An unknown call and an unknown option are named`() throws {
        let call = try Call(["statsu", "x.json"])
        #expect(call.status == 64)
        #expect(call.errors.hasPrefix("Error: There is no call 'statsu', and no file of this name. Did you mean 'status'?\n"))
        for words in [["staus"], ["help", "staus"]] {
            let call = try Call(words)
            #expect(call.status == 64 && call.errors.contains("There is no call 'staus'"))
            #expect(call.errors.contains(" Did you mean 'status'?\n"), "\(call.errors)")
        }
        #expect(try Call(["nothing-like-it", "x.json"]).errors.contains("no file of this name.\n"))
        let option = try Call(["--bogus"])
        #expect(option.status == 64)
        #expect(option.errors.hasPrefix("Error: Unknown option '--bogus'\n"))
    }

    @Test(arguments: [[], ["run"], ["check"], ["check", "--offline"]])
    func `Faults of settings and credentials exit with 78, one line each`(call: [String]) throws {
        let file = folder.write(settings(#""pool_size": 0, "metrics_listen": "127.0.0.1""#))
        let call = try Call(call + [file])
        #expect(call.status == 78)
        #expect(call.output == "")
        #expect(
            call.errors == """
                \(file): pool_size: 0 is out of range; expected an integer from 1 to 100
                \(file): metrics_listen: invalid value "127.0.0.1"; expected "host:port", such as "127.0.0.1:9464", or "off"
                \(file): apns_auth_key_path: \(folder.file("k.p8")) cannot be read: \
                No such file or directory; expected a file that this user can read

                """)
    }

    @Test(arguments: [
        (["pause"], "--app", ["(top level)", "beta", "x y"]), (["send"], "--app", ["(top level)", "beta", "x y"]),
        (["peek"], "--list", ["high", "low"]), (["dead"], "--app", ["(top level)", "beta", "x y"]),
        (["channel"], "--app", ["(top level)", "beta", "x y"]),
    ])
    func `A shell completes the names of apps and lists`(call: [String], option: String, names: [String]) throws {
        let app = #"{"apns_auth_key_path": "k.p8", "apns_auth_key_id": "ABCDE12345", "apns_team_id": "TEAM123456"}"#
        for end in ["}", #", "pool_size": 0}"#] {
            let file = folder.write(
                #"{\#(smallestAPNS), "redis_queue_key": ["high", "low"], "apps": {"beta": \#(app), "x y": \#(app)}\#(end)"#)
            let words = ["gaplessd"] + call + [file, option, ""]
            let result = try Call(["---completion"] + call + ["--", option, "\(words.count - 1)", "0"] + words)
            if end == "}" || option == "--app" {
                #expect(result.output.split(separator: "\n").map(String.init) == names, "\(result.output)\(result.errors)")
            }
        }
    }

    @Test(arguments: [(["campaign"], "id"), (["cancel"], "--campaign"), (["pause"], "--campaign"), (["dead"], "--campaign")])
    func `A shell completes the names of campaigns`(call: [String], option: String) throws {
        let stage = try CallStage()
        for (name, score) in [("spring sale", "9"), ("old", "-5"), ("two\nlines", "7")] {
            try stage.redis("ZADD", stage.keys.campaigns, score, name)
        }
        let words = ["gaplessd"] + call + [stage.settings, option, ""]
        let result = try Call(["---completion"] + call + ["--", option, "\(words.count - 1)", "0"] + words)
        #expect(result.output == "spring sale\nold\n", "\(result.errors)")
    }

    @Test func `A missing settings file exits with 78`() throws {
        let call = try Call([folder.file("none.json")])
        #expect(call.status == 78)
        #expect(call.errors.hasPrefix("\(folder.file("none.json")): cannot be read: No such file"))
    }

    @Test func `An empty path is reported as such`() throws {
        let call = try Call([""])
        #expect(call.status == 78)
        #expect(call.errors == "\"\": the path is empty; expected the path of a settings file\n")
    }

    @Test(arguments: ["--help", "-h"])
    func `--help before a call prints the page of that call`(option: String) throws {
        for name in ["check", "status", "dead", "run"] {
            let call = try Call([option, name])
            #expect(call.status == 0)
            #expect(call.output == (try Call(["help", name])).output)
            #expect(call.output == (try Call([option, name, "settings.json"])).output)
            #expect(call.output.contains("USAGE: gaplessd \(name) "), "\(call.output)")
        }
        #expect(try Call([option]).output == Call(["help"]).output)
    }

    @Test func `A settings file with the name of a call is accepted as a path`() throws {
        let call = try Call([folder.write("[]", to: "check")])
        #expect(call.status == 78)
        #expect(call.errors.contains("contains no JSON object"))
    }

    @Test func `Standard streams that are closed at the start do not become sockets or files`() throws {
        let file = folder.write("{}")
        let shell = try ChildProcess("/bin/sh", ["-c", "exec \(BuiltProducts.path("gaplessd")) check \(file) >&- 2>&- <&-"])
        #expect(shell.wait(atMost: .seconds(30))?.status == 78)
    }
}
