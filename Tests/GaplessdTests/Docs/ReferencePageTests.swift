import ArgumentParser
import Harness
import Testing

@testable import gaplessd

@Suite("The pages that list keys, calls and exit codes")
struct ReferencePageTests {
    /// The first cell of each table row below a heading, up to the next heading.
    private static func firstCells(of heading: String, in page: String) -> [String] {
        let section = Checkout.read(page).components(after: "\n## \(heading)\n")
        return section.split(separator: "\n").filter { $0.hasPrefix("| ") && !$0.hasPrefix("|--") }.dropFirst().map { row in
            row.dropFirst(2).prefix { $0 != "|" }.split(separator: " ").joined(separator: " ")
        }
    }

    @Test func `docs/jobs.md has each key of a job, and no other`() {
        let keys = Self.firstCells(of: "Keys", in: "docs/jobs.md").flatMap { $0.matches(of: /`(\w+)`/).map { String($0.1) } }
        // The marks are not for producers.
        let known = JobKey.allCases.map { "\($0.name)" }.filter { !$0.hasPrefix("_") }
        #expect(keys.count == Set(keys).count)
        #expect(Set(keys) == Set(known))
    }

    @Test func `docs/calls.md has each exit code, and no other`() {
        let codes = Self.firstCells(of: "Exit codes", in: "docs/calls.md").compactMap { Int32($0) }
        let known: [ExitCode] = [
            .success, .failure, .validationFailure, .badInput, .serviceUnavailable, .settingsFault,
        ]
        #expect(codes == known.map(\.rawValue))
    }

    @Test func `docs/calls.md has a section for each call but the daemon itself`() {
        let headings = Checkout.read("docs/calls.md").split(separator: "\n").filter { $0.hasPrefix("## ") }
        let titles = headings.map { $0.dropFirst(3).prefix { $0 != ":" }.split(separator: " ") }
        let calls = Gaplessd.configuration.subcommands.compactMap { $0.configuration.commandName }
        #expect(calls.count > 15)
        #expect(calls.filter { call in call != "run" && !titles.contains { $0.contains(Substring(call)) } } == [])
    }
}

extension String {
    /// The text behind a heading, up to the next one of the second level.
    fileprivate func components(after heading: String) -> Substring {
        guard let start = firstRange(of: heading)?.upperBound else { return "" }
        return self[start..<(self[start...].firstRange(of: "\n## ")?.lowerBound ?? endIndex)]
    }
}
