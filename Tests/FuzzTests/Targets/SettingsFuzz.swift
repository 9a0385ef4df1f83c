import JSONBytes
import PushPool

@testable import gaplessd

/// A settings file. Its paths lead nowhere.
enum SettingsFuzz {
    static func run(_ bytes: [UInt8]) throws {
        // A path below a missing folder names no file of this machine.
        guard let tree = try? JSONValue.parse(bytes), case .object(let members) = tree,
            !String(decoding: bytes, as: UTF8.self).contains("/")
        else { return }
        let file = SettingsFile(path: "/missing/settings.json") { $0 == "SET" ? "value" : nil }
        var reader = SettingsReader(file: file)
        do {
            let reading = try reader.read(members)
            for draft in reading.drafts { for key in SettingsTable.keys { _ = key.text(draft) } }
            try check(reading.settings)
        } catch let error as SettingsErrors {
            try BrokenPromise.unless(!error.lines.isEmpty, "settings are refused without a reason")
            for line in error.lines {
                let hasBreak = line.contains("\n") || line.contains("\r")
                try BrokenPromise.unless(!hasBreak, "a fault has several lines")
            }
        }
    }

    /// The sums that the daemon makes of settings.
    private static func check(_ settings: Settings) throws {
        try BrokenPromise.unless(!settings.lists.isEmpty, "settings without a list")
        for delay in settings.retryDelays + [settings.redis.lease, settings.drainTimeout] {
            try BrokenPromise.unless(delay >= .zero && delay <= .seconds(2_592_000), "a span of \(delay)")
        }
        for app in settings.apps {
            let pool = app.pool
            try BrokenPromise.unless((1...100).contains(pool.sessions) && pool.mostSessions <= 100, "a bad number of sessions")
            for failures in [0, 1, 62, 63, 64, 1000, .max] {
                _ = pool.dialBackoff.wait(afterFailures: failures, random: 0.99)
            }
        }
    }
}
