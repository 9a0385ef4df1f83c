import APNSSimulator
import Glibc
import Harness
import Platform
internal import RedisQueue

/// A wrong credential or environment with a long backlog, and another app in the same daemon and list.
///
/// No daemon has had an acceptance. Either the operator repairs a file and sends SIGHUP, or APNs accepts the credential again and
/// a probe succeeds. Each round takes a minute, so the full table runs five stages at once, with two kinds of fault each.
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
        // The certificate is from another authority, and the key does not belong to this id.
        try Credentials.make(.init(keyID: HostedSimulator.secondKeyID)).write(to: trial.stage.folder.file("wrong"))
        for wrong in trial.share(of: WrongCertificate.allCases) {
            try trial.endRound()
            if wrong != .files { try trial.takeGoodFiles() }
            trial.stage.simulator.behave { $0.refusals = wrong.refusals }
            let daemon = try trial.hold(at: trial.stage.simulator, apps: ["certified", "keyed"])
            // The next probe and the next dial come within a minute plus jitter.
            try trial.repair(backWithin: .seconds(300)) {
                if wrong == .files { try trial.takeGoodFiles() }
                trial.stage.simulator.behave { $0.refusals = [] }
                if wrong == .files { daemon.process.kill(SIGHUP) }
            }
        }
        trial.afterwards = { trial.expectNothingSpent($0, "the credential was refused") }
    }

    private static let wrongEnvironment = Fault(
        number: 54, name: "wrong-environment", title: "100,000 jobs sent to the wrong environment", rule: .nothingTwice, stages: 5
    ) { trial in
        try trial.openForTwoApps("{}")
        // All devices there belong to the other environment.
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
            // 20 suspect responses, and then up to 20 probes every five seconds.
            let daemon = try trial.hold(at: wrong == .server ? sandbox : trial.stage.simulator, apps: ["strayed"], most: 200)
            try trial.repair(backWithin: .seconds(300)) {
                if wrong == .server { try trial.write(settings: ["apps": strayed(to: trial.stage.service.port)]) }
                trial.stage.simulator.behave { ($0.devices, $0.refusals) = ([], []) }
                if wrong == .server { daemon.process.kill(SIGHUP) }
            }
        }
        if sandbox.totals.accepted > 0 { trial.fail("\(sandbox.totals.accepted) accepted by the wrong environment") }
        trial.afterwards = { trial.expectNothingSpent($0, "the credential was refused") }
    }

    private static func strayed(to port: Int) -> String {
        """
        {"strayed": {"apns_server": "localhost:\(port)", "apns_cert_path": "credentials/client.pem",
                     "apns_key_path": "credentials/client-key.pem"}}
        """
    }
}

extension Fault {
    /// A fault of a certificate and of the key of another app.
    fileprivate enum WrongCertificate: CaseIterable {
        /// The operator's files are wrong.
        case files
        /// APNs refuses good files.
        case refused, expired

        var refusals: [Behaviour.Refusal] {
            switch self {
            case .files: []
            case .refused: [.init(.certificate, .badCertificate), .init(.key("SIMKEY0002"), .invalidProviderToken)]
            case .expired: [.init(.certificate), .init(.key("SIMKEY0002"), .expiredProviderToken)]
            }
        }
    }

    /// The kinds of a wrong environment.
    fileprivate enum WrongEnvironment: CaseIterable {
        /// The settings name the other environment.
        case server
        /// APNs reports the devices, or the certificate, as wrong.
        case devices, certificate

        var devices: [DeviceRule] { self == .devices ? [.init(prefix: Trial.refusedTokens, .environment(.sandbox))] : [] }

        var refusals: [Behaviour.Refusal] { self == .certificate ? [.init(.certificate, .badCertificateEnvironment)] : [] }
    }

}

extension Trial {
    /// The number of the first job of the accepted app; the refused apps have lower numbers.
    private static let firstOfOthers = 0x10_0000
    /// The common prefix of the device tokens of the refused apps.
    fileprivate static let refusedTokens = String(deviceToken(0).dropLast(5))

    /// Opens a simulator that accepts certificates and two keys, and an accepted app at the top level.
    fileprivate func openForTwoApps(_ apps: String) throws {
        // The dials use the default backoff: the row counts the dials of a minute.
        try open(
            hosting: Trial.accepting(after: 1...5),
            settings: ["apps": apps, "apns_dial_backoff_min": nil, "apns_dial_backoff_max": nil])
    }

    /// Returns the kinds of fault for this trial, in order: two if other trials run the rest, otherwise all.
    fileprivate func share<Kind>(of kinds: [Kind]) -> [Kind] {
        if stages == 1 { return kinds }
        return [place % kinds.count, (place + 1) % kinds.count].sorted().map { kinds[$0] }
    }

    /// Stops the daemons and deletes what they remember: after an acceptance suspect tokens are settled differently.
    fileprivate func endRound() throws {
        for daemon in daemons { try terminate(daemon) }
        _ = try stage.command("DEL", stage.keys.accepted)
    }

    /// Queues jobs of the refused apps, then jobs of the accepted app, and starts a daemon. Returns the daemon after a minute.
    ///
    /// - Parameters:
    ///   - service: the simulator that refuses the jobs.
    ///   - most: the requests that it may get in the minute: by default, one probe at a time.
    fileprivate func hold(at service: Simulator, apps: [String], most: Int = 40) throws -> DaemonProcess {
        let jobs = self.jobs(100_000)
        try queue(jobs) { number in
            #"{"token":"\#(deviceToken(number))","app":"\#(apps[number % apps.count])","#
                + #""identifier":\#(number),"data":{"aps":{}}}"#
        }
        // All stages together produce as many jobs as one.
        if producer == nil { try produce(perSecond: Trial.rate / stages, from: Trial.firstOfOthers) }
        let daemon = try start()
        try watch(jobs, at: service, most: most)
        return daemon
    }

    /// Verifies one minute (seconds with small counts): APNs refuses few requests, no job is spent, and the other app continues.
    ///
    /// - Parameters:
    ///   - service: the simulator that refuses the jobs, with a different reason for each app.
    ///   - most: the requests that it may get in the minute.
    private func watch(_ jobs: Int, at service: Simulator, most: Int) throws {
        let (length, most) = scale == .full ? (Duration.seconds(60), most) : (.seconds(3), 22)
        let (before, start) = (service.totals, Instant.now)
        try self.await("the app is held") { complaints("Its jobs stay in the queue until APNs accepts one") > 0 }
        pause(length / 2)
        let half = (sent: try stage.sent(), queued: producer?.acknowledged ?? 0)
        pause(start + length - .now)
        let (sent, queued) = (try stage.sent() - half.sent, (producer?.acknowledged ?? 0) - half.queued)
        // Two seconds on a busy machine do not show a rate.
        if scale == .full && Double(sent) < 0.9 * Double(queued) {
            fail("\(queued) jobs of the other app arrived, and \(sent) were sent")
        }
        let totals = service.totals
        try self.await("the jobs of the other app are sent", atMost: .seconds(20)) { try stage.sent() - half.sent >= queued }
        for (answer, count) in totals.answers where count - before.answers[answer, default: 0] > most {
            fail("\(count - before.answers[answer, default: 0]) times \(answer) in \(length), at most \(most) are allowed")
        }
        let dials = totals.failedHandshakes - before.failedHandshakes
        if dials > most { fail("\(dials) dials were refused in \(length), at most \(most) are allowed") }
        try self.await("all \(jobs) jobs are still in Redis", atMost: .seconds(10)) {
            let status = try self.status()
            return status.backlog + status.inFlight >= jobs && status.dead + status.delayed == 0
        }
    }

    /// Replaces the wrong files by files that APNs accepts.
    fileprivate func takeGoodFiles() throws {
        for name in ["client.pem", "client-key.pem", "AuthKey_SIMKEY0002.p8"] {
            try File.write(File.read(stage.folder.file("credentials/\(name)")), to: stage.folder.file("wrong/\(name)"))
        }
    }
}
