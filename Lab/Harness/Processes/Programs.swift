import Glibc

/// Resident memory of a process, in bytes; 0 when it is gone.
public func processMemory(_ pid: CInt) -> Int {
    let fields = File.read("/proc/\(pid)/statm").split(separator: " ")
    return fields.count > 1 ? (Int(fields[1]) ?? 0) * Int(sysconf(CInt(_SC_PAGESIZE))) : 0
}

/// The most memory that a living process ever had resident, in bytes. Unlike `ChildProcess.Exit.peakBytes`, which the kernel
/// begins with what its parent had, it counts from the program's start.
public func peakMemory(_ pid: CInt) -> Int {
    for line in File.read("/proc/\(pid)/status").split(separator: "\n") where line.hasPrefix("VmHWM:") {
        return line.split(separator: " ").dropFirst().first.flatMap { Int($0) }.map { $0 * 1024 } ?? 0
    }
    return 0
}

/// Processor time that a living process has used so far, from /proc/PID/schedstat: nanoseconds of its threads.
public func processorTime(_ pid: CInt) -> Duration {
    // utime and stime are fields 14 and 15 of stat, in ticks, behind a name that may hold spaces (proc(5)).
    let text = File.read("/proc/\(pid)/stat")
    guard let end = text.lastIndex(of: ")") else { return .zero }
    let fields = text[end...].split(separator: " ")
    guard fields.count > 13, let user = Int(fields[12]), let system = Int(fields[13]) else { return .zero }
    return .milliseconds((user + system) * 1000 / Int(sysconf(CInt(_SC_CLK_TCK))))
}
