import JSONBytes
import Platform
import PushPool
import Testing

@testable import RedisQueue
@testable import gaplessd

@Suite("The state of the apps in the worker's record")
struct WorkerStateTests {
    private let start = Instant.now

    private func app(_ change: (inout ProcessSnapshot.App) -> Void = { _ in }) -> ProcessSnapshot.App {
        var app = ProcessSnapshot.App(name: "beta", sessions: 2, capacity: 100, streams: 3)
        change(&app)
        return app
    }

    @Test func `a change of the bottleneck, the hold, a pause or the sessions is written at once`() throws {
        var state = WorkerState()
        let first = state.record(of: [app()], now: start)
        let members = try JSONValue.parse(try #require(first).apps)
        var apps: [JSONValue] = []
        if case .array(let elements) = members { apps = elements }
        try #require(apps.count == 1)
        #expect(apps.map { $0["app"] } == [.string("beta")])
        #expect(apps[0]["bottleneck"]?.stringValue == "none")
        let changes: [(inout ProcessSnapshot.App) -> Void] = [
            { $0.bottleneck = .window }, { $0.hold = .suspectTokens }, { $0.isPaused = true }, { $0.sessions = 3 },
        ]
        for (step, change) in changes.enumerated() {
            let record = state.record(of: [app(change)], now: start + .milliseconds(100 * (step + 1)))
            #expect(record != nil, "\(step)")
        }
    }

    @Test func `figures alone are written every ten seconds, and nothing that is the same`() {
        var state = WorkerState()
        _ = state.record(of: [app()], now: start)
        let busy = app { $0.streams = 9 }
        let idle = app { ($0.streams, $0.bottleneck) = (9, .noJobs) }
        let written = [(busy, 9), (busy, 10), (busy, 30), (idle, 31)].map {
            state.record(of: [$0], now: start + .seconds($1)) != nil
        }
        #expect(written == [false, true, false, false])
    }

    @Test func `status reads what the worker has written`() throws {
        var state = WorkerState()
        let held = app { $0.hold = .suspectTokens }
        let limited = app { $0.bottleneck = .rateLimit }
        let written = state.record(of: [held, limited, app()], now: start)
        let record = try #require(written)
        let worker = QueueStatus.Worker(
            name: "w", inFlight: 0, details: [WorkerRecord.apps: String(decoding: record.apps, as: UTF8.self)])
        let apps = ReportedApp.all(of: worker)
        #expect(apps.map(\.state) == ["held: suspect tokens", "open", "open"])
        #expect(
            apps.map(\.remark) == [
                "app beta is held: APNs has rejected 20 device tokens in a row: wrong environment or topic?",
                "app beta is limited by: rate limit", nil,
            ])
        #expect(ReportedApp.all(of: .init(name: "w", inFlight: 0, details: [WorkerRecord.apps: "{nonsense"])).isEmpty)
        #expect(ReportedApp.all(of: .init(name: "w", inFlight: 0, details: [:])).isEmpty)
    }
}

@Suite("The bottleneck of an app")
struct BottleneckTests {
    private func figures(_ limit: Limitation? = nil, roundTrip: Duration = .zero) -> PoolFigures {
        var figures = PoolFigures()
        figures.roundTrip = roundTrip
        if let limit { figures.blocked[limit.rawValue] = .seconds(1) }
        return figures
    }

    private func bottleneck(
        _ figures: PoolFigures, responses: Int = 1000, app: ProcessSnapshot.App? = nil, list: ProcessSnapshot.List? = nil,
        sharesRateLimit: Bool = false
    ) -> Bottleneck {
        var app = app ?? .init(capacity: 100, held: 100, streams: 100)
        app.figures = figures
        return Bottleneck(
            app, [list ?? .init(name: "q", isConnected: true)],
            limit: figures.limit(since: PoolFigures(), within: .seconds(1)), perResponse: .seconds(1) / max(1, responses),
            sharesRateLimit: sharesRateLimit)
    }

    @Test func `full streams are the distance, or slow responses`() {
        // 100 streams and 500 responses a second: 200 ms each.
        #expect(bottleneck(figures(.streams, roundTrip: .milliseconds(150)), responses: 500) == .streams)
        #expect(bottleneck(figures(.streams, roundTrip: .milliseconds(20)), responses: 500) == .apns)
        #expect(bottleneck(figures(.streams), responses: 0) == .apns)
        #expect(bottleneck(figures(.window)) == .window)
        #expect(bottleneck(figures(.rateLimit)) == .rateLimit)
        #expect(bottleneck(figures(.socket)) == .connection)
    }

    @Test func `a slow Redis limits only while jobs wait`() {
        let slow = ProcessSnapshot.List(name: "q", isConnected: true, latency: .milliseconds(80), hasBacklog: true)
        #expect(bottleneck(figures(), list: slow) == .redis)
        #expect(bottleneck(figures(.streams), responses: 0, list: slow) == .apns, "the limit that pushes wait for comes first")
        let idle = ProcessSnapshot.List(name: "q", isConnected: true, latency: .milliseconds(80))
        #expect(bottleneck(figures(), list: idle) == .none)
        #expect(bottleneck(figures(), list: .init(name: "q")) == .redis)
        #expect(bottleneck(figures(), list: slow, sharesRateLimit: true) == .rateLimit, "max_rate is one for all apps")
    }

    @Test func `the meter finds those of apps with pools, and leaves the others as they are`() {
        var meter = BottleneckMeter()
        let start = Instant.now
        func snapshot() -> ProcessSnapshot {
            var asleep = ProcessSnapshot.App(name: "asleep", isIdle: true)
            asleep.bottleneck = .noJobs
            return ProcessSnapshot(
                apps: [asleep, .init(name: "busy", capacity: 100, held: 100, streams: 100)],
                lists: [.init(name: "q", isConnected: true)])
        }
        var before = snapshot()
        meter.add([(1, PoolFigures())], to: &before, now: start)
        var after = snapshot()
        meter.add([(1, figures(.window))], to: &after, now: start + .seconds(1))
        #expect(after.apps.map(\.bottleneck) == [.noJobs, .window])
        #expect(after.apps[0].figures == PoolFigures() && after.apps[1].figures == figures(.window))
        var more = snapshot()
        more.apps[0] = .init(name: "awake", capacity: 100, held: 1)
        meter.add([(0, figures(.rateLimit)), (1, figures(.window))], to: &more, now: start + .milliseconds(1900))
        #expect(more.apps.map(\.bottleneck) == [.rateLimit, .window], "it had no pool before")
    }

    @Test func `an app whose jobs all wait in its side list has jobs`() {
        let app = ProcessSnapshot.App(capacity: 100, hasAside: true)
        #expect(bottleneck(figures(), app: app) == .none)
        #expect(bottleneck(figures(), app: app, sharesRateLimit: true) == .rateLimit)
    }

    @Test func `a hold and a pause come first`() {
        var app = ProcessSnapshot.App(capacity: 100, held: 100, streams: 100)
        app.isPaused = true
        #expect(bottleneck(figures(.streams), app: app) == .hold)
        #expect(bottleneck(figures(), app: .init(capacity: 0)) == .connection)
        #expect(bottleneck(figures(), app: .init(capacity: 100)) == .noJobs)
        #expect(bottleneck(figures(), app: .init(capacity: 0, isIdle: true)) == .noJobs, "it has no sessions on purpose")
        #expect(bottleneck(figures(), app: .init(capacity: 0, held: 1, isIdle: true)) == .connection)
    }
}
