import Glibc

/// The name of a worker. The next process on the machine recognizes by it that a former one is dead, without waiting for its
/// lease.
///
/// `<place>-<pid>-<start>-<instance>`: place is a hash of the machine's id, its boot id, the hardware addresses of its network
/// devices and the process' PID namespace, start the process' start time in clock ticks after boot. Inside one place a PID that
/// is gone, or that started at another time, cannot come back. Of other places nothing is concluded. The hardware addresses
/// differ between clones of a running machine. No character of the name has a meaning in a key.
struct WorkerName: Equatable {
    let text: String
    let host: String
    let pid: Int
    /// A random number: cloned machines may give the same name to two processes.
    let identity = UInt64.random(in: .min ... .max)

    /// A name for one more worker in this process.
    static func make(instance: Int) -> WorkerName { make(instance: String(instance), place: here) }

    /// A name that no other process uses, for a worker whose name is in use. The machine may have been cloned.
    static func unique() -> WorkerName { make(instance: hexadecimal(.random(in: .min ... .max)), place: place() ?? here) }

    private static func make(instance: String, place: String) -> WorkerName {
        let pid = Int(getpid())
        let start = startTime(of: pid).map(String.init) ?? "0"
        return WorkerName(text: "\(place)-\(pid)-\(start)-\(instance)", host: hostName(), pid: pid)
    }

    /// Whether the worker of this name was a process of this place and is certainly gone.
    static func isGone(_ name: String) -> Bool {
        let parts = name.split(separator: "-", omittingEmptySubsequences: false)
        guard parts.count == 4, parts[0] == here, let pid = Int(parts[1]), let start = UInt64(parts[2]), start > 0,
            let processID = pid_t(exactly: pid), processID > 0
        else { return false }
        // With hidepid the start time is unreadable.
        let isGone = kill(processID, 0) != 0 && errno == ESRCH || startTime(of: pid).map { $0 != start } ?? false
        // The machine may have been cloned since this process started.
        return isGone && place().map { $0 == here } ?? true
    }

    /// The place of this process at its start. Without a boot id or a PID namespace it is random, and so equals no other place.
    private static let here = place() ?? hexadecimal(.random(in: .min ... .max))

    private static func place() -> String? {
        let machine = contents(of: "/etc/machine-id") ?? Array(hostName().utf8)
        guard let boot = contents(of: "/proc/sys/kernel/random/boot_id"), let namespace = target(of: "/proc/self/ns/pid") else {
            return nil
        }
        // FNV-1a, 64 bits: the inputs are random numbers, so that nothing stronger is needed.
        var hash: UInt64 = 0xcbf2_9ce4_8422_2325
        for byte in machine + [0] + boot + [0] + namespace + [0] + hardwareAddresses() {
            hash = (hash ^ UInt64(byte)) &* 0x100_0000_01b3
        }
        return hexadecimal(hash)
    }

    /// Of the network interfaces that have a device, sorted by name. Bridges and the interfaces of containers come and go.
    private static func hardwareAddresses() -> [UInt8] {
        let path = "/sys/class/net"
        return entries(of: path).sorted().filter { target(of: "\(path)/\($0)/device") != nil }
            .flatMap { contents(of: "\(path)/\($0)/address") ?? [] }
    }

    private static func entries(of folder: String) -> [String] {
        guard let stream = unsafe opendir(folder) else { return [] }
        defer { unsafe closedir(stream) }
        var names: [String] = []
        while let entry = unsafe readdir(stream) {
            let name = unsafe withUnsafePointer(to: &entry.pointee.d_name) {
                unsafe $0.withMemoryRebound(to: CChar.self, capacity: Int(NAME_MAX) + 1) { unsafe String(cString: $0) }
            }
            if !name.hasPrefix(".") { names.append(name) }
        }
        return names
    }

    /// Field 22 of /proc/PID/stat (proc(5)). The second field is a name in parentheses that may contain spaces.
    private static func startTime(of pid: Int) -> UInt64? {
        guard let stat = contents(of: "/proc/\(pid)/stat"), let name = stat.lastIndex(of: UInt8(ascii: ")")) else { return nil }
        let fields = stat[(name + 1)...].split(separator: UInt8(ascii: " "))
        guard fields.count > 19 else { return nil }
        return UInt64(String(decoding: fields[19], as: UTF8.self))
    }

    private static func hexadecimal(_ number: UInt64) -> String {
        let digits = String(number, radix: 16)
        return String(repeating: "0", count: 16 - digits.count) + digits
    }

    private static func hostName() -> String {
        var name = [CChar](repeating: 0, count: 256)
        guard unsafe gethostname(&name, name.count - 1) == 0 else { return "unknown" }
        return String(decoding: name.prefix { $0 != 0 }.map(UInt8.init(bitPattern:)), as: UTF8.self)
    }

    /// The first 4 KiB of a small file; `nil` when it cannot be read or is empty.
    private static func contents(of path: String) -> [UInt8]? {
        let descriptor = unsafe open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { return nil }
        defer { close(descriptor) }
        var buffer = [UInt8](repeating: 0, count: 4096)
        let count = unsafe read(descriptor, &buffer, buffer.count)
        return count > 0 ? Array(buffer.prefix(count)) : nil
    }

    private static func target(of link: String) -> [UInt8]? {
        var buffer = [CChar](repeating: 0, count: 256)
        let count = unsafe readlink(link, &buffer, buffer.count)
        return count > 0 ? buffer.prefix(count).map(UInt8.init(bitPattern:)) : nil
    }
}
