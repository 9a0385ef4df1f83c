import APNSSimulator
import Glibc
import Harness
internal import RedisQueue

/// Normal behaviour of APNs: changing stream limits, and GOAWAY of every kind.
extension Fault {
    static let streamRows = [streams, goAwayKinds]

    /// One stream until the first acceptance, then a thousand, one, none and back, with jobs waiting all the time.
    ///
    /// APNs refuses a request that crossed a lower limit on the wire. The simulator counts a violation for a stream that starts
    /// after the client acknowledged the limit; there must be none. The daemon resends only the refused requests, each once and
    /// uncounted.
    private static let streams = Fault(
        number: 51, name: "streams", title: "1 stream at first, 1000, then 1 and 0 under load", rule: .nothingTwice, isQuick: true
    ) { trial in
        try trial.open(hosting: Trial.accepting(after: 5...15))
        try trial.startProducing()
        var (limit, mostRefused) = (1000, 0)
        try trial.injectBusy(40) { _ in
            for next in [1, 1000, 0, 1, 0, 1000] {
                // Two sessions; `inject` counts one reduction, this counts the others.
                if next < limit { mostRefused += 2 * (limit - next) }
                if next == 0 { trial.count(1) }
                limit = next
                trial.stage.simulator.behave { $0.streamLimit = UInt32(next) }
                trial.pause(20...150)
            }
        }
        trial.afterwards = { status in
            let totals = trial.stage.simulator.totals
            trial.expectCompliance(status)
            if totals.refusedStreams > mostRefused { trial.fail("\(totals.refusedStreams) streams were refused") }
            if status.counter(.resent) != totals.refusedStreams {
                trial.fail("\(status.counter(.resent)) were resent after \(totals.refusedStreams) refused streams")
            }
        }
    }

    /// The kinds that leave no doubt come first, so that the row can verify them alone.
    private static let goAwayKinds = Fault(
        number: 52, name: "goaway-kinds", title: "GOAWAY of every kind under load", rule: .onlyWhatWasInFlight, isQuick: true
    ) { trial in
        try trial.open(hosting: Trial.accepting(after: 5...30))
        let daemon = try trial.startProducing()
        try trial.sendGoAways(trial.scale == .full ? 80 : 8, to: daemon)
    }
}

extension Fault {
    /// A kind of GOAWAY.
    fileprivate struct GoAwayKind {
        enum Occasion: CaseIterable {
            /// To all sessions.
            case toAll
            /// Instead of a response.
            case insteadOfAnswer
            /// Instead of SETTINGS, to new sessions.
            case insteadOfSettings
        }

        /// The syntax of `apns-simulator`.
        var text: String
        var occasions: [Occasion] = [.toAll, .insteadOfAnswer]
        var holdsApp = false

        /// The included streams get a response, and APNs did not process the others.
        static let doubtless: [GoAwayKind] = [
            .init(text: "graceful"), .init(text: "graceful:Shutdown"), .init(text: "all"), .init(text: "all:Shutdown"),
            .init(text: "all:IdleTimeout"), .init(text: "middle"), .init(text: "middle:ServiceUnavailable"),
            .init(text: "middle/2:something went wrong here"),
            .init(text: "zero:InternalServerError"), .init(text: "zero/1:a word in plain text"), .init(text: "twice"),
            .init(text: "twice/2:Shutdown"), .init(text: "below", occasions: [.insteadOfAnswer]),
            .init(text: "below/1:not like this", occasions: [.insteadOfAnswer]),
            .init(text: "limit", occasions: [.insteadOfAnswer]),
            .init(text: "zero:Shutdown", occasions: [.insteadOfSettings]),
            .init(text: "zero/2:not today", occasions: [.insteadOfSettings]),
            .init(text: "middle:BadCertificate", holdsApp: true), .init(text: "all:InvalidProviderToken", holdsApp: true),
        ]
        /// The connection ends without the promised responses.
        static let doubtful: [GoAwayKind] = [
            .init(text: "abrupt"), .init(text: "abrupt/2"), .init(text: "abrupt/2:InternalServerError"),
            .init(text: "abrupt/1:the peer is gone"), .init(text: "abrupt:Shutdown"),
        ]
    }

}

extension Trial {
    /// Sends GOAWAYs under load: those that leave no doubt, a quarter as many that do, and ENHANCE_YOUR_CALM.
    func sendGoAways(_ turns: Int, to daemon: DaemonProcess) throws {
        let doubtless = Fault.GoAwayKind.doubtless.shuffled(using: &random)
        for turn in 0..<turns { try send(doubtless[turn % doubtless.count], to: daemon) }
        // By then all requests from before the last GOAWAY are settled.
        try awaitSent(try stage.sent() + Trial.rate)
        expectCompliance(try status())
        tail.read()
        let twice = tail.accepted.values.count { $0 > 1 }
        if twice > 0 { fail("\(twice) were delivered twice after GOAWAYs that leave no doubt") }
        let doubtful = Fault.GoAwayKind.doubtful
        for turn in 0..<turns / 4 { try send(doubtful[turn % doubtful.count], to: daemon) }
        try sendCalmDown()
        afterwards = { [unowned self] in expectNothingSpent($0, "APNs responded to none") }
    }

    /// Sends one GOAWAY, and waits for the recovery.
    fileprivate func send(_ kind: Fault.GoAwayKind, to daemon: DaemonProcess) throws {
        let (frame, next) = try GoAway.kind(kind.text)
        try awaitBusy()
        pause(10...100)
        if frame.isAbrupt { try allowInFlightTwice() }
        try inject {
            let countHolds = { self.complaints("APNs does not accept the credential") }
            let (before, holds) = (stage.simulator.totals.goAways, countHolds())
            switch kind.occasions.randomElement(using: &random)! {
            case .toAll: stage.simulator.goAway(frame, then: next)
            case .insteadOfAnswer: stage.simulator.behave { $0.script.turns = [.init(1, .goAway(frame, then: next))] }
            case .insteadOfSettings:
                stage.simulator.behave { $0.greeting = .goAway(frame) }
                stage.simulator.goAway()
                try self.await("two dials get a GOAWAY") { stage.simulator.totals.goAways >= before + 4 }
            }
            try self.await("the GOAWAY is sent") { stage.simulator.totals.goAways > before }
            stage.simulator.behave { ($0.greeting, $0.script.turns) = (.settings, []) }
            guard kind.holdsApp else { return }
            for attempt in 1...10 where countHolds() == holds {
                // On a busy machine the sessions were closing, or the hold of an earlier GOAWAY had not ended.
                if attempt > 1 { stage.simulator.goAway(frame, then: next) }
                _ = waitUntil(atMost: .seconds(6)) { countHolds() > holds }
            }
            if countHolds() == holds { fail("\(kind.text) did not hold the app") }
            daemon.process.kill(SIGHUP)
        }
    }

    /// Sends ENHANCE_YOUR_CALM last: from then on the daemon sends fewer pushes than arrive.
    fileprivate func sendCalmDown() throws {
        try awaitBusy()
        let (frame, _) = try GoAway.kind("all/11:calm down, please")
        let isObeyed = { self.complaints("APNs sent ENHANCE_YOUR_CALM") > 0 }
        count(1)
        // At a distance all sessions may be closing because of the GOAWAY before.
        for _ in 1...10 where !isObeyed() {
            stage.simulator.goAway(frame)
            _ = waitUntil(atMost: .seconds(6), isObeyed)
        }
        try self.await("the daemon obeys", isObeyed)
    }

    /// Verifies that the client kept the rules: no stream above the limit, no doubtful and no counted attempt.
    fileprivate func expectCompliance(_ status: QueueStatus) {
        let totals = stage.simulator.totals
        if totals.limitViolations > 0 { fail("\(totals.limitViolations) streams above an acknowledged limit") }
        if totals.violations + totals.priorityFrames > 0 { fail("violations of HTTP/2: \(totals)") }
        expectNothingSpent(status, "APNs responded to none")
        if status.counter(.maybeDuplicate) > 0 {
            fail("\(status.counter(.maybeDuplicate)) counted as maybe_duplicate without a doubt")
        }
    }
}
