import ArgumentParser
import RedisQueue

/// Completes names of the settings file that a command line names, for shells.
enum NameCompletion {
    static let apps = CompletionKind.custom { words, _, _ in
        names(in: words) { $0.apps.map { $0.name ?? PauseNote.topLevel } }
    }

    static let lists = CompletionKind.custom { words, _, _ in names(in: words, \.lists) }

    /// - Parameter read: returns names of the settings; a faulty file has its apps.
    private static func names(in words: [String], _ read: (Settings) -> [String]) -> [String] {
        let usual = SettingsArgument.standardPath.map { [$0] } ?? []
        for path in words.dropFirst() + usual where !path.hasPrefix("-") && FileStamp(path: path) != nil {
            do throws(SettingsErrors) {
                return read(try Configuration.read(SettingsFile(path: path)).settings)
            } catch {
                // A call, or another argument, may have the name of a file.
                if !error.apps.isEmpty { return read(Settings(apps: error.apps)) }
            }
        }
        return []
    }
}
