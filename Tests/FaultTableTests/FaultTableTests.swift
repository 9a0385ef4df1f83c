import FaultTable
import Harness
import Testing

/// The rows of the fault table that take seconds, with small counts. `make chaos` runs all of them with large ones.
@Suite("The fault table, small", .serialized)
struct FaultTableTests {
    private static let seed = UInt64.random(in: 1...999_999)

    @Test(arguments: Fault.all.filter(\.isQuick).map(\.name))
    func `nothing is lost`(row: String) throws {
        let fault = try #require(Fault.all.first { $0.name == row })
        let result: Trial.Result
        do {
            result = try fault.run(scale: .small, seed: Self.seed)
        } catch let error as TrialNotPossible {
            return print("row \(row) was not run: \(error)")
        }
        #expect(result.failures == [], "gapless-lab chaos --small --fault \(row) --seed \(Self.seed)")
        #expect(result.times > 0)
        #expect(result.balance.delivered > 0)
    }

    @Test func `every row has a name of its own`() {
        #expect(Set(Fault.all.map(\.name)).count == Fault.all.count)
    }
}
