/// Collects the faults and warnings of a settings file and of the files that it names.
struct SettingsFindings: Sendable, Equatable {
    private(set) var faults: [SettingsError] = []
    private(set) var warnings: [SettingsError] = []

    mutating func fault(_ key: String, _ problem: String, expected: String) {
        faults.append(SettingsError(key: key, problem: problem, expected: expected))
    }

    mutating func fault(_ fault: SettingsError) { faults.append(fault) }

    /// - Parameter sentence: the problem and what is expected.
    mutating func fault(_ key: String, sentence: String) {
        faults.append(SettingsError(key: key, problem: sentence, remedy: ""))
    }

    mutating func warn(_ key: String, _ problem: String, _ consequence: String) {
        warnings.append(SettingsError(key: key, problem: problem, remedy: consequence))
    }

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
