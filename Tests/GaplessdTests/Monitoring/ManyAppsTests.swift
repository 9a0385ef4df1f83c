import JSONBytes
import Platform
import PushPool
import RedisQueue
import Testing

@testable import gaplessd

/// 5,000 apps: one held, one paused, one without a session, one limited, and 50 with jobs.
private func manyApps(_ change: (inout [ProcessSnapshot.App]) -> Void = { _ in }) -> [ProcessSnapshot.App] {
    var apps = (0..<5000).map { number in
        ProcessSnapshot.App(
            name: "customer-\(number)", sessions: 2, capacity: 2000, held: number % 100 == 50 ? number : 0, bottleneck: .noJobs)
    }
    apps[4001].hold = .credential("InvalidProviderToken")
    apps[4002].isPaused = true
    (apps[4003].capacity, apps[4003].sessions) = (0, 0)
    apps[4004].bottleneck = .window
    change(&apps)
    return apps
}

private func reading(asides: [String: Int] = [:]) -> RedisReading {
    var status = QueueStatus()
    status.asides = asides
    return RedisReading(taken: .now, lists: [.init(name: "q", status: status)])
}

@Suite("Views of many apps")
struct ManyAppsTests {
    @Test func `those with problems come first, then the busiest, then the number of the others`() {
        let apps = manyApps()
        let overview = AppOverview(apps.map { $0.rank() }, most: 6)
        #expect(overview.shown.prefix(4) == [4001, 4003, 4002, 4004])
        #expect(overview.shown.suffix(2).allSatisfy { apps[$0].held >= 4096 })
        #expect(overview.total == 5000 && overview.hidden == 4994)
        #expect(
            overview.object.line == #"{"total": 5000, "held": 1, "paused": 1, "no_session": 1, "limited": 1}"#)
    }

    @Test func `apps of the same rank keep their order while their load changes a little`() {
        let ranks = { (loads: [Int]) in loads.map { AppRank(.none, load: $0) } }
        #expect(AppOverview(ranks([1000, 1020, 5, 600]), most: 4).shown == [0, 1, 3, 2])
        #expect(AppOverview(ranks([900, 800, 7, 1000]), most: 4).shown == [0, 1, 3, 2])
        #expect(AppOverview(ranks([0, -5, .max, 1]), most: 4).shown == [2, 3, 0, 1])
    }

    @Test func `the document has at most 100 of them, and any by its name`() throws {
        let snapshot = ProcessSnapshot(apps: manyApps(), lists: [.init(name: "q", isConnected: true)])
        var asides = Dictionary(uniqueKeysWithValues: (0..<5000).map { ("customer-\($0)", $0 + 1) })
        asides["customer-77"] = 1_000_000
        var document = StatusDocument.sample(reading(asides: asides), snapshot)
        let all = document.object
        #expect(all.bytes.count < 100_000, "\(all.bytes.count)")
        guard case .array(let apps)? = all["apps"] else { throw Unexpected(all.line) }
        #expect(apps.count == AppOverview.mostOnPage)
        #expect(apps.prefix(4).map { $0["app"]?.stringValue } == [4001, 4003, 4002, 4004].map { "customer-\($0)" })
        #expect(apps[4]["app"]?.stringValue == "customer-77" && apps[4]["backlog"]?.integerValue == 1_000_000)
        #expect(all["apps_selected"]?.integerValue == 5000 && all["app_counts"]?["total"]?.integerValue == 5000)
        guard case .array(let lists)? = all["lists"], case .array(let aside)? = lists[0]["asides"] else {
            throw Unexpected("no lists")
        }
        #expect(aside.count == StatusDocument.mostAsides && lists[0]["aside_apps"]?.integerValue == 5000)
        #expect(aside[0]["app"]?.stringValue == "customer-77" && aside[0]["jobs"]?.integerValue == 1_000_000)
        document.appFilter = "CUSTOMER-499"
        let some = document.object
        guard case .array(let found)? = some["apps"] else { throw Unexpected(some.line) }
        #expect(found.count == 11 && some["apps_selected"]?.integerValue == 11)
        #expect(found.allSatisfy { $0["app"]?.stringValue?.contains("customer-499") == true })
        #expect(some["app_counts"]?["held"]?.integerValue == 1, "the numbers are of all apps")
    }

    @Test func `5,000 held apps, pauses, workers and reasons leave the document small`() {
        var apps = manyApps()
        for index in apps.indices { apps[index].hold = .suspectTokens }
        let note = PauseNote(QueuePause(.app("a"), record: Array("{}".utf8)))
        var snapshot = ProcessSnapshot(apps: apps, lists: [.init(name: "q", isConnected: true)])
        snapshot.lists[0].pauses = Array(repeating: note, count: 5000)
        var all = reading()
        var state = WorkerState()
        let record = state.record(of: apps, now: .now)
        let details = [WorkerRecord.apps: String(decoding: record?.apps ?? [], as: UTF8.self)]
        all.lists[0].status.workers = (0..<1000).map { .init(name: "w\($0)", inFlight: $0, details: details) }
        all.lists[0].status.pauses = (0..<5000).map { QueuePause(.app("a\($0)"), record: Array("{}".utf8)) }
        all.lists[0].letters = DeadLetterSummary()
        all.lists[0].letters?.reasons = (0..<5000).map { ("expected ',' at byte \($0)", 1) }
        let document = StatusDocument.sample(all, snapshot)
        #expect(document.object.bytes.count < 250_000, "\(document.object.bytes.count)")
        #expect(document.object["workers"]?.integerValue == 1000)
        let faults = Readiness.faults(document.notice, now: document.now)
        #expect(faults.count == Readiness.mostApps + 1)
        #expect(faults.last == "4,980 more apps held or without a session")
    }

    @Test func `a held app among others is a warning, and all of them are not ready`() {
        func state(_ change: (inout ProcessSnapshot) -> Void) -> Readiness.State {
            var snapshot = StatusDocument.healthySnapshot()
            change(&snapshot)
            return Readiness.state(.init(snapshot: snapshot, at: .now), now: .now)
        }
        #expect(state { _ in } == .ready)
        #expect(state { $0.apps[0].hold = .suspectTokens } == .degraded)
        #expect(state { ($0.apps[0].hold, $0.apps[1].capacity) = (.suspectTokens, 0) } == .notReady)
        #expect(state { $0.lists[0].isConnected = false } == .notReady)
        #expect(Readiness.state(nil, now: .now) == .notReady)
    }

    @Test func `the record in Redis has 50 of them and the numbers of all, and is not written with each change of load`() throws {
        var state = WorkerState()
        let start = Instant.now
        let first = state.record(of: manyApps(), now: start)
        let record = try #require(first)
        #expect(record.apps.count < 20_000, "\(record.apps.count)")
        let busier = state.record(of: manyApps { $0[7].held = 100_000 }, now: start + .seconds(1))
        #expect(busier == nil)
        let held = state.record(of: manyApps { $0[7].hold = .suspectTokens }, now: start + .seconds(2))
        #expect(held != nil)
        let worker = QueueStatus.Worker(
            name: "w", inFlight: 0,
            details: [
                WorkerRecord.apps: String(decoding: record.apps, as: UTF8.self),
                WorkerRecord.appCounts: String(decoding: record.counts, as: UTF8.self),
            ])
        #expect(ReportedApp.all(of: worker).count == AppOverview.mostReported && ReportedApp.total(of: worker) == 5000)
        #expect(
            ReportedApp.sentence(ReportedApp.counts(of: worker))
                == "5,000 apps: 1 held, 1 paused, 1 without a session, 1 limited")
    }
}

@Suite("The labels of apps in the metrics")
struct AppLabelTests {
    private func text(_ apps: [ProcessSnapshot.App], _ labels: inout AppLabels, asides: [String: Int] = [:]) -> String {
        let snapshot = ProcessSnapshot(apps: apps, lists: [])
        return MetricsReport(
            reading(asides: asides), .init(snapshot: snapshot, at: .now),
            SystemFacts(started: 0, residentBytes: 1, processorSeconds: 0), &labels, now: .now, wallClock: WallClock(seconds: 1)
        ).text
    }

    private func labels(in text: String) -> Set<String> {
        Set(text.matches(of: #/app="([^"]*)"/#).map { String($0.output.1) })
    }

    private func value(_ name: String, in text: String) -> Double? {
        text.split(separator: "\n").first { $0.hasPrefix(name + " ") }.flatMap { Double($0.split(separator: " ").last ?? "") }
    }

    @Test func `5,000 apps have 50 labels and other, which has the sums`() {
        var labels = AppLabels()
        let text = text(manyApps(), &labels, asides: ["customer-4001": 7, "customer-1": 5, "customer-2": 6])
        let found = self.labels(in: text)
        #expect(found.count == AppLabels.most + 1 && found.contains(AppLabels.other))
        #expect(text.utf8.count < 300_000, "\(text.utf8.count)")
        #expect(found.contains("customer-4001") && found.contains("customer-4003"), "those with problems")
        #expect(text.contains(#"gapless_app_held{app="customer-4001",reason="credential"} 1"# + "\n"))
        #expect(text.contains(#"gapless_app_held{app="other",reason="credential"} 0"# + "\n"))
        #expect(text.contains(#"gapless_app_backlog{queue="q",app="customer-4001"} 7"# + "\n"))
        #expect(text.contains(#"gapless_app_backlog{queue="q",app="other"} 11"# + "\n"))
        let sessions = text.matches(of: #/gapless_sessions_open\{app="[^"]*"\} (\d+)/#).reduce(0) { $0 + (Int($1.output.1) ?? 0) }
        #expect(sessions == 2 * 4999)
    }

    @Test func `more than 50 held apps are counted in other`() {
        var labels = AppLabels()
        let text = text(manyApps { for index in 0..<80 { $0[index].hold = .suspectTokens } }, &labels)
        #expect(value(#"gapless_app_held{app="other",reason="suspect_tokens"}"#, in: text) == 30)
    }

    @Test func `50 apps keep their labels, and an app of the name other has none`() {
        var labels = AppLabels()
        let few = Array(manyApps().prefix(50))
        #expect(self.labels(in: text(few, &labels)).count == 50)
        var named = manyApps()
        (named[0].name, named[0].held) = ("other", 1_000_000)
        let text = text(named, &labels)
        #expect(text.split(separator: "\n").count { $0.hasPrefix(#"gapless_app_in_flight{app="other"}"#) } == 1)
        #expect(value(#"gapless_app_in_flight{app="other"}"#, in: text) ?? 0 >= 1_000_000)
    }

    @Test func `two apps of about the same load do not take turns, and no counter falls`() {
        var labels = AppLabels()
        var apps = manyApps { for index in $0.indices { $0[index].held = 0 } }
        for index in 0..<60 { for _ in 0..<(100 - index) { apps[index].responses.countAcceptance() } }
        let first = text(apps, &labels)
        let shown = self.labels(in: first)
        let counter = { (text: String) in
            self.value(#"gapless_responses_total{app="other",status="200",reason="Accepted"}"#, in: text) ?? 0
        }
        var last = counter(first)
        #expect(last > 0)
        // The 60th catches up, and then has more than twice as many as the last one with a label.
        for step in 0..<4 {
            for _ in 0..<60 { apps[59].responses.countAcceptance() }
            let text = text(apps, &labels)
            let isIn = self.labels(in: text).contains("customer-59")
            #expect(isIn == (step >= 1), "step \(step)")
            if !isIn { #expect(self.labels(in: text) == shown) }
            #expect(counter(text) >= last)
            last = counter(text)
        }
        // A problem displaces a quieter app at once.
        apps[999].hold = .failing
        #expect(self.labels(in: text(apps, &labels)).contains("customer-999"))
        // An app that is removed and added again begins at zero.
        apps[58].responses = ResponseFigures()
        #expect(counter(text(apps, &labels)) >= last)
    }
}
