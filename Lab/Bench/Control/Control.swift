import ArgumentParser
import Glibc
import Harness
import Platform
import RedisQueue

/// Measures `pause`, `find`, `cancel` and `cancel --undo` on a long list under load, with three daemons.
struct Control: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Pauses, searches, cancels and restores jobs of a long list under load, and checks every byte.",
        discussion: """
            Three daemons deliver a list of which 30 % belong to the app "news". The command measures how long claims go on \
            after 'pause', how long 'find' takes and what it costs, and the deliveries during 'cancel --app news', which is \
            killed twice with SIGKILL. Then it compares all jobs byte for byte, before and after 'cancel --undo'. It fails if a \
            figure misses its limit.
            """)

    @Option(help: "The number of jobs.")
    var jobs = 1_000_000

    @Option(help: "Pushes per second of all daemons together.")
    var rate = 5000

    func run() throws {
        let load = try ControlLoad(jobs: jobs, rate: rate)
        say("\(jobs) jobs, 3 daemons, at most \(rate) pushes/s\n")
        let normal = try load.rate(over: .seconds(5))
        say("deliveries        \(decimal(normal, 0))/s")
        var missed = try find(load, normal)
        missed += try pause(load)
        // The daemons claim again within a second after the end of the pause.
        for _ in 0..<30 where try load.rate(over: .seconds(1)) < 0.9 * normal { continue }
        missed += try cancel(load, normal)
        missed += try undo(load)
        if !missed.isEmpty { throw LabError(description: missed.joined(separator: "; ")) }
    }

    private func find(_ load: ControlLoad, _ normal: Double) throws -> [String] {
        let begin = Instant.now
        var output = ""
        let during = try load.rate { output = try load.call("find", "--token", deviceToken(jobs - 1)) }
        let seconds = (Instant.now - begin) / .seconds(1)
        say("find --token      \(decimal(seconds, 1)) s, deliveries \(decimal(during, 0))/s")
        var missed = seconds < 10 ? [] : ["find took \(decimal(seconds, 1)) s"]
        if !output.contains("waiting") { missed.append("find did not find the last job: \(output)") }
        if during < 0.8 * normal { missed.append("find cost more than 20 % of the deliveries") }
        return missed
    }

    private func pause(_ load: ControlLoad) throws -> [String] {
        _ = try load.call("pause", "--reason", "measurement")
        let called = Instant.now
        let claimed = try load.lastChangeOfClaims(within: .seconds(4))
        let seconds = max(0, (claimed - called) / .seconds(1))
        say("pause             claims end \(decimal(seconds, 2)) s after the call")
        _ = try load.call("resume")
        return seconds <= 1 ? [] : ["claims ended \(decimal(seconds, 2)) s after the pause"]
    }

    private func cancel(_ load: ControlLoad, _ normal: Double) throws -> [String] {
        var during = 0.0
        var (seconds, output) = (0.0, "")
        for attempt in 1...3 {
            let begin = Instant.now
            let rate = try load.rate {
                output = try load.call("cancel", "--app", "news", "--yes", killedAfter: attempt < 3 ? .seconds(4) : nil)
            }
            during += rate * ((Instant.now - begin) / .seconds(1))
            seconds += (Instant.now - begin) / .seconds(1)
            let cancelled = try load.stage.command("LLEN", load.stage.keys.cancelled).integer ?? 0
            say("cancel, call \(attempt)    \(cancelled) cancelled so far, deliveries \(decimal(rate, 0))/s")
        }
        let lines = output.split(separator: "\n").joined(separator: ", ")
        say("cancel            \(decimal(seconds, 1)) s with two kill -9: \(lines)")
        _ = try load.call("pause")
        _ = try load.lastChangeOfClaims(within: .seconds(3))
        let state = try load.state()
        say("                  \(state)")
        var missed = during / seconds < 0.8 * normal ? ["cancel cost more than 20 % of the deliveries"] : []
        if state.waitingOfApp > 0 { missed.append("cancel left \(state.waitingOfApp) jobs") }
        return missed + state.faults
    }

    private func undo(_ load: ControlLoad) throws -> [String] {
        let begin = Instant.now
        let output = try load.call("cancel", "--undo", "--yes")
        let seconds = (Instant.now - begin) / .seconds(1)
        say("cancel --undo     \(decimal(seconds, 1)) s: \(output.split(separator: "\n").joined(separator: ", "))")
        let state = try load.state()
        say("                  \(state)")
        return state.faults + (state.cancelled == 0 ? [] : ["\(state.cancelled) jobs are still cancelled"])
    }
}
