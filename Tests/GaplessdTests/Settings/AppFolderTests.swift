import Glibc
import Harness
import PushPool
import Testing

@testable import gaplessd

@Suite("The folder of apps_dir")
struct AppFolderTests {
    private let folder = SettingsFolder()

    init() { mkdir(folder.file("apps"), 0o755) }

    private func write(_ content: String, to name: String) { folder.write(content, to: "apps/\(name)") }

    private static let key = #""apns_auth_key_path": "k.p8", "apns_auth_key_id": "ABCDE12345", "apns_team_id": "TEAM123456""#

    private func read(_ members: String = "") throws -> Configuration {
        try folder.read(#"{"redis_queue_key": "q", "apns_server": "sandbox", "apps_dir": "apps"\#(members)}"#)
    }

    @Test func `each file is an app that inherits from the top level`() throws {
        write("{\(Self.key), \"max_rate\": 3}", to: "b.json")
        write("{\(Self.key), \"apns_server\": \"production\", \"_note\": 1}", to: "a.json")
        write("rubbish", to: ".hidden.json")
        write("rubbish", to: "notes.txt")
        let apps = try read(#", "apns_keepalive": 7"#).settings.apps
        #expect(apps.map(\.name) == ["a", "b"])
        #expect(apps.map(\.pool.host) == ["api.push.apple.com", "api.sandbox.push.apple.com"])
        #expect(apps.map(\.pool.keepAlive) == [.seconds(7), .seconds(7)])
        #expect(apps.map(\.ownLimit) == [nil, 3])
        #expect(apps.allSatisfy { $0.faults.isEmpty })
    }

    @Test func `a fault names its file and its key, and concerns its app alone`() throws {
        write("{\(Self.key)}", to: "good.json")
        write("{\(Self.key), \"max_rate\": -1, \"retry_limit\": 3, \"apns_tpic\": \"x\"}", to: "keys.json")
        write("{\"apns_topic\": \"x\"}", to: "empty.json")
        write("[1]", to: "array.json")
        write("{\"apns_topic\": ", to: "half.json")
        let apps = try read().settings.apps
        #expect(apps.first { $0.name == "good" }?.faults == [])
        func faults(_ name: String) -> [String] {
            let path = folder.file("apps/\(name).json")
            return apps.first { $0.name == name }?.faults.map { fault in
                let line = fault.line(file: "other")
                return line.hasPrefix("\(path): ") ? String(line.dropFirst(path.count + 2)) : "another file: \(line)"
            } ?? []
        }
        #expect(faults("keys").count == 3)
        #expect(
            faults("keys").contains("max_rate: -1 is out of range; expected a number from 0.001 to 1000000000, or 0 for no limit")
        )
        #expect(faults("keys").contains("retry_limit: not a key of an app; expected this key at the top level"))
        #expect(
            faults("keys").contains { $0.hasPrefix("apns_tpic: unknown key; expected a known key: did you mean \"apns_topic\"?") }
        )
        #expect(faults("empty").map { $0.prefix(41) } == ["apns_auth_key_path: no credential is given"].map { $0.prefix(41) })
        #expect(faults("array").count == 1 && faults("array")[0].hasPrefix("contains no JSON object"))
        #expect(faults("half").count == 1 && faults("half")[0].hasPrefix("invalid JSON at byte 15"))
        #expect(apps.first { $0.name == "half" }?.hasUnknownTopics == true, "its jobs wait")
    }

    @Test func `a folder that cannot be read is a fault, and an empty one a warning`() throws {
        #expect(try read().warnings.map(\.key) == ["apps_dir"])
        rmdir(folder.file("apps"))
        #expect(
            folder.faults(#"{"redis_queue_key": "q", "apps_dir": "apps"}"#) == [
                "apps_dir: \(folder.file("apps")) cannot be read: No such file or directory; "
                    + "expected a folder that this user can read"
            ])
    }

    @Test func `a name that apps has as well is ignored with a warning`() throws {
        write("{\(Self.key)}", to: "a.json")
        let read = try read(", \"apps\": {\"a\": {\(Self.key), \"apns_topic\": \"own\"}}")
        #expect(read.settings.apps.map(\.topic) == ["own"])
        #expect(read.warnings.map(\.problem) == ["\(folder.file("apps/a.json")) is ignored"])
    }

    @Test func `a change counts when two looks find the same`() throws {
        write("1", to: "a.json")
        write("1", to: "b.json")
        var apps = try AppFolder(folder.file("apps"))
        #expect(apps.apps == ["a", "b"])
        #expect(apps.look() == [])
        write("22", to: "a.json")
        write("1", to: "c.json")
        unlink(folder.file("apps/b.json"))
        #expect(apps.look() == [])
        write("333", to: "a.json")
        #expect(apps.look() == ["b", "c"], "a is being written")
        #expect(apps.look() == ["a"])
        #expect(apps.look() == [])
        #expect(apps.has("c") && !apps.has("b"))
    }

    @Test func `a swap of the link behind the links changes the files, as Kubernetes does`() throws {
        for (version, text) in [("v1", "1"), ("v2", "2")] {
            mkdir(folder.file("apps/..\(version)"), 0o755)
            write(text, to: "..\(version)/a.json")
        }
        symlink("..v1", folder.file("apps/..data"))
        symlink("..data/a.json", folder.file("apps/a.json"))
        var apps = try AppFolder(folder.file("apps"))
        #expect(apps.apps == ["a"])
        symlink("..v2", folder.file("apps/..data_tmp"))
        rename(folder.file("apps/..data_tmp"), folder.file("apps/..data"))
        #expect(apps.look() == [])
        #expect(apps.look() == ["a"])
        rename(folder.file("apps"), folder.file("gone"))
        #expect(apps.look() == [] && apps.look() == [], "a folder that cannot be read has not changed")
    }
}
