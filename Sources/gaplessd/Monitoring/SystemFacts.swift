import Glibc
import Platform

/// The kernel's figures of this process.
struct SystemFacts: Sendable, Equatable {
    /// Unix seconds.
    var started: Double
    var residentBytes: Int
    var processorSeconds: Double

    static func now(started: WallClock) -> SystemFacts {
        var usage = rusage()
        unsafe getrusage(CInt(RUSAGE_SELF.rawValue), &usage)
        let seconds = { (time: timeval) in Double(time.tv_sec) + Double(time.tv_usec) / 1e6 }
        return SystemFacts(
            started: started.seconds, residentBytes: residentBytes(),
            processorSeconds: seconds(usage.ru_utime) + seconds(usage.ru_stime))
    }

    /// The second field of /proc/self/statm, in pages (proc(5)); 0 without /proc.
    private static func residentBytes() -> Int {
        guard let bytes = try? FileBytes.read("/proc/self/statm", atMost: 4096) else { return 0 }
        let fields = String(decoding: bytes, as: UTF8.self).split(separator: " ")
        return fields.count > 1 ? (Int(fields[1]) ?? 0) * Int(sysconf(CInt(_SC_PAGESIZE))) : 0
    }
}
