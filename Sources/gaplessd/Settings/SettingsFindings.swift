import JSONBytes
import PushPool

/// Collects the faults and warnings of a settings file and of the files that it names.
struct SettingsFindings: Sendable, Equatable {
    private(set) var faults: [SettingsError] = []
    private(set) var warnings: [SettingsError] = []
    /// The file in `apps_dir` that the next faults and warnings are about; `nil` for the settings file.
    var file: String?

    mutating func fault(_ key: String, _ problem: String, expected: String) {
        faults.append(SettingsError(key: key, problem: problem, expected: expected, file: file))
    }

    mutating func fault(_ fault: SettingsError) { faults.append(fault) }

    /// - Parameter sentence: the problem and what is expected.
    mutating func fault(_ key: String, sentence: String) {
        faults.append(SettingsError(key: key, problem: sentence, remedy: "", file: file))
    }

    mutating func warn(_ key: String, _ problem: String, _ consequence: String) {
        warnings.append(SettingsError(key: key, problem: problem, remedy: consequence, file: file))
    }

    mutating func warn(_ warning: SettingsError) { warnings.append(warning) }

    /// Reads a file that the settings name, without a byte order mark; `nil` after a fault.
    ///
    /// - Parameter shown: the file in a fault; `nil` is its path.
    mutating func read(
        _ path: String, at key: String, atMost most: Int = 4 << 20, expected: String = "a file that this user can read",
        shown: String? = nil
    ) -> [UInt8]? {
        do {
            return try FileBytes.read(path, atMost: most).withoutByteOrderMark
        } catch {
            fault(key, "\(shown ?? path) cannot be read: \(error)", expected: expected)
            return nil
        }
    }
}

/// One fault or warning about a key of the settings: one line for the operator.
struct SettingsError: Error, Sendable, Equatable {
    /// `retry_limit`, or `apps.beta.apns_topic`; empty for the file as a whole.
    var key: String
    var problem: String
    /// The second half of the line: `expected …` in a fault. Empty where the problem contains it.
    var remedy: String
    /// The file in `apps_dir`; `nil` for the settings file.
    var file: String?

    /// `settings.json: retry_limit: 1001 is out of range; expected an integer from 0 to 1000`
    func line(file: String) -> String { self.file == nil ? "\(file.orQuotes.printable): \(line)" : line }

    /// The line without the settings file.
    var line: String {
        (file.map { "\($0.printable): " } ?? "") + (key.isEmpty ? "" : "\(key.printable): ") + problem.printable
            + (remedy.isEmpty ? "" : "; \(remedy.printable)")
    }
}

extension SettingsError {
    init(key: String, problem: String, expected: String, file: String? = nil) {
        self.init(key: key, problem: problem, remedy: "expected \(expected)", file: file)
    }
}

/// All faults of a settings file and of the files that it names.
struct SettingsErrors: Error, Sendable, Equatable {
    /// A client certificate that was readable. `check` shows it even if the credential cannot be used.
    struct Certificate: Sendable, Equatable {
        enum Owner: Sendable, Equatable {
            /// `nil` is the top level.
            case app(String?)
            case redis
        }

        var owner: Owner
        var path: String
        var facts: CertificateFacts
    }

    var file: String
    var faults: [SettingsError]
    /// The apps of the file, faulty ones included, so that their files can be checked as well.
    var apps: [Settings.App] = []
    var certificates: [Certificate] = []
    /// The files that the settings name.
    var files: Set<String> = []
    /// The content of a file that is no JSON object, and whether its JSON ends too early.
    var digest = 0
    var isIncomplete = false

    var lines: [String] { faults.map { $0.line(file: file) } }
}

/// The fault of a value.
struct SettingError: Error {
    var text: String
    /// `nil` is what the type expects.
    var expected: String?

    static func invalid(_ value: JSONValue) -> SettingError { SettingError(text: "invalid value \(value.shown)") }
}
