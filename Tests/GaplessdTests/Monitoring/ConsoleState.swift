import Foundation
import Harness
import Platform
import PushPool

@testable import RedisQueue
@testable import gaplessd

/// A state of a daemon, with an hour behind it, for the page in a browser.
enum ConsoleState: String, CaseIterable, Sendable {
    case usual
    case withoutApps = "without-apps"
    case manyApps = "many-apps"
    case held, paused
    case redisAway = "redis-away"

    private static let start = Instant.now

    var document: StatusDocument {
        var history = History(lists: lists)
        var responses = apps.map { _ in ResponseFigures() }
        for point in 0...History.most {
            for app in apps.indices { respond(point, app, &responses[app]) }
            let now = Self.start + History.interval * point
            history.observe(reading(at: point), snapshot(responses), now: now)
        }
        let now = Self.start + History.interval * History.most
        var last = reading(at: History.most)
        for index in last.lists.indices { last.lists[index].letters = letters }
        return StatusDocument(
            reading: self == .redisAway ? RedisReading(taken: now, fault: "127.0.0.1:6379: Connection refused") : last,
            notice: .init(snapshot: snapshot(responses), at: now), history: history,
            system: SystemFacts(started: 1_795_000_000, residentBytes: 23_400_000, processorSeconds: 4),
            now: now, wallClock: WallClock(seconds: 1_795_218_609), options: .init(file: "/etc/gaplessd.json", redacts: true))
    }

    private var lists: [String] { self == .manyApps ? ["apns_queue", "apns_queue_bulk"] : ["apns_queue"] }

    private var apps: [String?] {
        switch self {
        case .withoutApps: []
        case .manyApps: (1...40).map { $0 % 9 == 0 ? "a-customer-with-a-rather-long-name-\($0)" : "app-\($0)" }
        default: [nil, "news"]
        }
    }

    /// A wave with a peak, the same in each run.
    private func load(_ point: Int) -> Double {
        let hour = Double(point) / Double(History.most)
        return 2400 + 1500 * sin(hour * 7) + 400 * sin(hour * 41) + (hour > 0.55 && hour < 0.7 ? 2500 : 0)
    }

    private func reading(at point: Int) -> RedisReading {
        var status = QueueStatus()
        let hour = Double(point) / Double(History.most)
        let isPeak = hour > 0.55 && hour < 0.8
        let backlog = isPeak ? 90_000 * (1 - abs(hour - 0.7) / 0.15).clamped : 40 + 30 * sin(hour * 90)
        status.backlog = self == .held && hour > 0.85 ? Int((hour - 0.85) * 400_000) : Int(backlog)
        (status.inFlight, status.delayed, status.dead, status.feedback) = (1240, 312, 2137, 1890)
        let sent = (0...point).reduce(0) { $0 + load($1) * 10 }
        status.counters = [
            .claimed: Int64(sent) + 9000, .sent: Int64(sent), .retried: 5210, .dead: 2137, .released: 830, .postponed: 41,
            .resent: 77, .maybeDuplicate: 12,
        ]
        let started = ["started": "1795000000", "version": gaplessdVersion]
        status.workers = ["push-1", "push-2"].enumerated().map { index, host in
            let details = started.merging(["host": host, "pid": "\(812 + index)", "sent": "\(Int(sent) / 2)"]) { $1 }
            return .init(name: host, inFlight: 620, details: details)
        }
        if self == .paused {
            status.pauses = [
                QueuePause(
                    .list, left: .seconds(600),
                    record: Array(
                        #"{"until": 1795219209000, "since": 1795218600000, "reason": "wrong campaign", "by": "root@push-1"}"#.utf8
                    ))
            ]
            status.cancelled = 300_000
        }
        let list = RedisReading.List(
            name: lists[0], status: status, sentPerSecond: self == .paused ? 0 : load(point),
            age: .milliseconds(20 + status.backlog / 4), drain: self == .paused ? nil : Double(status.backlog) / 3000)
        return RedisReading(
            taken: Self.start,
            lists: lists.map { name in
                var list = list
                list.name = name
                return list
            })
    }

    private func respond(_ point: Int, _ app: Int, _ figures: inout ResponseFigures) {
        for number in 0..<(apps.count > 10 ? 4 : 40) {
            figures.countAcceptance()
            let hour = Double(point) / Double(History.most)
            let latency = 0.03 + 0.02 * sin(hour * 9) + (number == 0 ? 0.15 + 0.1 * sin(hour * 23) : 0)
            figures.record(
                claimed: Self.start, .init(sent: Self.start, ended: Self.start + .milliseconds(Int64(latency * 1000))))
        }
        let failures: [(Int, String, Int)] = [
            (410, "Unregistered", 6 + point % 4), (400, "BadDeviceToken", point % 30 < 5 ? 3 : 1),
            (503, "ServiceUnavailable", point > 200 && point < 230 ? 14 : 0), (429, "TooManyRequests", point % 50 < 3 ? 4 : 0),
        ]
        for (status, reason, count) in failures {
            for _ in 0..<count { _ = figures.count(.rejected(Rejection(status: status, reason: reason))) }
        }
    }

    private func snapshot(_ responses: [ResponseFigures]) -> ProcessSnapshot {
        var snapshot = ProcessSnapshot(
            inFlight: 620,
            apps: apps.enumerated().map { index, name in
                var figures = PoolFigures()
                figures.roundTrip = .milliseconds(9 + index)
                return ProcessSnapshot.App(
                    name: name, sessions: 4, capacity: 4000, held: 300, streams: 180 + 37 * (index % 5), figures: figures,
                    bottleneck: index % 7 == 1 ? .rateLimit : .none, responses: responses[index],
                    certificateExpires: index % 2 == 1 ? 1_797_000_000 : nil,
                    tokenAge: index % 2 == 0 ? .seconds(1312) : nil)
            },
            lists: lists.map { .init(name: $0, isConnected: self != .redisAway, sinceContact: .seconds(1)) })
        if self == .held {
            snapshot.apps[1].hold = .credential("InvalidProviderToken")
            snapshot.apps[1].bottleneck = .hold
        }
        if self == .paused {
            for index in snapshot.apps.indices {
                (snapshot.apps[index].isPaused, snapshot.apps[index].bottleneck) = (true, .hold)
            }
            snapshot.lists[0].pauses = reading(at: 0).lists[0].status.pauses.map(PauseNote.init)
        }
        return snapshot
    }

    private var letters: DeadLetterSummary {
        var letters = DeadLetterSummary()
        letters.reasons = [
            ("Unregistered", 1702), ("BadDeviceToken", 188), ("Expired", 64), ("PayloadTooLarge", 31), ("JobError", 15),
        ]
        letters.latest = (0..<8).map { number in
            let record = """
                {"reason": "\(number % 3 == 2 ? "BadDeviceToken" : "Unregistered")", "status": \(number % 3 == 2 ? 400 : 410), \
                "apns_id": null, "identifier": \(number % 2 == 0 ? "\(90_211 + number)" : "\"order-\(8812 + number)\""), \
                "token": "\(deviceToken(number * 7919))", "attempts": 1, \
                "at": \(1_795_218_600 - number * 37), "worker": "w", "job": "{
                """
            return DeadLetterBrief(record: Array(record.utf8))
        }
        return letters
    }
}

extension Double {
    fileprivate var clamped: Double { Swift.max(0, Swift.min(1, self)) }
}
