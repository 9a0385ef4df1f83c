import Harness
import JSONBytes
import Platform
import PushPool
import Testing

@testable import RedisQueue
@testable import gaplessd

/// A daemon of two apps and one list, in good health.
private func healthy() -> ProcessSnapshot {
    var figures = PoolFigures()
    (figures.roundTrip, figures.shortestRoundTrip) = (.milliseconds(90), .milliseconds(80))
    return ProcessSnapshot(
        inFlight: 7, longestTurn: .milliseconds(125),
        apps: [
            .init(name: nil, sessions: 2, capacity: 2000, held: 7, streams: 5, figures: figures, tokenAge: .seconds(90)),
            .init(name: "be\"ta\\\n<b>", sessions: 1, capacity: 1000, certificateExpires: 1_800_000_000),
        ],
        lists: [.init(name: "q", isConnected: true, sinceContact: .seconds(2))])
}

private let now = Instant.now

private func reading(_ name: String = "q") -> RedisReading {
    var status = QueueStatus()
    status.backlog = 41
    status.counters = [.sent: 1234, .maybeDuplicate: 3]
    status.campaigns = [CampaignStatus(id: "sale")]
    return RedisReading(
        taken: now, lists: [.init(name: name, status: status, sentPerSecond: 12.34, age: .milliseconds(1500), drain: 3.25)])
}

private func metrics(_ reading: RedisReading, _ snapshot: ProcessSnapshot?) -> String {
    var labels = AppLabels()
    return MetricsReport(
        reading, snapshot.map { .init(snapshot: $0, at: now) },
        SystemFacts(started: 1.5, residentBytes: 4096, processorSeconds: 0.25, droppedLines: 9), &labels,
        now: now + .milliseconds(500),
        wallClock: WallClock(seconds: 1000)
    ).text
}

@Suite("The text of /metrics")
struct MetricsTests {
    @Test func `contains the figures of Redis and of the process, each in its unit`() {
        let lines = Set(metrics(reading(), healthy()).split(separator: "\n").map(String.init))
        for line in [
            #"gapless_backlog{queue="q"} 41"#, #"gapless_sent_total{queue="q"} 1234"#,
            #"gapless_maybe_duplicate_total{queue="q"} 3"#,
            #"gapless_claimed_total{queue="q"} 0"#, #"gapless_queue_age_seconds{queue="q"} 1.5"#,
            #"gapless_drain_seconds{queue="q"} 3.25"#, "gapless_redis_up 1", #"gapless_redis_connected{queue="q"} 1"#,
            #"gapless_redis_last_contact_timestamp_seconds{queue="q"} 997.5"#, "gapless_worker_in_flight 7",
            #"gapless_sessions_open{app="(top level)"} 2"#, #"gapless_streams_in_use{app="(top level)"} 5"#,
            #"gapless_provider_token_age_seconds{app="(top level)"} 90.0"#,
            #"gapless_certificate_expiry_timestamp_seconds{app="be\"ta\\\n<b>"} 1800000000"#,
            #"gapless_app_held{app="(top level)",reason="credential"} 0"#, "gapless_dispatcher_idle_seconds 0.5",
            "gapless_dispatcher_turn_max_seconds 0.125",
            "gapless_log_lines_dropped_total 9", #"gapless_build_info{version="\#(gaplessdVersion)"} 1"#,
            "process_start_time_seconds 1.5", "process_resident_memory_bytes 4096", "process_cpu_seconds_total 0.25",
            "# TYPE gapless_backlog gauge", "# TYPE gapless_sent_total counter",
        ] {
            #expect(lines.contains(line), "\(line)")
        }
    }

    @Test func `counts the responses of each app by status and reason, and their latencies`() {
        var snapshot = healthy()
        snapshot.apps[0].responses.countAcceptance()
        snapshot.apps[0].responses.record(claimed: now, .init(sent: now + .milliseconds(3), ended: now + .milliseconds(153)))
        let outcomes: [Outcome] = [
            .rejected(Rejection(status: 410, reason: "Unregistered")), .rejected(Rejection(status: 599, reason: "<odd>")),
            .timedOut, .maybeProcessed(.closedByUs), .notProcessed(.closedByUs),
        ]
        for outcome in outcomes { _ = snapshot.apps[0].responses.count(outcome) }
        let lines = Set(metrics(reading(), snapshot).split(separator: "\n").map(String.init))
        for line in [
            #"gapless_responses_total{app="(top level)",status="200",reason="Accepted"} 1"#,
            #"gapless_responses_total{app="(top level)",status="410",reason="Unregistered"} 1"#,
            #"gapless_responses_total{app="(top level)",status="other",reason="other"} 1"#,
            #"gapless_responses_total{app="(top level)",status="none",reason="Timeout"} 1"#,
            #"gapless_responses_total{app="(top level)",status="none",reason="ConnectionLost"} 1"#,
            #"gapless_claim_to_wire_seconds_bucket{app="(top level)",le="0.002"} 0"#,
            #"gapless_claim_to_wire_seconds_bucket{app="(top level)",le="0.005"} 1"#,
            #"gapless_wire_to_response_seconds_bucket{app="(top level)",le="0.1"} 0"#,
            #"gapless_wire_to_response_seconds_bucket{app="(top level)",le="0.2"} 1"#,
            #"gapless_claim_to_response_seconds_bucket{app="(top level)",le="+Inf"} 1"#,
            #"gapless_claim_to_response_seconds_count{app="(top level)"} 1"#,
            "# TYPE gapless_claim_to_wire_seconds histogram",
        ] {
            #expect(lines.contains(line), "\(line)")
        }
    }

    @Test func `names the reason of a held app`() {
        var snapshot = healthy()
        snapshot.apps[0].hold = .credential("InvalidProviderToken")
        let text = metrics(reading(), snapshot)
        #expect(text.contains(#"gapless_app_held{app="(top level)",reason="credential"} 1"# + "\n"))
        #expect(text.contains(#"gapless_app_held{app="(top level)",reason="topic"} 0"# + "\n"))
        snapshot.apps[0].hold = .rule("InvalidPushType")
        #expect(metrics(reading(), snapshot).contains(#"gapless_app_held{app="(top level)",reason="rule"} 1"# + "\n"))
        #expect(
            [
                .credential(""), .topic(""), .suspectTokens, .tokenUpdates, .throttled(""), .failing, .rule("InvalidPushType"),
                .removed,
            ]
            .map(\HoldReason.kind)
                == HoldReason.kinds
        )
    }

    @Test func `omits the figures of the lists without Redis, and those of the daemon before its first turn`() {
        let away = metrics(RedisReading(taken: now, fault: "no response"), healthy())
        #expect(away.contains("gapless_redis_up 0\n"))
        #expect(!away.contains("gapless_backlog"))
        #expect(!away.contains("gapless_sent_total{"))
        #expect(away.contains("gapless_worker_in_flight 7\n"))
        #expect(metrics(reading(), nil).contains("gapless_build_info"))
    }

    @Test func `follows the format: each metric occurs once, with help and a valid name`() {
        var names: Set<Substring> = []
        var open: (name: Substring, kind: Substring)?
        for line in metrics(reading("a\"b\\c\nd"), healthy()).split(separator: "\n", omittingEmptySubsequences: false).dropLast()
        {
            let words = line.split(separator: " ")
            if line.hasPrefix("# HELP ") {
                #expect(names.insert(words[2]).inserted, "\(line)")
                #expect(words.count > 3 && line.hasSuffix("."), "\(line)")
            } else if line.hasPrefix("# TYPE ") {
                open = (words[2], words[3])
                #expect(words[2].hasSuffix("_total") == (words[3] == "counter"), "\(line)")
                #expect(words[2].allSatisfy { $0 == "_" || ("a"..."z").contains($0) }, "\(line)")
            } else {
                let name = String(line.prefix { $0 != "{" && $0 != " " })
                let suffixes = open?.kind == "histogram" ? ["_bucket", "_sum", "_count"] : [""]
                #expect(open.map { open in suffixes.contains { name == open.name + $0 } } == true, "\(line)")
                #expect(Double(words.last ?? "") != nil, "\(line)")
            }
        }
        #expect(names.count > 40)
    }

    @Test func `matches docs/metrics.md, metric by metric`() {
        var snapshot = healthy()
        snapshot.apps[0].responses.countAcceptance()
        let known = Set(
            metrics(reading(), snapshot).split(separator: "\n").filter { $0.hasPrefix("# TYPE ") }.map {
                $0.split(separator: " ")[2]
            })
        let words = Checkout.read("docs/metrics.md").split { !($0 == "_" || $0.isLetter) }
        let named = Set(words.filter { ($0.hasPrefix("gapless_") || $0.hasPrefix("process_")) && $0.contains("_") })
        #expect(known.subtracting(named) == [])
        #expect(named.subtracting(known) == [])
    }
}

@Suite("Hostile numbers in Redis")
struct HostileReadingTests {
    @Test func `No number in Redis makes the metrics or the page trap`() {
        let seed = UInt64.random(in: .min ... .max)
        var random = SeededGenerator(seed: seed)
        let extremes: [Int64] = [.min, .min + 1, -1, 0, 1, .max - 1, .max]
        func number() -> Int64 {
            Bool.random(using: &random) ? extremes.randomElement(using: &random) ?? 0 : .random(in: .min ... .max, using: &random)
        }
        var before: RedisReading?
        for step in 0..<2000 {
            var status = QueueStatus()
            (status.backlog, status.inFlight, status.dead) = (Int(number()), Int(number()), Int(number()))
            for counter in Counter.allCases { status.counters[counter] = number() }
            let details = ["started": "\(number())", "sent": "\(number())", "pid": "\(number())", "host": "\u{9B}<"]
            status.workers = [.init(name: "w", inFlight: Int(number()), details: details)]
            var reading = RedisReading(taken: now + .nanoseconds(step), lists: [.init(name: "q", status: status)])
            reading.measure(since: before)
            before = reading
            #expect(reading.lists[0].sentPerSecond.map { $0 >= 0 } != false, "seed \(seed)")
            _ = status.unexplained
            #expect(metrics(reading, healthy()).contains("gapless_sent_total{queue=\"q\"} \(status.counters[.sent] ?? 0)\n"))
            let document = StatusDocument.sample(reading, nil, now: now).object.bytes
            #expect(throws: Never.self, "seed \(seed)") { try JSONValue.parse(document) }
        }
    }
}

@Suite("Liveness and readiness")
struct ReadinessTests {
    private func faults(_ change: (inout ProcessSnapshot) -> Void = { _ in }, after: Duration = .zero) -> [String] {
        var snapshot = healthy()
        change(&snapshot)
        return Readiness.faults(.init(snapshot: snapshot, at: now), now: now + after)
    }

    @Test func `It is ready while Redis is reached and every app can send`() {
        #expect(faults() == [])
        #expect(faults(after: .seconds(9)) == [])
    }

    @Test func `It is not ready while anything holds pushes, and names the reason`() {
        #expect(Readiness.faults(nil, now: now) == ["starting"])
        #expect(faults { $0.lists[0].isConnected = false } == ["list q: no connection to Redis"])
        #expect(faults { $0.lists[0].isInDoubt = true } == ["list q: Redis has not responded for most of the lease"])
        #expect(faults { $0.apps[0].capacity = 0 } == ["app (top level): no open session to APNs"])
        #expect(
            faults { $0.apps[1].hold = .suspectTokens }.first?.hasPrefix(#"app be"ta\\x0a<b> is held: APNs has rejected 20"#)
                == true)
        #expect(faults { $0.isLeaving = true } == ["stopping: no new jobs are claimed"])
        #expect(faults(after: .seconds(11)) == ["dispatcher loop stalled for 11 s"])
        #expect(
            faults {
                $0.apps[0].capacity = 0
                $0.lists[0].isConnected = false
            }.count == 2)
    }

    @Test func `It is alive while its loop runs, and for ten seconds before the first turn`() {
        #expect(Readiness.isAlive(nil, started: now, now: now + .seconds(9)))
        #expect(!Readiness.isAlive(nil, started: now, now: now + .seconds(10)))
        let notice = ProcessBoard.Notice(snapshot: healthy(), at: now)
        #expect(Readiness.isAlive(notice, started: now - .seconds(100), now: now + .seconds(9)))
        #expect(!Readiness.isAlive(notice, started: now - .seconds(100), now: now + .seconds(10)))
    }

    @Test func `The loop publishes at once, at most ten times a second, and at least once a second`() {
        var schedule = NoticeSchedule()
        #expect(schedule.deadline(isWatched: true) == nil)
        let told = [0, 50, 99, 100, 150, 1100].map { schedule.turned(now: now + .milliseconds($0), isWatched: true) }
        #expect(told == [true, false, false, true, false, true])
        #expect(schedule.deadline(isWatched: true) == now + .milliseconds(2100))
        let again = schedule.turned(now: now + .milliseconds(1110), isWatched: true)
        #expect(!again)
        #expect(schedule.deadline(isWatched: true) == now + .milliseconds(1200))
    }

    @Test func `Without an endpoint the loop publishes at most once a second, and wakes for it only after a turn`() {
        var schedule = NoticeSchedule()
        let told = [0, 100, 999, 1000].map { schedule.turned(now: now + .milliseconds($0), isWatched: false) }
        #expect(told == [true, false, false, true])
        #expect(schedule.deadline(isWatched: false) == nil)
        _ = schedule.turned(now: now + .milliseconds(1010), isWatched: false)
        #expect(schedule.deadline(isWatched: false) == now + .milliseconds(2000))
    }
}
