import Glibc
import Harness

/// The machine of the figures.
enum Machine {
    static var description: String {
        let model = File.read("/proc/cpuinfo").split(separator: "\n").first { $0.hasPrefix("model name") }
        let name = model.flatMap { $0.split(separator: ":").last }.map { $0.drop { $0 == " " } } ?? "unknown processor"
        let kernel = File.read("/proc/sys/kernel/osrelease").split(separator: "\n").first ?? ""
        return "\(sysconf(CInt(_SC_NPROCESSORS_ONLN))) x \(name), Linux \(kernel)"
    }
}
