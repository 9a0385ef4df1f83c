import Testing

/// A rule of the tree.
enum Rule: String {
    case folderOrder = "a file names types of its own or lower folders"
    case ownersOfC = "only owners of C objects import C modules"
    case lineLength = "a line has at most 130 characters"
    case mannerisms = "English is plain"
    case ownSentences = "no code matches a sentence of ours"
    case sleeping = "no test sleeps"
    case readme = "README.md has at most 1,300 words"
    case documents = "every page is linked and every link resolves"

    /// Fails for every violation. A violation begins with its path.
    func expectNone(_ violations: [String]) {
        #expect(violations.isEmpty, "\(violations.count) violations of \"\(rawValue)\":\n\(violations.joined(separator: "\n"))")
    }
}
