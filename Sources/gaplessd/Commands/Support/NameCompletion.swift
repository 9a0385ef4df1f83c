import ArgumentParser
import RedisQueue

/// Completes names of the settings file that a command line names, and of the campaigns in its Redis, for shells.
enum NameCompletion {
    static let apps = CompletionKind.custom { words, _, _ in read(words)?.appNames ?? [] }

    static let lists = CompletionKind.custom { words, _, _ in read(words)?.lists ?? [] }

    /// The campaigns that Redis names; none if it does not answer soon.
    static let campaigns = CompletionKind.custom { words, _, _ in
        guard let settings = read(words), var client = try? RedisAccess.connect(settings, timeout: patience) else { return [] }
        let names = settings.lists.flatMap { list in
            (try? CampaignList(Keys(list: list)).names(most: mostNames, &client)) ?? []
        }
        // A shell reads one name per line.
        return names.filter { $0.printable == $0 }
    }

    private static let patience = Duration.seconds(2)
    private static let mostNames = 100

    /// Returns the settings; of a faulty file only its apps.
    private static func read(_ words: [String]) -> Settings? {
        let usual = SettingsArgument.standardPath.map { [$0] } ?? []
        for path in words.dropFirst() + usual where !path.hasPrefix("-") && FileStamp(path: path) != nil {
            do throws(SettingsErrors) {
                return try Configuration.read(SettingsFile(path: path)).settings
            } catch {
                // A call, or another argument, may have the name of a file.
                if !error.apps.isEmpty { return Settings(apps: error.apps) }
            }
        }
        return nil
    }
}
