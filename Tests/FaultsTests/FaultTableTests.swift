import Faults
import Harness
import Testing

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
