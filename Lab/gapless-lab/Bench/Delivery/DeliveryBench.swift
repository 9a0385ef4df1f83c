import Glibc
import Harness

/// What "at least once" costs beside "at most once", where Redis has a processor of its own, as it has on another machine. Daemon and
/// server share the other one.
///
/// In each round the bare claim runs as well: what Redis pays for the least that at-least-once can mean.
struct DeliveryBench {
    var jobs = 200_000
    var rounds = 5
    var backlog = 1_000_000
    var backlogRounds = 3

    private struct Shape {
        var title: String
        var jobs: Int
        var rounds: Int
        var simulator: [String] = []
    }

    /// Prints a table; returns its part of the JSON.
    func measure() throws -> String {
        guard sysconf(CInt(_SC_NPROCESSORS_ONLN)) > 1 else {
            say("at least once beside at most once: needs two processors")
            return "  \"delivery\": []"
        }
        let shapes = [
            Shape(title: "answers at once", jobs: jobs, rounds: rounds),
            Shape(
                title: "answers out of order, after 0 to 4 ms", jobs: jobs, rounds: rounds, simulator: ["--latency", "0ms..4ms"]),
            Shape(title: "backlog of \(backlog)", jobs: backlog, rounds: backlogRounds),
        ]
        say(
            "\nAt least once beside at most once: Redis has one processor to itself, daemon and server share the other. Medians (min - max)."
        )
        say(DeliveryResult.header)
        let results = try shapes.map { shape in
            let result = try measure(shape)
            say(result.line)
            return result
        }
        return "  \"delivery\": [\n" + results.map(\.json).joined(separator: ",\n") + "\n  ]"
    }

    private func measure(_ shape: Shape) throws -> DeliveryResult {
        var result = DeliveryResult(title: shape.title)
        let run = BenchRun(jobs: shape.jobs, layout: .redisAlone)
        for _ in 1...shape.rounds {
            let least = try run.measure(.daemon(simulator: shape.simulator))
            let most = try run.measure(.daemon(settings: ["redis_delivery": "\"at_most_once\""], simulator: shape.simulator))
            result.add(least: least, most: most, bare: try BareClaims(jobs: jobs).measure(), jobs: shape.jobs, bareJobs: jobs)
        }
        return result
    }
}
