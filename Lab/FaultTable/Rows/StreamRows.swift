import APNSSimulator
import Glibc
import Harness
internal import RedisQueue

/// Sessions that do as APNs does: limits of streams that move, and GOAWAY of every kind. Nothing is at fault here.
extension Fault {
    static let streamRows = [streams, goAwayKinds]

    /// One stream until the first push is accepted, then a thousand, one, none and back, with work waiting all the time.
    ///
    /// A request that was on its way when a lower limit left APNs is refused, and nobody's fault: the simulator counts as a
    /// violation what was begun after the client had acknowledged the limit, and there must be none. What was refused must have been
    /// below the old limit, and goes out again once, uncounted; nothing else may go out again.
    private static let streams = Fault(
        number: 51, name: "streams", title: "1 stream at first, 1000, then 1 and 0 under load", rule: .nothingTwice, isQuick: true
    ) { trial in
        try trial.open(hosting: Trial.accepting(after: 5...15))
        try trial.start()
        try trial.produce()
        var (limit, mostRefused) = (1000, 0)
        for _ in 1...trial.times(40) {
            try trial.awaitBusy()
            try trial.strike {
                for next in [1, 1000, 0, 1, 0, 1000] {
                    // Two sessions; the falls beside the one that `strike` counts are counted here.
                    if next < limit { mostRefused += 2 * (limit - next) }
                    if next == 0 { trial.count(1) }
                    limit = next
                    trial.stage.simulator.behave { $0.streamLimit = UInt32(next) }
                    trial.pause(20...150)
                }
            }
        }
        trial.afterwards = { status in
            let totals = trial.stage.simulator.totals
            trial.expectGoodManners(status)
            if totals.refusedStreams > mostRefused { trial.fail("\(totals.refusedStreams) streams were refused") }
            if status.counter(.resent) != totals.refusedStreams {
                trial.fail("\(status.counter(.resent)) went out again for \(totals.refusedStreams) refused streams")
            }
        }
    }

    /// Those that leave no doubt come first, so that their part of the books is looked at alone.
    private static let goAwayKinds = Fault(
        number: 52, name: "goaway-kinds", title: "GOAWAY of every kind under load", rule: .onlyWhatWasInFlight, isQuick: true
    ) { trial in
        try trial.open(hosting: Trial.accepting(after: 5...30))
        let daemon = try trial.start()
        try trial.produce()
        let doubtless = FarewellKind.doubtless.shuffled(using: &trial.random)
        let turns = trial.scale == .full ? 80 : 8
        for turn in 0..<turns { try trial.say(doubtless[turn % doubtless.count], to: daemon) }
        // Whatever was open at the last of them is settled by then.
        try trial.awaitSent(try trial.stage.sent() + Trial.rate)
        trial.expectGoodManners(try trial.status())
        _ = trial.tail.read()
        let twice = trial.tail.accepted.values.count { $0 > 1 }
        if twice > 0 { trial.fail("\(twice) delivered twice by GOAWAYs that leave no doubt") }
        for turn in 0..<turns / 4 { try trial.say(FarewellKind.doubtful[turn % FarewellKind.doubtful.count], to: daemon) }
        try trial.sayCalmDown()
        trial.afterwards = { status in
            let spent = status.counter(.retried) + status.dead
            if spent > 0 { trial.fail("\(spent) attempts were counted, though APNs judged none") }
        }
    }
}

/// A GOAWAY as one row of its kinds says it.
private struct FarewellKind {
    enum Way: CaseIterable {
        /// To all sessions, whatever they are doing.
        case toAll
        /// In place of an answer, to the session that asked.
        case insteadOfAnswer
        /// To sessions that dial, in place of SETTINGS.
        case insteadOfSettings
    }

    /// As `apns-simulator` reads them.
    var words: String
    var ways: [Way] = [.toAll, .insteadOfAnswer]
    var holdsApp = false

    /// All that they include is answered, and what they leave out was not looked at.
    static let doubtless: [FarewellKind] = [
        .init(words: "graceful"), .init(words: "graceful:Shutdown"), .init(words: "all"), .init(words: "all:Shutdown"),
        .init(words: "all:IdleTimeout"), .init(words: "middle"), .init(words: "middle:ServiceUnavailable"),
        .init(words: "middle/2:something went wrong here"),
        .init(words: "zero:InternalServerError"), .init(words: "zero/1:a word in plain text"), .init(words: "twice"),
        .init(words: "twice/2:Shutdown"), .init(words: "below", ways: [.insteadOfAnswer]),
        .init(words: "below/1:not like this", ways: [.insteadOfAnswer]), .init(words: "limit", ways: [.insteadOfAnswer]),
        .init(words: "zero:Shutdown", ways: [.insteadOfSettings]), .init(words: "zero/2:not today", ways: [.insteadOfSettings]),
        .init(words: "middle:BadCertificate", holdsApp: true), .init(words: "all:InvalidProviderToken", holdsApp: true),
    ]
    /// The connection ends without the answers that they promise.
    static let doubtful: [FarewellKind] = [
        .init(words: "abrupt"), .init(words: "abrupt/2"), .init(words: "abrupt/2:InternalServerError"),
        .init(words: "abrupt/1:the peer is gone"), .init(words: "abrupt:Shutdown"),
    ]
}

extension Trial {
    /// One GOAWAY, and the way back.
    fileprivate func say(_ kind: FarewellKind, to daemon: DaemonProcess) throws {
        let (frame, next) = try GoAway.kind(kind.words)
        try awaitBusy()
        pause(10...100)
        if frame.isAbrupt { try allowInFlightTwice() }
        try strike {
            let (heard, holds) = (stage.simulator.totals.goAways, complaints("APNs does not accept the credential"))
            switch kind.ways.randomElement(using: &random)! {
            case .toAll: stage.simulator.goAway(frame, then: next)
            case .insteadOfAnswer: stage.simulator.behave { $0.script.turns = [.init(1, .goAway(frame, then: next))] }
            case .insteadOfSettings:
                stage.simulator.behave { $0.greeting = .goAway(frame) }
                stage.simulator.goAway()
                try self.await("two dials are sent away") { stage.simulator.totals.goAways >= heard + 4 }
            }
            try self.await("it is said") { stage.simulator.totals.goAways > heard }
            stage.simulator.behave { ($0.greeting, $0.script.turns) = (.settings, []) }
            guard kind.holdsApp else { return }
            try self.await("it is held") { complaints("APNs does not accept the credential") > holds }
            daemon.process.kill(SIGHUP)
        }
    }

    /// ENHANCE_YOUR_CALM, the last of all: from then on fewer go out than come in, by our own will.
    fileprivate func sayCalmDown() throws {
        try awaitBusy()
        stage.simulator.goAway(try GoAway.kind("all/11:calm down, please").0)
        count(1)
        try self.await("it is obeyed") { complaints("APNs asks for calm (ENHANCE_YOUR_CALM)") > 0 }
    }

    /// What a client does that keeps to the rules: nothing beyond an acknowledged limit, nothing in doubt, nothing counted.
    fileprivate func expectGoodManners(_ status: QueueStatus) {
        let totals = stage.simulator.totals
        if totals.limitViolations > 0 { fail("\(totals.limitViolations) streams beyond a limit that was acknowledged") }
        if totals.violations + totals.priorityFrames > 0 { fail("the rules of HTTP/2 were broken: \(totals)") }
        let spent = status.counter(.retried) + status.dead
        if spent > 0 { fail("\(spent) attempts were counted, though APNs judged none") }
        if status.counter(.maybeDuplicate) > 0 { fail("\(status.counter(.maybeDuplicate)) in doubt, where there is none") }
    }
}
