import APNSSimulator
import Glibc
import Harness
internal import RedisQueue

/// Faults of APNs: refused requests, and names that do not resolve.
extension Fault {
    static let refusalRows = [storm, providerTokens, rubbishKey, names]

    /// Bursts of errors; the delays are tenths of a second instead of minutes.
    private static let storm = Fault(
        number: 37, name: "storm", title: "bursts of 429, 500 and 503 to everything", rule: .nothingTwice, isQuick: true
    ) { trial in
        try trial.open(hosting: Trial.accepting(after: 5...15))
        try trial.start()
        try trial.produce()
        for turn in 0..<trial.times(10) {
            try trial.awaitBusy()
            try trial.inject {
                trial.stage.simulator.behave { $0.script.failures = [.init(.usual([429, 500, 503][turn % 3]), 1)] }
                trial.pause(100...600)
                trial.stage.simulator.behave { $0.script.failures = [] }
            }
        }
        trial.afterwards = { _ in
            try trial.awaitLedger()
            let sends = trial.stage.service.ledger.entries.reduce(into: [:]) { $0[$1.token, default: 0] += 1 }
            let dead = Set(try trial.stage.deadLetterCounts().tokens)
            // More sends than four are those of a failing APNs.
            let early = dead.count { sends[$0, default: 0] < 4 }
            if early > 0 { trial.fail("\(early) dead letters before the fourth send") }
        }
    }

    /// The daemon holds the app until the operator reloads; no job is counted or dead-lettered.
    private static let providerTokens = Fault(
        number: 39, name: "provider-token", title: "403 ExpiredProviderToken, InvalidProviderToken", rule: .nothingTwice,
        isQuick: true
    ) { trial in
        try trial.open(hosting: Trial.accepting(after: 5...15))
        let daemon = try trial.start()
        try trial.produce()
        for turn in 0..<trial.times(10) {
            try trial.awaitBusy()
            trial.pause(50...200)
            try trial.inject {
                let holds = trial.complaints("APNs does not accept the credential")
                let reason = turn % 2 == 0 ? "ExpiredProviderToken" : "InvalidProviderToken"
                trial.stage.simulator.behave { $0.script.failures = [.init(.status(403, reason), 1)] }
                try trial.await("the app is held") { trial.complaints("APNs does not accept the credential") > holds }
                trial.stage.simulator.behave { $0.script.failures = [] }
                daemon.process.kill(SIGHUP)
            }
        }
        trial.afterwards = { status in
            let spent = status.counter(.retried) + status.dead
            if spent > 0 { trial.fail("\(spent) jobs were spent on the credential") }
        }
    }

    private static let rubbishKey = Fault(
        number: 40, name: "rubbish-key", title: "key file replaced by random bytes, then by a good one", rule: .nothingTwice,
        isQuick: true
    ) { trial in
        try trial.open()
        let daemon = try trial.start()
        let path = trial.stage.folder.file("credentials/AuthKey_SIMKEY0001.p8")
        let good = File.read(path)
        try trial.produce()
        for turn in 0..<trial.times(10) {
            try trial.awaitBusy()
            try trial.inject {
                let (refused, reloaded) = (trial.complaints("Reload failed"), trial.reloads(of: daemon))
                let rubbish = ["", String(good.prefix(good.utf8.count / 2)), String(good.reversed()), "\u{0}\u{1}\u{2}"]
                try File.write(rubbish[turn % rubbish.count], to: path)
                daemon.process.kill(SIGHUP)
                try trial.await("the reload is refused") { trial.complaints("Reload failed") > refused }
                try trial.awaitSent(try trial.stage.sent() + 200)
                try File.write(good, to: path)
                daemon.process.kill(SIGHUP)
                try trial.await("the reload succeeds") { trial.reloads(of: daemon) > reloaded }
            }
        }
    }

    /// The host names in a separate mount namespace: a dead address first, only a dead address, and no address.
    private static let names = Fault(
        number: 41, name: "names", title: "DNS fails or returns a dead address", rule: .onlyWhatWasInFlight, isQuick: true
    ) { trial in
        try trial.open(proxies: true)
        let hosts = trial.stage.folder.file("hosts")
        let (good, dead) = ("127.0.0.1 localhost\n", "127.0.0.99 localhost\n")
        try File.write(dead + good, to: hosts)
        try trial.start(under: trial.replacing("/etc/hosts", by: hosts))
        try trial.produce()
        for turn in 0..<trial.times(10) {
            try trial.awaitBusy()
            try trial.inject {
                try File.write([dead, "", dead + good][turn % 3], to: hosts)
                trial.stage.serviceProxy?.cutAll()
                try trial.allowInFlightTwice()
                trial.pause(100...500)
                try File.write(turn % 2 == 0 ? good : dead + good, to: hosts)
            }
        }
    }
}

extension Trial {
    func reloads(of daemon: DaemonProcess) -> Int {
        daemon.standardOutput.split(separator: "\n").count { $0.contains("Reloaded:") }
    }
}
