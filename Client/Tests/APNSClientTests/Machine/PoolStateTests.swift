import PushPool
import Testing

@testable import APNSClient

@Suite("The state of the pool")
struct PoolStateTests {
    private var pool = PoolState()

    private func notification(_ id: UInt64) throws -> PushPool.Notification {
        var cache = SharedHeadersCache()
        return try PushRequest(MachineFixture.push, topic: PushTopic("com.example.app"), cache: &cache, time: 0)
            .notification(id: id, avoiding: nil)
    }

    /// Adds notifications until there is no room. Returns their number.
    private mutating func fill(allowance: Int) throws -> Int {
        var count = 0
        while pool.hasRoom(allowance: allowance) {
            pool.add(try notification(UInt64(count)))
            count += 1
        }
        return count
    }

    @Test(arguments: [(0, Int.max, 0), (1, .max, 2), (100, .max, 200), (1000, .max, 1250), (1000, 20, 20), (0, 1, 0)])
    mutating func `has room for its streams and a batch, within the allowance`(capacity: Int, allowance: Int, room: Int) throws {
        pool.observed(capacity: capacity)
        #expect(try fill(allowance: allowance) == room)
        #expect(pool.isEmpty == (room == 0))
    }

    @Test mutating func `has room again when a send leaves it`() throws {
        pool.observed(capacity: 1)
        _ = try fill(allowance: .max)
        var batch: [PushPool.Notification] = []
        pool.takeOutgoing(into: &batch)
        #expect(batch.map(\.id) == [0, 1])
        pool.removed()
        #expect(try fill(allowance: .max) == 1)
        pool.removed()
        pool.removed()
        #expect(pool.isEmpty)
    }

    @Test mutating func `says why no session is open`() {
        #expect(pool.unreachable == "no session to APNs is open")
        pool.dialFailed("a: refused")
        #expect(pool.unreachable == "no session to APNs is open (a: refused)")
        pool.opened()
        #expect(pool.unreachable == "no session to APNs is open")
        pool.observed(capacity: 1)
        #expect(pool.unreachable == nil)
    }
}
