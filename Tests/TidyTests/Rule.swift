import Testing

/// A rule of the tree, and the paths that still break it.
enum Rule: String {
    case folderOrder = "a file names types of its own or lower folders"
    case ownersOfC = "only owners of C objects import C modules"
    case oneType = "a type lives in a file of its own name"
    case onePart = "a type has at most one file with a plus sign"
    case folderSize = "a folder has at most 16 files"
    case lineLength = "a line has at most 130 characters"
    case mannerisms = "English is plain"
    case ownSentences = "no code matches a sentence of ours"
    case sleeping = "no test sleeps"
    case readme = "README.md has at most 250 lines"
    case documents = "every page is linked and every link resolves"

    /// Paths that still break a rule. An entry leaves this list for good; a new one is not added.
    private static let pending: [Rule: [String]] = [
        .folderOrder: ["Sources/PushPool/Shared/", "Sources/gaplessd/Settings/"], .oneType: ["Sources/gaplessd/Settings/"],
        .onePart: ["Sources/gaplessd/"], .folderSize: ["Sources/gaplessd/Dispatcher", "Sources/gaplessd/Settings"],
        .lineLength: [
            "Lab/FaultTable/", "Lab/Harness/", "Lab/gapless-lab/", "Sources/JSONBytes/", "Sources/PushPool/",
            "Sources/RedisQueue/", "Sources/Sockets/", "Sources/StatusServer/", "Sources/Threads/", "Sources/gaplessd/",
            "Tests/GaplessdTests/", "Tests/RedisQueueTests/",
        ],
        .mannerisms: ["Sources/", "Lab/", "Tests/", "docs/complaints.md"], .ownSentences: ["Sources/gaplessd/Redis/"],
    ]

    /// Fails for every violation, except that those of pending paths are only printed. A violation begins with its path.
    func expectNone(_ violations: [String]) {
        let paths = Self.pending[self] ?? []
        let pending = violations.filter { violation in paths.contains { violation.hasPrefix($0) } }
        let failures = violations.filter { !pending.contains($0) }
        if !pending.isEmpty {
            print("\(pending.count) pending violations of \"\(rawValue)\":\n\(pending.joined(separator: "\n"))")
        }
        #expect(failures.isEmpty, "\(failures.count) violations of \"\(rawValue)\":\n\(failures.joined(separator: "\n"))")
    }
}
