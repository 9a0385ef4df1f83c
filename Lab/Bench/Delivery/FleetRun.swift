import Glibc
import Harness
import Platform

/// One window of one run. Shares refer to one processor.
struct FleetRun {
    /// Jobs per second, by daemon.
    var rates: [Double]
    var daemons: [Double]
    var redis: Double
    var simulator: Double
    /// Idle shares of the processor of the daemons, and of that of Redis and the simulator.
    var idle: [Double]

    init(_ before: FleetLook, _ after: FleetLook) {
        let seconds = (after.time - before.time) / .seconds(1)
        rates = zip(after.sent, before.sent).map { Double($0 - $1) / seconds }
        daemons = zip(after.daemons, before.daemons).map { ($0 - $1) / .seconds(1) / seconds }
        redis = (after.redis - before.redis) / .seconds(1) / seconds
        simulator = (after.simulator - before.simulator) / .seconds(1) / seconds
        idle = zip(after.processors, before.processors).prefix(2).map { $0.idleShare(since: $1) }
    }
}
