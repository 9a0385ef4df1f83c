import ArgumentParser
import Harness

/// Demonstrations and measurements of gaplessd as a process, with a redis-server and the simulator.
@main
struct GaplessLab: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "gapless-lab",
        abstract: "Runs gaplessd with a temporary Redis and an APNs simulator.",
        subcommands: [Demo.self, Bench.self, Gate.self, Chaos.self, Control.self, PushLoad.self, FrostExample.self])
}
