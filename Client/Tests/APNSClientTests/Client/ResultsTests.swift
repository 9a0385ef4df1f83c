import APNSClient
import APNSSimulator
import Harness
import Testing

@Suite("The results of a sequence")
struct ResultsTests {
    private func pushes(_ count: Int) -> some Sequence<Push> {
        (0..<count).lazy.map { try! ClientFixture.push($0) }
    }

    @Test(arguments: [1, 7, 5000])
    func `has one for each push, with a bound`(limit: Int) async throws {
        let fixture = try ClientFixture()
        let client = try fixture.client()
        fixture.answer(3, .status(410, "Unregistered"))
        var indexes: Set<Int> = []
        var failures: [PushResult] = []
        for await result in client.results(ofSending: pushes(2000), atMost: limit) {
            #expect(indexes.insert(result.index).inserted)
            #expect(result.push.target == .device(deviceToken(result.index)))
            if case .failure = result.result { failures.append(result) }
        }
        #expect(indexes == Set(0..<2000))
        #expect(failures.map(\.index) == [3])
        await client.shutdown()
    }

    @Test func `has one for each push that fails before it is sent`() async throws {
        let fixture = try ClientFixture()
        let client = try fixture.client()
        let pushes = try (0..<100).map { number in
            var push = try ClientFixture.push(number)
            push.collapseID = number == 50 ? "valid" : ""
            return push
        }
        var indexes: Set<Int> = []
        for await result in client.results(ofSending: pushes) {
            #expect(indexes.insert(result.index).inserted)
            if case .failure(let error) = result.result { #expect(error.cause == .invalid) }
        }
        #expect(indexes == Set(0..<100))
        #expect(fixture.simulator.totals.accepted == 1)
        await client.shutdown()
    }

    @Test func `come in the order of completion`() async throws {
        let fixture = try ClientFixture()
        let client = try fixture.client()
        _ = try await client.send(ClientFixture.push(100))
        fixture.answer(0, .delay(.milliseconds(500), then: .accept))
        var order: [Int] = []
        for await result in client.results(ofSending: pushes(5)) { order.append(result.index) }
        #expect(order.last == 0)
        await client.shutdown()
    }

    @Test func `takes pushes only as results are read`() async throws {
        final class Counter: Sequence, IteratorProtocol {
            var taken = 0
            func next() -> Push? {
                taken += 1
                return try? ClientFixture.push(taken)
            }
        }
        let fixture = try ClientFixture()
        let client = try fixture.client()
        let counter = Counter()
        var read = 0
        for await _ in client.results(ofSending: counter, atMost: 10) {
            read += 1
            #expect(counter.taken <= read + 10)
            if read == 100 { break }
        }
        #expect(await eventually { fixture.simulator.totals.openConnections == 2 })
        await client.shutdown()
    }

    @Test func `ends after the cancellation of its task, with a result for each push that was taken`() async throws {
        let fixture = try ClientFixture {
            $0.behaviour.tokenStreamLimit = 100
            $0.behaviour.script.tokenPlans = [.init(prefix: "", answers: [.silent], repeatsLast: true)]
        }
        let client = try fixture.client()
        let pushes = Array(pushes(100))
        let reader = Task {
            var causes: [APNSError.Cause] = []
            for await result in client.results(ofSending: pushes, atMost: 10) {
                if case .failure(let error) = result.result { causes.append(error.cause) }
            }
            return causes
        }
        #expect(await eventually { fixture.simulator.totals.requests == 10 })
        reader.cancel()
        #expect(await reader.value == Array(repeating: .cancelled, count: 10))
        await client.shutdown()
    }
}
