import APNSSimulator
import Clocks
import Glibc
import Harness
internal import RedisQueue

/// A credential or an environment that is wrong, with a long queue behind it, and another app in the same daemon and list.
///
/// Each daemon knows of no acceptance. Either the operator mends a file and sends SIGHUP, or APNs changes its mind and a probe has to
/// find out. A minute has to pass each time: so the full table has five stages at once, each with two ways of being wrong.
extension Fault {
    static let credentialRows = [wrongCertificate, wrongEnvironment]

    private static let wrongCertificate = Fault(
        number: 53, name: "wrong-certificate", title: "100,000 jobs with a refused certificate or key", rule: .nothingTwice,
        stages: 5
    ) { trial in
        try trial.openForTwoApps(
            """
            {"certified": {"apns_cert_path": "wrong/client.pem", "apns_key_path": "wrong/client-key.pem"},
             "keyed": {"apns_auth_key_path": "wrong/AuthKey_SIMKEY0002.p8", "apns_auth_key_id": "SIMKEY0002",
                       "apns_team_id": "SIMTEAM001", "apns_topic": "com.example.app"}}
            """)
        // Of another authority, and a key that is not the one of this id.
        try Credentials.make(.init(keyID: HostedSimulator.secondKeyID)).write(to: trial.stage.folder.file("wrong"))
        for wrong in trial.share(of: WrongCertificate.allCases) {
            try trial.endRound()
            if wrong != .files { try trial.takeGoodFiles() }
            trial.stage.simulator.behave { $0.refusals = wrong.refusals }
            let daemon = try trial.hold(at: trial.stage.simulator, apps: ["certified", "keyed"])
            // The next probe, and the next dial, come within a minute and what chance adds.
            try trial.mend(backWithin: .seconds(300)) {
                if wrong == .files { try trial.takeGoodFiles() }
                trial.stage.simulator.behave { $0.refusals = [] }
                if wrong == .files { daemon.process.kill(SIGHUP) }
            }
        }
        trial.expectNothingSpent()
    }

    private static let wrongEnvironment = Fault(
        number: 54, name: "wrong-environment", title: "100,000 jobs sent to the wrong environment", rule: .nothingTwice, stages: 5
    ) { trial in
        try trial.openForTwoApps("{}")
        // All devices are of the other environment there.
        var configuration = Simulator.Configuration(
            credentials: try Credentials(directory: trial.stage.folder.file("credentials")))
        configuration.environment = .sandbox
        configuration.behaviour.devices = [.init(prefix: "", .environment(.production))]
        configuration.ledgerDetail = .counts
        let sandbox = try Simulator(configuration)
        for wrong in trial.share(of: WrongEnvironment.allCases) {
            try trial.endRound()
            try trial.write(settings: ["apps": strayed(to: wrong == .server ? sandbox.port : trial.stage.service.port)])
            trial.stage.simulator.behave { ($0.devices, $0.refusals) = (wrong.devices, wrong.refusals) }
            let daemon = try trial.hold(at: wrong == .server ? sandbox : trial.stage.simulator, apps: ["strayed"])
            try trial.mend(backWithin: .seconds(300)) {
                if wrong == .server { try trial.write(settings: ["apps": strayed(to: trial.stage.service.port)]) }
                trial.stage.simulator.behave { ($0.devices, $0.refusals) = ([], []) }
                if wrong == .server { daemon.process.kill(SIGHUP) }
            }
        }
        if sandbox.totals.accepted > 0 { trial.fail("\(sandbox.totals.accepted) accepted where none was welcome") }
        trial.expectNothingSpent()
    }

    private static func strayed(to port: Int) -> String {
        """
        {"strayed": {"apns_server": "localhost:\(port)", "apns_cert_path": "credentials/client.pem",
                     "apns_key_path": "credentials/client-key.pem"}}
        """
    }
}

/// What is wrong with a certificate, and with the key of another app.
private enum WrongCertificate: CaseIterable {
    /// The operator's files.
    case files
    /// What APNs thinks of good files.
    case refused, expired

    var refusals: [Behaviour.Refusal] {
        switch self {
        case .files: []
        case .refused: [.init(.certificate, .badCertificate), .init(.key("SIMKEY0002"), .invalidProviderToken)]
        case .expired: [.init(.certificate), .init(.key("SIMKEY0002"), .expiredProviderToken)]
        }
    }
}

/// In which way an environment is the wrong one.
private enum WrongEnvironment: CaseIterable {
    /// The operator's settings name the other one.
    case server
    /// APNs says so of the devices, or of the certificate.
    case devices, certificate

    var devices: [DeviceRule] { self == .devices ? [.init(prefix: Trial.refusedTokens, .environment(.sandbox))] : [] }

    var refusals: [Behaviour.Refusal] { self == .certificate ? [.init(.certificate, .badCertificateEnvironment)] : [] }
}

extension Trial {
    /// The app that is well has jobs from this number on, and those that are refused below it.
    private static let firstOfOthers = 0x10_0000
    /// What the device tokens of the refused begin with, and no other.
    fileprivate static let refusedTokens = String(deviceToken(0).dropLast(5))

    /// A simulator that takes certificates and two keys, and an app of the top level that it has nothing against.
    fileprivate func openForTwoApps(_ apps: String) throws {
        // Dials wait as they do unless told: a minute of them is counted.
        try open(
            hosting: Trial.accepting(after: 1...5),
            settings: ["apps": apps, "apns_dial_backoff_min": nil, "apns_dial_backoff_max": nil])
    }

    /// What of these this trial is to try, in their order: two, where others try the rest, and all of them else.
    fileprivate func share<Kind>(of kinds: [Kind]) -> [Kind] {
        if stages == 1 { return kinds }
        return [place % kinds.count, (place + 1) % kinds.count].sorted().map { kinds[$0] }
    }

    /// Before anything is refused again: a daemon that knows of an acceptance judges otherwise.
    fileprivate func endRound() throws {
        for daemon in daemons { try terminate(daemon) }
    }

    /// Queues jobs of apps that are refused, in turn, and starts a daemon that has not seen any of them accepted; behind them come
    /// jobs of the app that is well. A minute later it returns the daemon.
    ///
    /// - Parameter service: what refuses them.
    fileprivate func hold(at service: Simulator, apps: [String]) throws -> DaemonProcess {
        let jobs = self.jobs(100_000)
        try queue(jobs) { number in
            #"{"token":"\#(deviceToken(number))","app":"\#(apps[number % apps.count])","identifier":\#(number),"data":{"aps":{}}}"#
        }
        // The machine has as much to do with all of them as with one.
        if producer == nil { try produce(perSecond: Trial.rate / stages, from: Trial.firstOfOthers) }
        let daemon = try start()
        try watch(jobs, at: service)
        return daemon
    }

    /// Lets a minute pass (seconds, where the counts are small): few requests are refused, no job pays for it, and the other app goes on.
    ///
    /// - Parameter service: what refuses them. It tells the apps apart by its reasons: each has one of its own.
    private func watch(_ jobs: Int, at service: Simulator) throws {
        let (length, most) = scale == .full ? (Duration.seconds(60), 40) : (.seconds(3), 22)
        let (before, start) = (service.totals, Instant.now)
        try self.await("the app is held") { complaints("Its jobs stay in the queue until APNs accepts one.") > 0 }
        _ = waitUntil(atMost: length / 2) { false }
        let half = (sent: try stage.sent(), queued: producer?.acknowledged ?? 0)
        _ = waitUntil(atMost: start + length - .now) { false }
        let (sent, queued) = (try stage.sent() - half.sent, (producer?.acknowledged ?? 0) - half.queued)
        // Two seconds of a machine with other work say nothing of a rate.
        if scale == .full && Double(sent) < 0.9 * Double(queued) {
            fail("\(queued) jobs of the other app came in, and \(sent) went out")
        }
        let totals = service.totals
        try self.await("jobs of the other app go out", atMost: .seconds(20)) { try stage.sent() - half.sent >= queued }
        for (answer, count) in totals.answers where count - before.answers[answer, default: 0] > most {
            fail("\(count - before.answers[answer, default: 0]) times \(answer) in \(length), \(most) are allowed")
        }
        let dials = totals.failedHandshakes - before.failedHandshakes
        if dials > most { fail("\(dials) dials were refused in \(length), \(most) are allowed") }
        try self.await("all \(jobs) are still there", atMost: .seconds(10)) {
            let status = try self.status()
            return status.backlog + status.inFlight >= jobs && status.dead + status.delayed == 0
        }
    }

    /// Puts the files that APNs accepts in the place of the wrong ones.
    fileprivate func takeGoodFiles() throws {
        for name in ["client.pem", "client-key.pem", "AuthKey_SIMKEY0002.p8"] {
            try File.write(File.read(stage.folder.file("credentials/\(name)")), to: stage.folder.file("wrong/\(name)"))
        }
    }

    fileprivate func expectNothingSpent() {
        afterwards = { [unowned self] status in
            let spent = status.counter(.retried) + status.dead + status.counter(.expired)
            if spent > 0 { fail("\(spent) jobs paid for the credential") }
        }
    }
}
