import Glibc

@testable import gaplessd

/// A folder with a settings file in it, gone with its test.
final class SettingsFolder: Sendable {
    let path: String

    init() {
        var template = Array("/tmp/gaplessd-settings-XXXXXX".utf8CString)
        precondition(mkdtemp(&template) != nil, "cannot make a folder: errno \(errno)")
        path = String(decoding: template.dropLast().map(UInt8.init(bitPattern:)), as: UTF8.self)
    }

    deinit {
        guard let folder = opendir(path) else { return }
        while let entry = readdir(folder) {
            unlink(
                "\(path)/" + withUnsafeBytes(of: &entry.pointee.d_name) { String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self) }
            )
        }
        closedir(folder)
        rmdir(path)
    }

    func file(_ name: String) -> String { "\(path)/\(name)" }

    @discardableResult
    func write(_ content: String, to name: String = "settings.json", mode: mode_t = 0o600) -> String {
        let file = file(name)
        let descriptor = open(file, O_WRONLY | O_CREAT | O_TRUNC, mode)
        precondition(descriptor >= 0, "cannot write \(file): errno \(errno)")
        defer { close(descriptor) }
        let bytes = Array(content.utf8)
        precondition(Glibc.write(descriptor, bytes, bytes.count) == bytes.count)
        return file
    }

    /// Reads settings as the daemon would, with an environment of the test's own.
    func read(_ content: String, environment: [String: String] = [:]) throws(SettingsErrors) -> Settings.Reading {
        try Settings.read(SettingsFile(path: write(content)) { environment[$0] })
    }

    /// What is wrong with settings, one `KEY: problem; remedy` each.
    func faults(_ content: String, environment: [String: String] = [:]) -> [String] {
        do {
            _ = try read(content, environment: environment)
            return []
        } catch {
            return error.lines.map { String($0.dropFirst(file("settings.json").count + 2)) }
        }
    }
}

/// The keys that no settings can do without, and more.
func settings(_ members: String = "", apns: String = smallestAPNS) -> String {
    "{" + apns + #", "redis_queue_key": "q""# + (members.isEmpty ? "" : ", " + members) + "}"
}

let smallestAPNS =
    #""apns_server": "sandbox", "apns_auth_key_path": "k.p8", "apns_auth_key_id": "ABCDE12345", "apns_team_id": "TEAM123456""#
