import Glibc
import Harness

/// Compares "at least once" with "at most once" while Redis has one processor alone, as on another machine. The daemon and the
/// server share the other one.
///
/// Each round also measures the bare claim: the minimum that at-least-once delivery costs Redis.
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

    /// Prints a table, and returns its figures.
    func measure() throws -> JSON {
        guard sysconf(CInt(_SC_NPROCESSORS_ONLN)) > 1 else {
            say("at least once and at most once: needs two processors")
            return .array([])
        }
        let shapes = [
            Shape(title: "immediate responses", jobs: jobs, rounds: rounds),
            Shape(
                title: "responses out of order, after 0 to 4 ms", jobs: jobs, rounds: rounds,
                simulator: ["--latency", "0ms..4ms"]),
            Shape(title: "backlog of \(backlog)", jobs: backlog, rounds: backlogRounds),
        ]
        say(
            "\nAt least once and at most once: Redis has one processor, "
                + "the daemon and the server share the other. Medians (min - max)."
        )
        say(DeliveryResult.header)
        let results = try shapes.map { shape in
            let result = try measure(shape)
            say(result.line)
            return result
        }
        return .array(results.map(\.json))
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
