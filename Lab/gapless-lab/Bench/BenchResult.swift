import Harness

/// All runs of one row.
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

    /// CPU of one push beside that of the yardstick, run by run: both ran one after the other, whatever else the machine did.
    func ratio(to yardstick: BenchResult) -> Figures {
        Figures(values: zip(cpu.values, yardstick.cpu.values).map { $0 / $1 })
    }

    static let header =
        padRight("", 32) + padRight("CPU us/push", 26) + padRight("pushes/s", 28) + padRight("x h2load", 21)
        + padRight("Redis us", 10) + "peak MB"

    func line(_ ratio: Figures?) -> String {
        padRight(row.title, 32) + padRight(cpu.text(2), 26) + padRight(rate.text(0), 28)
            + padRight(ratio?.text(2) ?? "", 21) + padRight(redis.median > 0 ? decimal(redis.median, 2) : "", 10)
            + megabytes(peak)
    }

    func json(_ ratio: Figures?) -> String {
        "    {\"row\": \"\(row.name)\", \"title\": \"\(row.title)\", \"runs\": \(cpu.values.count), \"cpu_us_per_push\": \(cpu.json), "
            + "\"pushes_per_second\": \(rate.json), \"redis_us_per_push\": \(redis.json), "
            + (ratio.map { "\"ratio_to_h2load\": \($0.json), " } ?? "") + "\"peak_bytes\": \(peak)}"
    }
}
