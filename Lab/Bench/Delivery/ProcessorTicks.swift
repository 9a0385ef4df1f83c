import Harness

/// The ticks of one processor since the start of the machine.
struct ProcessorTicks {
    var idle: Int
    var all: Int

    static func now() -> [ProcessorTicks] {
        File.read("/proc/stat").split(separator: "\n").filter { $0.hasPrefix("cpu") && !$0.hasPrefix("cpu ") }.map { line in
            // user nice system idle iowait irq softirq steal; user includes the time of guests (proc(5)).
            let ticks = line.split(separator: " ").dropFirst().prefix(8).map { Int($0) ?? 0 }
            return ProcessorTicks(idle: ticks.dropFirst(3).prefix(2).reduce(0, +), all: ticks.reduce(0, +))
        }
    }

    func idleShare(since before: ProcessorTicks) -> Double {
        all > before.all ? Double(idle - before.idle) / Double(all - before.all) : 0
    }
}
