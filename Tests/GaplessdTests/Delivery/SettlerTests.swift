import Testing

@testable import gaplessd

@Suite("A share of the delivered pushes in the log")
struct SuccessSamplerTests {
    @Test(arguments: [(0.0, 0), (0.01, 10), (0.3, 300), (0.999, 999), (1.0, 1000)])
    func `is exact and even`(share: Double, count: Int) {
        var sampler = SuccessSampler()
        let taken = (0..<1000).map { _ in sampler.takesNext(share: share) }
        #expect(taken.count { $0 } == count)
        if share == 0.01 { #expect(taken.indices.filter { taken[$0] } == (0..<10).map { $0 * 100 + 99 }) }
    }

    @Test func `follows a change of the share`() {
        var sampler = SuccessSampler()
        let taken = [0.5, 1, 0.5].map { sampler.takesNext(share: $0) }
        #expect(taken == [false, true, true])
    }
}
