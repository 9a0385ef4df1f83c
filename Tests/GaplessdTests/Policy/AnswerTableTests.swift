import APNSSimulator
import Glibc
import Harness
import JSONBytes
import RedisQueue
import Testing

@Suite("Every answer of APNs, as docs/answers.md says")
struct AnswerTableTests {
    @Test func `the table has every reason of Apple's, with its status, and the usual ends`() {
        for reason in Reason.allCases {
            let rows = AnswerTable.rows.filter { $0.reason == reason.rawValue }
            #expect(!rows.isEmpty && rows.allSatisfy { $0.status == reason.status }, "\(reason)")
        }
        let ends: Set = [
            "delivered", "dead letter", "dead letter, token dead", "dead letter, token suspect", "counted retry", "sent again",
            "new provider token", "held", "counted retry, app waits",
        ]
        #expect(Set(AnswerTable.rows.map(\.end)) == ends)
    }

    /// One daemon, one token for each row: first the answer, then an acceptance.
    @Test func `each is settled as the table says`() throws {
        let rows = AnswerTable.rows.filter { $0.end != "held" && $0.end != "counted retry, app waits" }
        let stage = try Stage()
        let daemon = try stage.start()
        try stage.open(daemon)
        for (number, row) in rows.enumerated() {
            let answer = row.status == 200 ? Answer.accept : .status(row.status, row.reason)
            stage.simulator.plan(token: deviceToken(number), answers: [answer])
        }
        try stage.push(
            rows.indices.map { number in
                let topic = rows[number].namesTopic == "yes" ? #","topic":"\#(Stage.topic)""# : ""
                return pushJob(deviceToken(number), #""identifier":\#(number)\#(topic)"#)
            })
        let dead = rows.count { $0.end.hasPrefix("dead letter") }
        #expect(try stage.accept(until: { try stage.status().dead == dead }))
        #expect(try stage.drains())
        let letters = try stage.deadLetters()
        let feedback = try stage.feedback()
        for (number, row) in rows.enumerated() {
            let token = deviceToken(number)
            let letter = letters.filter { $0.text("token") == token }
            let note = feedback.filter { $0.text("token") == token }
            let sends = stage.simulator.ledger.requests(for: token).count
            let isDead = row.end.hasPrefix("dead letter")
            #expect(letter.count == (isDead ? 1 : 0), "\(row): \(letter)")
            #expect(stage.simulator.ledger.acceptedCount(token: token) == (isDead ? 0 : 1), "\(row)")
            #expect(sends == (isDead || row.end == "delivered" ? 1 : 2), "\(row): \(sends) sends")
            #expect(note.compactMap { $0.text("verdict") } == (row.verdict.map { [$0] } ?? []), "\(row): \(note)")
            if isDead {
                #expect(
                    letter.first?.number("status") == Int64(row.status) && letter.first?.text("reason") == row.reason, "\(row)")
            }
            let warning =
                "SendPayload Error (ID \(number)): \(row.status)\(row.reason.isEmpty ? "" : " " + row.reason). "
                + "Retrying count (1)."
            #expect(daemon.says(warning, atMost: .zero) == (row.end == "counted retry"), "\(row)")
        }
        #expect(try stage.counter(.retried) == rows.count { $0.end == "counted retry" })
        #expect(try stage.counter(.maybeDuplicate) == 0)
        #expect(daemon.stop()?.status == 0)
    }

    @Test(arguments: AnswerTable.rows.filter { $0.end == "counted retry, app waits" })
    func `a response about the whole credential costs its job a retry, and other jobs nothing`(row: AnswerTable.Row) throws {
        let stage = try Stage()
        let daemon = try stage.start()
        try stage.open(daemon)
        stage.simulator.plan(token: "aa", answers: [.status(row.status, row.reason)])
        try stage.push(pushJob("aa"))
        #expect(daemon.says("Its jobs stay in the queue until APNs accepts one"), "\(row)")
        try stage.push((0..<10).map { pushJob(deviceToken($0)) })
        daemon.signal(SIGHUP)
        #expect(stage.accepts(12), "\(row)")
        #expect(try stage.drains())
        #expect(try stage.counter(.retried) == 1)
        #expect(daemon.stop()?.status == 0)
    }

    @Test(arguments: AnswerTable.holds)
    func `a response that holds an app costs no job and no retry`(row: AnswerTable.Row) throws {
        let stage = try Stage()
        let daemon = try stage.start()
        try stage.open(daemon)
        stage.simulator.behave { $0.script.failures = [.init(.status(row.status, row.reason), 1)] }
        let jobs = (0..<10).map { pushJob(deviceToken($0)) }
        try stage.push(jobs)
        #expect(
            daemon.says("Its jobs stay in the queue until APNs accepts one"),
            "\(row): \(daemon.standardError.suffix(2000)) \(stage.simulator.totals)")
        #expect(try waitUntil { try stage.status().backlog == 10 && stage.status().inFlight == 0 }, "\(row)")
        #expect(try Set(stage.backlog()) == Set(jobs))
        stage.simulator.behave { $0.script.failures = [] }
        daemon.signal(SIGHUP)
        #expect(stage.accepts(11), "\(row)")
        #expect(try stage.drains())
        #expect(try stage.counter(.retried) == 0)
        #expect(try stage.status().dead == 0)
        #expect(daemon.stop()?.status == 0)
    }
}

extension AnswerTable.Row {
    /// The verdict of the feedback list on the token.
    fileprivate var verdict: String? {
        switch end {
        case "dead letter, token dead": "dead"
        case "dead letter, token suspect": "suspect"
        default: nil
        }
    }
}
