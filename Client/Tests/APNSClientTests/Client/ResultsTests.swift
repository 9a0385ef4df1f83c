import APNSClient
import APNSSimulator
import Harness
import Platform
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

@Suite("The results of an asynchronous sequence")
struct AsyncResultsTests {
    private struct SourceError: Error {}

    private func pushes(_ count: Int) throws -> [Push] { try (0..<count).map { try ClientFixture.push($0) } }

    private func stream(_ count: Int) throws -> AsyncStream<Push> {
        let pushes = try pushes(count)
        return AsyncStream { stream in
            for push in pushes { stream.yield(push) }
            stream.finish()
        }
    }

    @Test(arguments: [-1, 1, 7, 5000])
    func `have one for each push, with a bound`(limit: Int) async throws {
        let fixture = try ClientFixture()
        let client = try fixture.client()
        fixture.answer(3, .status(410, "Unregistered"))
        var indexes: Set<Int> = []
        var failures: [Int] = []
        for await result in client.results(ofSending: try stream(1000), atMost: limit) {
            #expect(indexes.insert(result.index).inserted)
            #expect(result.push.target == .device(deviceToken(result.index)))
            if case .failure = result.result { failures.append(result.index) }
        }
        #expect(indexes == Set(0..<1000))
        #expect(failures == [3])
        await client.shutdown()
    }

    @Test func `arrive while the sequence waits for its next push`() async throws {
        let fixture = try ClientFixture()
        let client = try fixture.client()
        let (pushes, source) = AsyncStream.makeStream(of: Push.self)
        var results = client.results(ofSending: pushes).makeAsyncIterator()
        for number in 0..<20 {
            source.yield(try ClientFixture.push(number))
            #expect(await results.next()?.index == number)
        }
        source.finish()
        #expect(await results.next() == nil)
        #expect(await results.next() == nil)
        await client.shutdown()
    }

    @Test func `take pushes only while there is room`() async throws {
        let fixture = try ClientFixture()
        let client = try fixture.client()
        let taken = Locked(0)
        let pushes = AsyncStream(unfolding: { () -> Push? in
            let number = taken.withLock { taken -> Int in
                taken += 1
                return taken
            }
            return try? ClientFixture.push(number)
        })
        var read = 0
        for await _ in client.results(ofSending: pushes, atMost: 10) {
            #expect(taken.withLock { $0 } <= read + 11)
            read += 1
            if read == 100 { break }
        }
        await client.shutdown()
        #expect(taken.withLock { $0 } <= 110)
    }

    @Test func `end with the error of the sequence, after the results of its pushes`() async throws {
        let fixture = try ClientFixture()
        let client = try fixture.client()
        let fifty = try pushes(50)
        let pushes = AsyncThrowingStream(Push.self) { stream in
            for push in fifty { stream.yield(push) }
            stream.finish(throwing: SourceError())
        }
        var read = 0
        await #expect(throws: SourceError.self) {
            for try await _ in client.results(ofSending: pushes) { read += 1 }
        }
        #expect(read == 50)
        await client.shutdown()
    }

    @Test func `end after the cancellation of the task, with a result for each push that was taken`() async throws {
        let fixture = try ClientFixture {
            $0.behaviour.tokenStreamLimit = 100
            $0.behaviour.script.tokenPlans = [.init(prefix: "", answers: [.silent], repeatsLast: true)]
        }
        let client = try fixture.client()
        let (pushes, source) = AsyncStream.makeStream(of: Push.self)
        for number in 0..<100 { source.yield(try ClientFixture.push(number)) }
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

    @Test func `cancel the taking of pushes when the loop ends early`() async throws {
        let fixture = try ClientFixture()
        let client = try fixture.client()
        let isOver = Locked(false)
        let (pushes, source) = AsyncStream.makeStream(of: Push.self)
        source.onTermination = { _ in isOver.withLock { $0 = true } }
        source.yield(try ClientFixture.push())
        for await _ in client.results(ofSending: pushes) { break }
        #expect(await eventually { isOver.withLock { $0 } })
        await client.shutdown()
    }
}
