import ArgumentParser
import Harness

/// Everything about gaplessd that is shown by running it whole: a real redis-server, the simulator, and the daemon, each a
/// process of its own, all gone at the end.
@main
struct GaplessLab: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "gapless-lab",
        abstract: "Runs gaplessd whole, beside a Redis and an APNs simulator of its own.",
        subcommands: [Demo.self, Bench.self, Gate.self, Chaos.self, PushLoad.self])
}
