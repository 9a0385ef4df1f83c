import Harness
import Testing

@testable import RedisQueue

@Suite("Pages of lists")
struct ListWalkTests {
    private let server: RedisServer
    private let keys = Keys(list: "jobs")

    init() throws { server = try RedisServer() }

    /// All pages, each with at most this many elements.
    private func pages(_ walk: ListWalk, most: Int = 4, width: Int = 1) throws -> [[String]] {
        var client = try RedisClient(settings: server.settings())
        var pages: [[String]] = []
        var read = 0
        while true {
            let page = try walk.page(skipping: read, most: most, &client)
            if page.elements.isEmpty { return pages }
            #expect(page.length == 10)
            pages.append(page.elements.map { String(decoding: $0, as: UTF8.self) })
            read += page.elements.count / width
        }
    }

    @Test func `of a list are read from either end`() throws {
        try server.push((0..<10).map(String.init))
        #expect(try pages(ListWalk("jobs")) == [["0", "1", "2", "3"], ["4", "5", "6", "7"], ["8", "9"]])
        #expect(try pages(ListWalk("jobs", fromTail: true)) == [["9", "8", "7", "6"], ["5", "4", "3", "2"], ["1", "0"]])
    }

    @Test func `of a sorted set have the scores`() throws {
        for number in 0..<10 { try server.ask("ZADD", "set", "\(number + 1)", "m\(number)") }
        let walk = ListWalk("set", isSorted: true)
        #expect(try pages(walk, width: 2).first?.prefix(4) == ["m0", "1", "m1", "2"])
        let backwards = ListWalk("set", isSorted: true, fromTail: true)
        #expect(try pages(backwards, width: 2).first?.prefix(4) == ["m9", "10", "m8", "9"])
        #expect(try pages(backwards, width: 2).map(\.count) == [8, 8, 4])
    }

    @Test func `of a list with passed elements begin with these`() throws {
        for number in 0..<3 { try server.ask("RPUSH", keys.deadPassed, "\(number)") }
        for number in 3..<10 { try server.ask("RPUSH", keys.dead, "\(number)") }
        let walk = ListWalk(keys.dead, passed: keys.deadPassed)
        #expect(try pages(walk) == [["0", "1", "2", "3"], ["4", "5", "6", "7"], ["8", "9"]])
    }

    @Test func `have about a megabyte, and one larger element alone`() throws {
        let large = String(repeating: "x", count: 600_000)
        try server.push((0..<3).map { "\($0)" + large } + [large + large] + (0..<6).map(String.init))
        #expect(try pages(ListWalk("jobs"), most: 100).map(\.count) == [1, 1, 1, 1, 6])
        #expect(try pages(ListWalk("jobs", fromTail: true), most: 100).map(\.count) == [6, 1, 1, 1, 1])
    }

    @Test func `have only the beginnings of records of the daemon, if these suffice`() throws {
        let record = #"{"reason": "BadDeviceToken", "job": "#
        try server.push((0..<9).map { "\(record)\($0)" } + ["a job that is not a record of the daemon"])
        var walk = ListWalk("jobs")
        walk.beginnings = 20
        let elements = try pages(walk).flatMap(\.self)
        #expect(elements.dropLast().allSatisfy { $0 == record.prefix(20) })
        #expect(elements.last == "a job that is not a record of the daemon")
    }
}
