import Harness
import Testing

private let root = Checkout.path

/// `make mutants` takes most of an hour. This suite only verifies that its patches apply.
@Suite("The patches of make mutants")
struct BrokenBuildTests {
    private static let folder = root + "/scripts/mutants"
    private static let names = folderEntries(folder).filter { $0.hasSuffix(".patch") }.sorted()

    @Test func `there are more than ten`() {
        #expect(Self.names.count > 10)
    }

    @Test(arguments: names)
    func `a patch applies and changes the code`(name: String) throws {
        let patch = File.read(Self.folder + "/" + name)
        let lines = patch.split(separator: "\n", omittingEmptySubsequences: false)
        let path = try #require(lines.first { $0.hasPrefix("--- a/") }?.dropFirst(6))
        let hunks = patch.split(separator: "\n@@", omittingEmptySubsequences: false).dropFirst()
        #expect(!hunks.isEmpty)
        let code = File.read(root + "/" + path)
        for hunk in hunks {
            let body = hunk.split(separator: "\n", omittingEmptySubsequences: false).dropFirst()
            let before = body.filter { $0.hasPrefix(" ") || $0.hasPrefix("-") }.map { $0.dropFirst() }
            let after = body.filter { $0.hasPrefix(" ") || $0.hasPrefix("+") }.map { $0.dropFirst() }
            #expect(before != after)
            let fits = code.contains(before.joined(separator: "\n"))
            #expect(fits, "\(name) no longer applies to \(path): refit the patch")
        }
    }
}
