import Platform
import PushPool
import Testing

@testable import gaplessd

@Suite("The plan of the relay")
struct RelayPlanTests {
    private var plan = RelayPlan(
        backoff: Backoff(first: .milliseconds(500), most: .seconds(5), jitter: 0), timeout: .seconds(10))
    private var now = Instant.now

    private static func entries(_ numbers: Range<Int>) -> [RelayEntry] {
        numbers.map { RelayEntry(id: "\($0)-0", fields: []) }
    }

    /// Posts until everything is accepted or set aside, at most so often. Returns the sizes of the batches.
    private mutating func run(
        most: Int = 2000, duration: Duration = .zero, _ judge: ([RelayEntry]) -> RelayPlan.Failure?
    ) -> [Int] {
        var sizes: [Int] = []
        while sizes.count < most {
            plan.acknowledged()
            plan.setAside()
            let batch = plan.next(now: now)
            if batch.isEmpty {
                guard let due = plan.due else { return sizes }
                now = due
                continue
            }
            sizes.append(batch.count)
            if let failure = judge(batch) {
                now += plan.failed(failure, "response", now: now)
            } else {
                plan.accepted(after: duration)
            }
        }
        return sizes
    }

    @Test mutating func `a batch that is too slow is halved at once, and stays small while posts are slow`() {
        plan.received(Self.entries(0..<1000))
        let sizes = run(duration: .seconds(7)) { $0.count > 160 ? .slow : nil }
        #expect(sizes.prefix(3) == [250, 125, 125] && sizes.dropFirst().allSatisfy { $0 == 125 })
    }

    @Test mutating func `batches grow again when posts are quick`() {
        plan.received(Self.entries(0..<900))
        var refusals = 8
        let sizes = run { _ in
            refusals -= 1
            return refusals >= 0 ? .slow : nil
        }
        #expect(sizes.contains(1) && sizes.max() == 250 && sizes.dropFirst(20).contains { $0 > 30 }, "\(sizes)")
    }

    @Test mutating func `a receiver that takes a part of a batch is seldom asked for more`() {
        plan.received(Self.entries(0..<20_000))
        let sizes = run { $0.count > 200 ? .tooLarge : nil }
        #expect(sizes.count { $0 > 200 } < 10, "\(sizes)")
    }

    @Test(arguments: [RelayPlan.Failure.content, .tooLarge, .slow, .other])
    mutating func `one result that is refused alone is set aside after five attempts, and all others go`(
        failure: RelayPlan.Failure
    ) {
        plan.received(Self.entries(0..<600))
        var accepted: Set<String> = []
        var alone = 0
        var more = 600
        for _ in 0..<400 where plan.refused.isEmpty {
            plan.acknowledged()
            let batch = plan.next(now: now)
            if batch.isEmpty {
                now = plan.due ?? now
                // Other results go on.
                plan.received(Self.entries(more..<more + 1))
                more += 1
            } else if batch.contains(where: { $0.id == "300-0" }) {
                if batch.count == 1 { alone += 1 }
                now += plan.failed(failure, "response", now: now)
            } else {
                accepted.formUnion(batch.map(\.id))
                plan.accepted(after: .zero)
            }
        }
        #expect(plan.refused.map(\.entry.id) == ["300-0"] && plan.refused.first?.attempts == 5 && alone >= 5)
        #expect(accepted.isSuperset(of: Self.entries(0..<600).map(\.id).filter { $0 != "300-0" }))
    }

    @Test(arguments: [RelayPlan.Failure.content, .slow, .other])
    mutating func `a receiver that refuses everything gets nothing set aside but one`(failure: RelayPlan.Failure) {
        plan.received(Self.entries(0..<250))
        var setAside = 0
        for _ in 0..<3000 {
            setAside += plan.refused.count
            plan.setAside()
            let batch = plan.next(now: now)
            if batch.isEmpty { now = plan.due ?? now } else { now += plan.failed(failure, "response", now: now) }
        }
        #expect(setAside <= (failure == .content ? 1 : 0))
        var accepted: [String] = []
        _ = run { batch in
            accepted += batch.map(\.id)
            return nil
        }
        #expect(accepted.count == 250 - setAside && Set(accepted).count == accepted.count)
    }

    @Test(arguments: [RelayPlan.Failure.content, .tooLarge, .slow, .other])
    mutating func `a receiver that refuses everything gets few posts`(failure: RelayPlan.Failure) {
        let end = now + .seconds(300)
        var (posts, received) = (0, 0)
        while now < end, posts < 10_000 {
            plan.setAside()
            let room = plan.room
            plan.received(Self.entries(received..<received + room))
            received += room
            let batch = plan.next(now: now)
            if batch.isEmpty {
                now = plan.due ?? now
            } else {
                posts += 1
                now += plan.failed(failure, "response", now: now)
            }
        }
        #expect(posts < 100)
    }

    @Test mutating func `an accepted result is not posted again when Redis delivers it again`() {
        plan.received(Self.entries(0..<2))
        #expect(plan.next(now: now).count == 2)
        plan.accepted(after: .zero)
        plan.received(Self.entries(0..<3))
        #expect(plan.next(now: now).map(\.id) == ["2-0"] && plan.accepted == ["0-0", "1-0"])
    }

    @Test mutating func `results that another relay has taken over are forgotten`() {
        plan.received(Self.entries(0..<4))
        plan.keepOnly(["1-0", "3-0"])
        #expect(plan.next(now: now).map(\.id) == ["1-0", "3-0"])
    }
}
