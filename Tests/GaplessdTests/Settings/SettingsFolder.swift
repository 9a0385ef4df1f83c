import Harness

@testable import gaplessd

/// A folder with a settings file, deleted at the end of the test.
final class SettingsFolder: Sendable {
    private let folder = TemporaryFolder()

    var path: String { folder.path }

    func file(_ name: String) -> String { folder.file(name) }

    @discardableResult
    func write(_ content: String, to name: String = "settings.json") -> String {
        let file = file(name)
        do { try File.write(content, to: file) } catch { preconditionFailure("cannot write \(file): \(error)") }
        return file
    }

    /// Reads settings as the daemon does, with the environment of the test.
    func read(_ content: String, environment: [String: String] = [:]) throws(SettingsErrors) -> Configuration {
        try Configuration.read(SettingsFile(path: write(content)) { environment[$0] })
    }

    /// Returns the faults of settings without the file before them: `KEY: problem; expected …`.
    func faults(_ content: String, environment: [String: String] = [:]) -> [String] {
        do {
            _ = try read(content, environment: environment)
            return []
        } catch {
            return error.lines.map { String($0.dropFirst(file("settings.json").count + 2)) }
        }
    }
}

/// Returns settings with the required keys and more members.
func settings(_ members: String = "", apns: String = smallestAPNS) -> String {
    "{" + apns + #", "redis_queue_key": "q""# + (members.isEmpty ? "" : ", " + members) + "}"
}

let smallestAPNS =
    #""apns_server": "sandbox", "apns_auth_key_path": "k.p8", "apns_auth_key_id": "ABCDE12345", "apns_team_id": "TEAM123456""#
