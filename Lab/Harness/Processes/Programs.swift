import Glibc

/// Returns the resident memory of a process, in bytes; 0 if the process has ended.
public func processMemory(_ pid: CInt) -> Int {
    let fields = File.read("/proc/\(pid)/statm").split(separator: " ")
    return fields.count > 1 ? (Int(fields[1]) ?? 0) * Int(sysconf(CInt(_SC_PAGESIZE))) : 0
}

/// Returns the peak resident memory of a running process, in bytes, counted from the start of its program.
///
/// The kernel starts `ChildProcess.Exit.peakBytes` with the memory of the parent instead.
public func peakMemory(_ pid: CInt) -> Int {
    for line in File.read("/proc/\(pid)/status").split(separator: "\n") where line.hasPrefix("VmHWM:") {
        return line.split(separator: " ").dropFirst().first.flatMap { Int($0) }.map { $0 * 1024 } ?? 0
    }
    return 0
}

/// Returns the processor time of a running process, in the ticks of the kernel.
public func processorTime(_ pid: CInt) -> Duration {
    // utime and stime are fields 14 and 15 of stat, in ticks, after a name that may contain spaces (proc(5)).
    let text = File.read("/proc/\(pid)/stat")
    guard let end = text.lastIndex(of: ")") else { return .zero }
    let fields = text[end...].split(separator: " ")
    guard fields.count > 13, let user = Int(fields[12]), let system = Int(fields[13]) else { return .zero }
    return .milliseconds((user + system) * 1000 / Int(sysconf(CInt(_SC_CLK_TCK))))
}
