import APNSSimulator
import Harness
import Platform
internal import RedisQueue

/// An APNs that stalls, does not read, or promises nothing. The daemon also gets SIGTERM while each fault lasts.
extension Fault {
    static let hostileAPNsRows = [halfRecord, trickle, deaf, windows, refusesEverything, noStreams, drainsAlone]

    private static let halfRecord = Fault(
        number: 59, name: "apns-half-record", title: "APNs stalls inside a TLS record", rule: .onlyWhatWasInFlight, stages: 5
    ) { trial in
        try trial.besiegeAPNs { $0.stopsInsideReply = true }
    }

    private static let trickle = Fault(
        number: 60, name: "apns-trickle", title: "APNs sends one byte per minute", rule: .onlyWhatWasInFlight, stages: 5
    ) { trial in
        // Long enough for a second byte.
        try trial.besiegeAPNs(lasting: trial.scale == .full ? .seconds(62) : .seconds(1)) { $0.replyByteInterval = .seconds(60) }
    }

    /// Large payloads, so that the buffers of the kernel fill up.
    private static let deaf = Fault(
        number: 61, name: "apns-deaf", title: "APNs never reads", rule: .onlyWhatWasInFlight, stages: 5
    ) { trial in
        try trial.besiegeAPNs(job: { Trial.job($0, bytes: 3000) }) { $0.isDeaf = true }
    }

    /// Streams may send between nothing and 64 KB, changing all the time, also below the bytes already sent; then nothing.
    private static let windows = Fault(
        number: 62, name: "apns-windows", title: "APNs changes its windows at random, then to 0", rule: .nothingTwice, stages: 5
    ) { trial in
        try trial.open(hosting: Trial.accepting(after: 5...15), settings: ["drain_timeout": "1"])
        let daemon = try trial.start()
        try trial.produce(perSecond: 200) { Trial.job($0, bytes: 2000) }
        try trial.injectBusy(2) { _ in
            trial.stage.simulator.behave { $0.windowWalk = .init(interval: .milliseconds(5), bounds: 0...65535) }
            let sent = try trial.stage.sent()
            try trial.awaitSent(sent + 200)
            trial.stage.simulator.behave { $0.windowWalk = .init(interval: .milliseconds(5), bounds: 0...0) }
            trial.pause(500...1000)
            trial.measureIdleness(of: [daemon])
            trial.stage.simulator.behave { $0.windowWalk = nil }
        }
        trial.afterwards = { status in
            let violations = trial.stage.simulator.totals.violations
            if violations > 0 { trial.fail("\(violations) violations of HTTP/2") }
            trial.expectNothingSpent(status, "APNs read every request that it allowed")
        }
    }

    private static let refusesEverything = Fault(
        number: 63, name: "apns-refuses-all", title: "APNs refuses every stream", rule: .nothingTwice, stages: 5
    ) { trial in
        try trial.open(hosting: Trial.accepting(after: 5...15), settings: Siege.settings)
        var siege = try Siege(trial)
        try trial.produce(perSecond: 200)
        for turn in 1...trial.times(2) {
            let refused = trial.stage.simulator.totals.answers["RST_STREAM 7", default: 0]
            try siege.run(stops: turn % 2 == 0) {
                trial.stage.simulator.behave { $0.script.failures = [.init(.resetStream(code: 7), 1)] }
            } begun: {
                // After two pauses without a response, a session tries one stream a second.
                try trial.await("APNs refuses streams") {
                    trial.stage.simulator.totals.answers["RST_STREAM 7", default: 0] > refused + 5
                }
                trial.pause(3000...3000)
            } end: {
                trial.stage.simulator.behave { $0.script.failures = [] }
            }
        }
        trial.afterwards = { trial.expectNothingSpent($0, "APNs processed none") }
    }

    /// New sessions may open no stream; the sessions from before drain.
    private static let noStreams = Fault(
        number: 64, name: "apns-no-streams", title: "MAX_CONCURRENT_STREAMS 0 on all sessions", rule: .nothingTwice,
        isQuick: true, stages: 5
    ) { trial in
        try trial.open(hosting: Trial.accepting(after: 5...15), settings: Siege.settings)
        var siege = try Siege(trial)
        try trial.produce(perSecond: 500)
        for turn in 1...trial.times(2) {
            let connections = trial.stage.simulator.totals.connections
            try siege.run(stops: turn % 2 == 0) {
                trial.stage.simulator.behave { ($0.streamLimit, $0.tokenStreamLimit) = (0, 0) }
                trial.stage.simulator.goAway()
            } begun: {
                try trial.await("new sessions are open") { trial.stage.simulator.totals.connections > connections }
            } end: {
                trial.stage.simulator.behave { ($0.streamLimit, $0.tokenStreamLimit) = (1000, 1) }
            }
        }
    }

    /// The sessions drain with open streams, and no new session can be opened.
    private static let drainsAlone = Fault(
        number: 65, name: "apns-drains", title: "GOAWAY with slow responses, and failed dials", rule: .onlyWhatWasInFlight,
        stages: 5
    ) { trial in
        try trial.open(hosting: Trial.accepting(after: 3000...3500), settings: ["drain_timeout": "1"])
        var siege = try Siege(trial)
        try trial.produce(perSecond: 100)
        for turn in 1...trial.times(2) {
            try trial.await("both sessions have requests") { try trial.status().inFlight > 100 }
            try siege.run(stops: turn % 2 == 0) {
                trial.stage.simulator.behave { $0.refusesConnections = true }
                trial.stage.simulator.goAway()
            } end: {
                trial.stage.simulator.behave { $0.refusesConnections = false }
            }
        }
    }
}

extension Trial {
    /// A job with a payload of about this size.
    static func job(_ number: Int, bytes: Int) -> String {
        let text = String(repeating: "x", count: bytes)
        return #"{"token":"\#(deviceToken(number))","identifier":\#(number),"data":{"aps":{"alert":"\#(text)"}}}"#
    }

    /// Lets the proxy before APNs treat all connections so, old and new ones, until no request is answered.
    fileprivate func besiegeAPNs(
        lasting length: Duration = .zero, job: @escaping @Sendable (Int) -> String = Trial.job,
        _ change: (inout FaultProxy.Behaviour) -> Void
    ) throws {
        try open(hosting: Trial.accepting(after: 5...15), proxies: true, settings: Siege.settings)
        let proxy = serviceProxy
        var siege = try Siege(self)
        try produce(perSecond: 500, job)
        for turn in 1...times(2) {
            let closed = complaints("is closed: PING unanswered")
            // Until the PING times out, two sessions fill their streams.
            allowTwice(2 * Siege.streams)
            try siege.run(stops: turn % 2 == 0, lasting: turn == 1 ? length : .zero, isIdleAtOnce: true) {
                change(&proxy.behaviour)
            } begun: {
                // An overdue request causes a PING, which has ten seconds.
                try self.await("a PING times out") { complaints("is closed: PING unanswered") > closed }
            } end: {
                proxy.behaviour = .init()
                proxy.cutAll()
            }
        }
    }
}

/// A fault in which the daemon can do no work: it must stay idle, and exit in time while the fault lasts.
struct Siege {
    /// The streams of a session.
    static let streams = 200
    /// Short limits, so that a fault lasts for seconds.
    static let settings: [String: String?] = [
        "apns_max_concurrent_streams": String(streams),
        "drain_timeout": "1", "apns_request_timeout": "2", "apns_dial_timeout": "2", "apns_keepalive": "2",
    ]

    let trial: Trial
    private var daemon: DaemonProcess

    init(_ trial: Trial) throws {
        self.trial = trial
        daemon = try trial.start()
    }

    /// Injects the fault, measures the daemon, and ends the fault.
    ///
    /// - Parameters:
    ///   - stops: whether the daemon gets SIGTERM in the fault; another one starts afterwards.
    ///   - isIdleAtOnce: whether the daemon has nothing to do soon after the beginning, while its sessions are still open.
    ///   - begun: waits until the fault has an effect.
    mutating func run(
        stops: Bool, lasting length: Duration = .zero, isIdleAtOnce: Bool = false, begin: () throws -> Void,
        begun: () throws -> Void = {}, end: () throws -> Void
    ) throws {
        // A new daemon has one stream at first.
        try trial.awaitSent(try trial.stage.sent() + 200)
        try trial.awaitBusy()
        try trial.allowInFlightTwice()
        try trial.inject {
            try begin()
            if isIdleAtOnce { trial.measureIdleness(of: [daemon]) }
            try begun()
            trial.pause(length)
            trial.measureIdleness(of: [daemon])
            let status = try trial.status()
            trial.allowTwice(status.inFlight + status.delayed)
            if stops { trial.stop(daemon) }
            try end()
            if stops { daemon = try trial.start() }
        }
    }
}
