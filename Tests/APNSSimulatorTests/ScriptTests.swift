import Platform
import Testing

@testable import APNSSimulator

@Suite("Scripted answers")
struct ScriptTests {
    private func token(_ number: Int) -> [UInt8] {
        Array((String(repeating: "0", count: 64) + String(number, radix: 16)).suffix(64).utf8)
    }

    private func answers(_ script: Script, _ count: Int) -> [Answer] {
        var player = ScriptPlayer(script)
        return (0..<count).map { player.answer(for: token($0)) }
    }

    @Test func `every request is accepted without a script`() {
        #expect(answers(Script(), 100).allSatisfy { $0 == .accept })
    }

    @Test func `the same seed gives the same answers`() {
        let shares = [Script.Share(.usual(503), 0.3), Script.Share(.silent, 0.2)]
        #expect(answers(Script(seed: 7, failures: shares), 200) == answers(Script(seed: 7, failures: shares), 200))
        #expect(answers(Script(seed: 7, failures: shares), 200) != answers(Script(seed: 8, failures: shares), 200))
    }

    @Test func `about the configured share of the requests fails`() {
        let all = answers(Script(seed: 3, failures: [.init(.usual(503), 0.02), .init(.usual(429), 0.05)]), 20_000)
        #expect((300...500).contains(all.count { $0 == .usual(503) }))
        #expect((850...1150).contains(all.count { $0 == .usual(429) }))
    }

    @Test func `the same tokens are always unregistered`() {
        var player = ScriptPlayer(Script(seed: 5, deadShare: 0.1))
        let first = (0..<5000).map { player.answer(for: token($0)) }
        let second = (0..<5000).reversed().map { player.answer(for: token($0)) }
        #expect(first == second.reversed())
        #expect((400...600).contains(first.count { $0 == .status(410, "Unregistered") }))
    }

    @Test func `with failTimes, the same tokens fail that often and are then accepted`() {
        var player = ScriptPlayer(Script(seed: 5, failures: [.init(.usual(503), 0.25)], failTimes: 2))
        let rounds = (0..<3).map { _ in (0..<400).map { player.answer(for: token($0)) } }
        #expect(rounds[0] == rounds[1])
        #expect((60...140).contains(rounds[0].count { $0 == .usual(503) }))
        #expect(rounds[2].allSatisfy { $0 == .accept })
    }

    @Test func `the plan of a token applies in order and in any case, before the script`() {
        var player = ScriptPlayer(Script(failures: [.init(.usual(500), 1)]))
        player.plan(token: "AB01".utf8, [.usual(503), .silent, .accept])
        let all = ["ab01", "AB01", "aB01", "ab01"].map { player.answer(for: Array($0.utf8)) }
        #expect(all == [.usual(503), .silent, .accept, .usual(500)])
        #expect(player.answer(for: Array("cd".utf8)) == .usual(500))
    }

    @Test func `each token of a prefix has its own position in the plan`() throws {
        var player = ScriptPlayer(Script(tokenPlans: [try .init("DE=503*2,200")]))
        for text in ["de01", "de02", "DE01"] { #expect(player.answer(for: Array(text.utf8)) == .usual(503)) }
        #expect(["de01", "de01", "ff"].map { player.answer(for: Array($0.utf8)) } == [.accept, .accept, .accept])
    }

    @Test func `the latency is within its bounds and precedes every answer`() {
        let script = Script(failures: [.init(.usual(503), 0.5)], latency: .milliseconds(20)...(.milliseconds(40)))
        for answer in answers(script, 200) {
            guard case .delay(let time, let then) = answer else {
                Issue.record("\(answer) comes at once")
                return
            }
            #expect(time >= .milliseconds(20) && time <= .milliseconds(40))
            #expect(then == .accept || then == .usual(503))
        }
    }

    @Test func `the syntax of the command line is parsed`() throws {
        #expect(try Answer("503") == .status(503, "ServiceUnavailable"))
        #expect(try Answer("403:ExpiredProviderToken") == .status(403, "ExpiredProviderToken"))
        #expect(try Answer("20ms+cut-after") == .delay(.milliseconds(20), then: .closeConnection(recorded: true)))
        #expect(try Answer("rst:7") == .resetStream(code: 7))
        #expect(try Script.Share("429:TooManyRequests:0.5%") == .init(.status(429, "TooManyRequests"), 0.005))
        #expect(try Script.Share("silent:0.25").fraction == 0.25)
        #expect(try Script.TokenPlan("aB=503,200,goaway").answers == [.usual(503), .accept, .goAway(GoAway(last: .belowThis))])
        #expect(try Script.latency("20ms..1.5s") == .milliseconds(20)...(.milliseconds(1500)))
    }

    @Test(arguments: ["", "99", "600", "abc", "200:Reason", "rst:x", "5s+", "-1ms+200", "7200s+200", "silent:x", "nan+200"])
    func `an invalid answer is rejected`(text: String) {
        #expect(throws: ScriptSyntaxError.self) { try Answer(text) }
    }

    @Test(arguments: ["503", "503:", "503:101%", "503:-1%", "503:x%", "503:nan"])
    func `an invalid share is rejected`(text: String) {
        #expect(throws: ScriptSyntaxError.self) { try Script.Share(text) }
    }

    @Test(arguments: ["503", "xy=503", "ab=503*0", "ab=503*x", "ab=nope"])
    func `an invalid plan is rejected`(text: String) {
        #expect(throws: ScriptSyntaxError.self) { try Script.TokenPlan(text) }
    }

    @Test func `deadlines are ordered by time, then by insertion`() {
        var random = SeededRandom(seed: 11)
        var deadlines = Deadlines<Int>()
        let start = Instant.now
        let times = (0..<500).map { _ in Int(random.next() % 50) }
        for (number, time) in times.enumerated() { deadlines.add(number, at: start + .seconds(time)) }
        #expect(deadlines.popDue(start - .seconds(1)) == nil)
        var order: [Int] = []
        while let next = deadlines.popDue(start + .seconds(60)) { order.append(next) }
        #expect(order == times.indices.sorted { (times[$0], $0) < (times[$1], $1) })
    }
}
