import Testing

@testable import Faults

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
