import ArgumentParser
import RedisQueue

/// Completes names of the settings file that a command line names, for shells.
enum NameCompletion {
    static let apps = CompletionKind.custom { words, _, _ in
        names(in: words) { $0.apps.map { $0.name ?? PauseNote.topLevel } }
    }

    static let lists = CompletionKind.custom { words, _, _ in names(in: words, \.lists) }

    /// The campaigns that Redis names; none if it does not answer soon.
    static let campaigns = CompletionKind.custom { words, _, _ in
        names(in: words) { settings in
            guard var client = try? RedisAccess.connect(settings, timeout: patience) else { return [] }
            let names = settings.lists.flatMap { list in
                (try? CampaignList(Keys(list: list)).names(most: mostNames, &client)) ?? []
            }
            // A shell reads one name per line.
            return names.filter { $0.printable == $0 }
        }
    }

    private static let patience = Duration.seconds(2)
    private static let mostNames = 100

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
