import Harness
import Platform
import Testing

@testable import Faults

/// The quick rows of the fault table, with small counts. `make chaos` runs all rows with large counts.
@Suite("The fault table, small")
struct FaultTableTests {
    private static let seed = UInt64.random(in: 1...999_999)

    @Test(arguments: Fault.all.filter(\.isQuick).map(\.name))
    func `no job is lost`(row: String) async throws {
        try await ThreadPool.shared.run {
            let fault = try #require(Fault.all.first { $0.name == row })
            let result: Trial.Result
            do {
                result = try fault.run(scale: .small, seed: Self.seed)
            } catch let error as TrialNotPossibleError {
                return print("row \(row) was not run: \(error)")
            }
            #expect(result.failures == [], "gapless-lab chaos --small --fault \(row) --seed \(Self.seed)")
            #expect(result.times > 0)
            #expect(result.accounting.delivered > 0)
        }
    }

    @Test func `every row has a name of its own`() {
        #expect(Set(Fault.all.map(\.name)).count == Fault.all.count)
    }
}

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

@Suite("The figures of the daemons in a row")
struct DaemonFiguresTests {
    @Test func `figures within their bounds are no failure`() {
        let figures = DaemonFigures(idleShare: 0.05, longestTurn: .milliseconds(250), exitTime: .seconds(9))
        #expect(figures.excesses(judgesTurns: true) == [])
        #expect(DaemonFigures().excesses(judgesTurns: true) == [])
    }

    @Test func `a daemon that is busy without work fails the row`() {
        let excesses = DaemonFigures(idleShare: 0.99).excesses(judgesTurns: false)
        #expect(excesses == ["gaplessd used 99 % of a processor while it had nothing to do"])
    }

    @Test func `a long turn without a reason fails the row`() {
        let figures = DaemonFigures(longestTurn: .milliseconds(251))
        #expect(figures.excesses(judgesTurns: true).count == 1)
        #expect(figures.excesses(judgesTurns: false) == [])
    }

    @Test func `the highest figures count`() {
        var figures = DaemonFigures(idleShare: 0.01, longestTurn: .milliseconds(5))
        figures.add(DaemonFigures(idleShare: 0.02, longestTurn: .milliseconds(4), exitTime: .seconds(1)))
        figures.add(DaemonFigures(exitTime: .milliseconds(10)))
        #expect(figures == DaemonFigures(idleShare: 0.02, longestTurn: .milliseconds(5), exitTime: .seconds(1)))
    }
}

@Suite("Trials at the same time")
struct TogetherTests {
    /// One delivered job, one lost job for each place, and one unexpected delivery.
    private static func result(_ place: Int) -> Trial.Result {
        let ledger = Ledger("200 good id hash\n200 good id hash\n200 strange id hash\n")
        let lost = (0..<place).map { "lost \($0)" }
        return Trial.Result(
            times: 1 + place, accounting: Accounting(queued: Set(lost + ["good", "dead"]), ledger: ledger, dead: ["dead"]),
            bound: 10,
            counted: 20,
            recovery: place == 0 ? nil : .seconds(place), gone: 3,
            figures: DaemonFigures(
                idleShare: 0.01 * Double(place), longestTurn: .milliseconds(place), exitTime: .seconds(3 - place)),
            failures: place == 1 ? ["of one"] : [])
    }

    @Test func `their results are added`() throws {
        let sum = try together(3, Self.result)
        #expect(sum.times == 6)
        #expect(sum.accounting.queued == 9)
        #expect(sum.accounting.delivered == 6)
        #expect(sum.accounting.extra == 3)
        #expect(sum.accounting.dead == 3)
        #expect(sum.accounting.unexpected == 3)
        #expect(sum.accounting.lost == 3)
        #expect((sum.bound, sum.counted, sum.gone) == (30, 60, 9))
        #expect(sum.recovery == .seconds(2))
        #expect(sum.figures == DaemonFigures(idleShare: 0.02, longestTurn: .milliseconds(2), exitTime: .seconds(3)))
        #expect(sum.failures == ["of one"])
    }

    @Test func `a failed trial throws, and the others run to their end`() {
        let ended = Locked(0)
        #expect(throws: TrialError.self) {
            _ = try together(4) { place in
                if place == 2 { throw TrialError(description: "not back") }
                ended.withLock { $0 += 1 }
                return Self.result(place)
            }
        }
        #expect(ended.withLock { $0 } == 3)
    }

    @Test func `they run at the same time`() throws {
        let present = Locked(0)
        let sum = try together(3) { place in
            present.withLock { $0 += 1 }
            guard waitUntil(atMost: .seconds(30), { present.withLock { $0 } == 3 }) else {
                throw TrialError(description: "alone")
            }
            return Self.result(place)
        }
        #expect(sum.times == 6)
    }
}
