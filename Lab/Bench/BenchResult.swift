import Harness

/// The results of all runs of one row.
struct BenchResult {
    let row: BenchRow
    private(set) var cpu = Figures()
    private(set) var rate = Figures()
    private(set) var redis = Figures()
    private(set) var peak = 0

    init(_ row: BenchRow) { self.row = row }

    mutating func add(_ run: Measurement, pushes: Int) {
        cpu.values.append(run.cpu / .microseconds(1) / Double(pushes))
        redis.values.append(run.redis / .microseconds(1) / Double(pushes))
        rate.values.append(Double(pushes) / run.seconds)
        peak = max(peak, run.peak)
    }

    /// The ratio of the CPU per push to that of the reference, run by run: both ran one after the other.
    func ratio(to reference: BenchResult) -> Figures {
        Figures(values: zip(cpu.values, reference.cpu.values).map { $0 / $1 })
    }

    static let header =
        padRight("", 32) + padRight("CPU us/push", 26) + padRight("pushes/s", 28) + padRight("x h2load", 21)
        + padRight("Redis us", 10) + "peak MB"

    func line(_ ratio: Figures?) -> String {
        padRight(row.title, 32) + padRight(cpu.text(2), 26) + padRight(rate.text(0), 28)
            + padRight(ratio?.text(2) ?? "", 21) + padRight(redis.median > 0 ? decimal(redis.median, 2) : "", 10)
            + megabytes(peak)
    }

    func json(_ ratio: Figures?) -> JSON {
        var members: [(String, JSON)] = [
            ("row", .text(row.name)), ("title", .text(row.title)), ("runs", .integer(cpu.values.count)),
            ("cpu_us_per_push", cpu.json), ("pushes_per_second", rate.json), ("redis_us_per_push", redis.json),
        ]
        if let ratio { members.append(("ratio_to_h2load", ratio.json)) }
        return .object(members + [("peak_bytes", .integer(peak))])
    }
}
