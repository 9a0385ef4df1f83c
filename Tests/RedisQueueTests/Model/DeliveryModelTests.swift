import Glibc
import Harness
import Platform
import Testing

@testable import RedisQueue

/// `make model` runs more: MODEL_DEPTH steps in every order, and random schedules for MODEL_SECONDS. With MODEL_COPIES=1
/// random schedules also copy workers; few of these still fail.
@Suite("The model of delivery")
struct DeliveryModelTests {
    private static func number(_ name: String) -> Int? {
        guard let value = unsafe getenv(name) else { return nil }
        return unsafe Int(String(cString: value))
    }

    @Test(.timeLimit(.minutes(30)), arguments: DeliveryModel.Start.allCases)
    func `no order of the first steps loses a job or applies a settlement twice`(from start: DeliveryModel.Start) throws {
        let depth = Self.number("MODEL_DEPTH") ?? 2
        let model = try DeliveryModel(hasCopies: true)
        var path: [Int] = []
        var schedules = 0
        repeat {
            var widths: [Int] = []
            do {
                try model.run(from: start, mostFaults: 2) { width in
                    if widths.count == depth { return nil }
                    widths.append(width)
                    if path.count < widths.count { path.append(0) }
                    return path[widths.count - 1]
                }
            } catch {
                Issue.record("\(error); steps: \(model.trace)")
                return
            }
            schedules += 1
            while let last = path.last, last + 1 >= widths[path.count - 1] { path.removeLast() }
            if !path.isEmpty { path[path.count - 1] += 1 }
        } while !path.isEmpty
        print("model: \(start), every order of the first \(depth) steps: \(schedules) schedules, \(model.steps) steps")
    }

    @Test(.timeLimit(.minutes(1500))) func `no random schedule loses a job or applies a settlement twice`() throws {
        let seed = Self.number("SEED").map(UInt64.init) ?? .random(in: 0...999_999)
        let end = Instant.now + .seconds(Self.number("MODEL_SECONDS") ?? 3)
        let hasCopies = Self.number("MODEL_COPIES") == 1
        let model = try DeliveryModel(hasCopies: hasCopies)
        var schedules: UInt64 = 0
        repeat {
            // Each schedule has a seed of its own, so that the last one can be replayed alone.
            var random = SeededGenerator(seed: seed + schedules)
            let length = Int.random(in: 5...60, using: &random)
            var count = 0
            do {
                let starts = DeliveryModel.Start.allCases.filter { hasCopies || $0 != .copied }
                let start = starts.randomElement(using: &random) ?? .serving
                try model.run(from: start, mostFaults: Int.random(in: 0...4, using: &random)) { width in
                    count += 1
                    return count > length ? nil : Int.random(in: 0..<width, using: &random)
                }
            } catch {
                Issue.record("\(error); SEED=\(seed + schedules); steps: \(model.trace)")
                return
            }
            schedules += 1
        } while Instant.now < end
        print("model: \(schedules) random schedules from seed \(seed), \(model.steps) steps")
    }
}
