/// One fault or warning about a key of the settings: one line for the operator.
struct SettingsError: Error, Sendable, Equatable {
    /// `pool_size`, or `apps.beta.apns_topic`; empty for the file as a whole.
    var key: String
    var problem: String
    /// The second half of the line: `expected …` in a fault. Empty where the problem contains it.
    var remedy: String

    init(key: String, problem: String, remedy: String) {
        self.key = key
        self.problem = problem
        self.remedy = remedy
    }

    init(key: String, problem: String, expected: String) {
        self.init(key: key, problem: problem, remedy: "expected \(expected)")
    }

    /// `settings.json: pool_size: 0 is out of range; expected an integer from 1 to 100`
    func line(file: String) -> String { "\(file.orQuotes.printable): \(line)" }

    /// The line without the file.
    var line: String {
        (key.isEmpty ? "" : "\(key.printable): ") + problem.printable + (remedy.isEmpty ? "" : "; \(remedy.printable)")
    }
}
