import JSONBytes
import Testing

@testable import gaplessd

@Suite("The table of settings")
struct SettingsTableTests {
    private let file = SettingsFile(path: "settings.json") { _ in nil }

    @Test func `Each key occurs once and has a help text of one sentence`() {
        let names = SettingsTable.keys.flatMap { [$0.name, $0.fileName].compactMap(\.self) }
        #expect(Set(names).count == names.count)
        for key in SettingsTable.keys {
            #expect(key.help.hasSuffix(".") && key.help.count { $0 == "\n" } == 0, "\(key.name): \(key.help)")
            #expect(key.scope == .daemon || key.name.hasPrefix("apns_") || key.name == "max_rate", "\(key.name)")
        }
    }

    @Test func `Each default is a valid value of its key`() throws {
        let keys = SettingsTable.keys.filter { $0.defaultText != nil }
        #expect(keys.count > 30)
        for key in keys {
            let text = try #require(key.defaultText)
            let value = (try? JSONValue.parse(Array(text.utf8))) ?? .string(text)
            var draft = SettingsDraft()
            #expect(throws: Never.self, "\(key.name): \(text)") { try key.read(value, file, &draft) }
        }
    }

    @Test func `A file of defaults is equal to a file without them`() throws {
        let folder = SettingsFolder()
        let members = SettingsTable.keys.compactMap { key in
            key.defaultText.map { text in
                let isJSON = (try? JSONValue.parse(Array(text.utf8))) != nil
                return "\"\(key.name)\": \(isJSON ? text : "\"\(text)\"")"
            }
        }
        let plain = try folder.read(settings()).settings
        #expect(try folder.read(settings(members.joined(separator: ", "))).settings == plain)
    }
}
