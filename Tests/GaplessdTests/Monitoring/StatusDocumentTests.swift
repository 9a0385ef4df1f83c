import Harness
import JSONBytes
import Platform
import PushPool
import RedisQueue
import Testing

@testable import gaplessd

extension StatusDocument {
    /// The document of a daemon with these readings, without a past.
    static func sample(
        _ reading: RedisReading, _ snapshot: ProcessSnapshot?, now: Instant = .now, file: String = "/etc/my app.json",
        redacts: Bool = false
    ) -> StatusDocument {
        StatusDocument(
            reading: reading, notice: snapshot.map { .init(snapshot: $0, at: now) },
            history: History(lists: reading.lists.map(\.name)),
            system: SystemFacts(started: 0, residentBytes: 1, processorSeconds: 0), now: now,
            wallClock: WallClock(seconds: 1_799_000_000), options: Options(file: file, redacts: redacts))
    }

    /// Two apps and one list, in good health.
    static func healthySnapshot() -> ProcessSnapshot {
        ProcessSnapshot(
            apps: [
                .init(name: nil, sessions: 2, capacity: 2000, held: 7, streams: 5, tokenAge: .seconds(90)),
                .init(name: "beta", sessions: 1, capacity: 1000, certificateExpires: 1_800_000_000),
            ],
            lists: [.init(name: "q", isConnected: true, sinceContact: .seconds(2))])
    }

    static func sampleReading(_ name: String = "q", dead: Int = 0) -> RedisReading {
        var status = QueueStatus()
        (status.backlog, status.dead) = (41, dead)
        status.counters = [.sent: 1234]
        return RedisReading(taken: .now, lists: [.init(name: name, status: status, sentPerSecond: 12.34)])
    }

    /// Dead letters with markup in their texts.
    static func sampleLetters() -> DeadLetterSummary {
        var letters = DeadLetterSummary()
        letters.reasons = [("Unregistered", 2), ("no <reason>", 1)]
        letters.latest = [
            DeadLetterBrief(
                record: Array(
                    """
                    {"reason": "Unregistered", "status": 410, "apns_id": null, "identifier": "<b>", "token": "0123456789abcdef", \
                    "attempts": 1, "at": 1799000000, "worker": "w", "job": "{\\"token
                    """.utf8))
        ]
        return letters
    }
}

extension JSONValue {
    fileprivate var elements: [JSONValue] { if case .array(let elements) = self { elements } else { [] } }
    fileprivate var keys: [String] { if case .object(let members) = self { members.map(\.key) } else { [] } }

    /// The names of all members, those of apps, lists and so on included.
    fileprivate var allKeys: Set<String> {
        switch self {
        case .object(let members): members.reduce(into: []) { $0.formUnion([$1.key] + $1.value.allKeys) }
        case .array(let elements): elements.reduce(into: []) { $0.formUnion($1.allKeys) }
        default: []
        }
    }
}

@Suite("The document /status.json")
struct StatusDocumentTests {
    private func document(
        _ reading: RedisReading = StatusDocument.sampleReading(),
        _ snapshot: ProcessSnapshot? = StatusDocument.healthySnapshot(), redacts: Bool = false
    ) -> JSONValue {
        StatusDocument.sample(reading, snapshot, redacts: redacts).object
    }

    @Test func `names its version, and whether the daemon is ready`() {
        let ready = document()
        #expect(ready["version"]?.line == "1")
        #expect(ready["at"]?.integerValue == 1_799_000_000)
        #expect(ready["ready"]?.boolValue == true)
        #expect(ready["faults"]?.line == "[]" && ready["redis_fault"] == .null)
        #expect(ready["settings"]?.stringValue == "/etc/my app.json")
        #expect(ready["process"]?["version"]?.stringValue == gaplessdVersion)
    }

    @Test func `has the members of status --json with the same figures`() throws {
        let status = QueueStatus()
        let call = JSONValue.object(StatusDocument.fromRedis([.init(name: "q", status: status, reasons: [])]))
        let page = document()
        #expect(Set(page.keys).isSuperset(of: call.keys))
        let (list, other) = (try #require(page["lists"]?.elements.first), try #require(call["lists"]?.elements.first))
        #expect(list.keys == other.keys + ["sent_per_second", "age", "drain", "dead_latest"])
        #expect(page["backlog"]?.integerValue == 41 && list["backlog"]?.integerValue == 41)
        #expect(list["counters"]?["sent"]?.integerValue == 1234)
        #expect(list["sent_per_second"]?.doubleValue == 12.34)
    }

    @Test func `has the members of an app as a worker reports them, and more`() throws {
        var held = StatusDocument.healthySnapshot()
        held.apps[0].bottleneck = .window
        held.apps[1].hold = .suspectTokens
        let apps = try #require(document(StatusDocument.sampleReading(), held)["apps"]).elements
        let reported = try #require(
            WorkerState().firstRecord(of: held.apps).flatMap { try? JSONValue.parse($0.apps) }?.elements.first)
        #expect(apps[0].keys == reported.keys + ["in_flight", "backlog", "round_trip", "certificate_expires", "token_age"])
        #expect(apps.map { $0["app"]?.stringValue } == ["beta", "(top level)"], "the app with a problem comes first")
        #expect(apps.map { $0["bottleneck"]?.stringValue } == ["none", "window"])
        #expect(apps.map { $0["held"] } == [.string("suspect_tokens"), .null])
        #expect(
            apps[0]["reason"]?.stringValue == "APNs has rejected 20 device tokens in a row: wrong environment or topic?")
        #expect(apps[1]["token_age"]?.doubleValue == 90 && apps[0]["certificate_expires"]?.integerValue == 1_800_000_000)
    }

    @Test func `lists the faults, and has no figure of a list without Redis`() {
        let away = document(RedisReading(taken: .now, fault: "no <answer>"), nil)
        #expect(away["ready"]?.boolValue == false)
        #expect(away["faults"]?.line == #"["starting"]"#)
        #expect(away["redis_fault"]?.stringValue == "no <answer>")
        #expect(away["lists"] == nil && away["backlog"] == nil)
        #expect(away["apps"] == .null)
    }

    @Test func `an unknown age is null, and a known one in seconds`() throws {
        #expect(document()["lists"]?.elements.first?["age"] == .null)
        var known = StatusDocument.sampleReading()
        (known.lists[0].age, known.lists[0].drain) = (.milliseconds(1500), 90)
        let list = try #require(document(known)["lists"]?.elements.first)
        #expect(list["age"]?.doubleValue == 1.5 && list["drain"]?.doubleValue == 90)
    }

    @Test func `dead letters have their reasons and the latest, with tokens as log_redact allows`() throws {
        var some = StatusDocument.sampleReading(dead: 3)
        some.lists[0].letters = StatusDocument.sampleLetters()
        let list = try #require(document(some)["lists"]?.elements.first)
        #expect(list["dead_reasons"]?.line == #"{"Unregistered": 2, "no <reason>": 1}"#)
        #expect(
            list["dead_latest"]?.line == #"[{"at": 1799000000, "status": 410, "reason": "Unregistered", "identifier": "<b>", "#
                + #""token": "0123456789abcdef"}]"#
        )
        let redacted = try #require(document(some, redacts: true)["lists"]?.elements.first)
        #expect(redacted["dead_latest"]?.elements.first?["token"]?.stringValue == "01234567")
        #expect(!redacted.line.contains("0123456789"))
    }

    @Test func `has the last hour, with null for unknown points`() throws {
        var document = StatusDocument.sample(StatusDocument.sampleReading(), StatusDocument.healthySnapshot())
        let start = Instant.now
        for point in 0...3 {
            var reading = StatusDocument.sampleReading()
            reading.lists[0].status.backlog = point
            if point == 2 { reading = RedisReading(taken: start, fault: "away") }
            document.history.observe(reading, nil, now: start + History.interval * point)
        }
        let history = try #require(document.object["history"])
        #expect(history["lists"]?.elements.first?["backlog"]?.line == "[1.0, null, 3.0]")
        #expect(history["interval"]?.doubleValue == 10 && history["points"]?.integerValue == 360)
    }

    @Test func `docs/metrics.md describes each member`() {
        var all = StatusDocument.sampleReading(dead: 3)
        all.lists[0].letters = StatusDocument.sampleLetters()
        all.lists[0].status.pauses = [QueuePause(.app("beta"), record: Array("{}".utf8))]
        all.lists[0].status.asides = ["beta": 3]
        all.lists[0].status.workers = [.init(name: "w", inFlight: 0, details: [:])]
        var document = StatusDocument.sample(all, StatusDocument.healthySnapshot())
        var snapshot = StatusDocument.healthySnapshot()
        for point in 0...1 {
            document.history.observe(all, snapshot, now: .now + History.interval * point)
            _ = snapshot.apps[0].responses.count(.timedOut)
        }
        let keys = document.object.allKeys.subtracting(Counter.allCases.map(\.rawValue) + ["Unregistered", "no <reason>"])
        let page = Checkout.read("docs/metrics.md")
        let section = page.firstRange(of: "## The document").map { page[$0.upperBound...] } ?? ""
        let named = Set(section.split(separator: "`").map(String.init))
        #expect(keys.subtracting(named) == [])
    }
}

extension WorkerState {
    fileprivate func firstRecord(of apps: [ProcessSnapshot.App]) -> WorkerRecord.Fields? {
        var state = self
        return state.record(of: apps, now: .now)
    }
}
