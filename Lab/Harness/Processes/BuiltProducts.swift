import Glibc

/// The programs of this package.
public enum BuiltProducts {
    /// Returns the path of a product: SwiftPM puts all of them, and the test program, into one folder.
    public static func path(_ name: String) -> String {
        var buffer = [CChar](repeating: 0, count: 4096)
        let length = unsafe readlink("/proc/self/exe", &buffer, buffer.count)
        let ourselves = String(decoding: buffer.prefix(max(0, length)).map(UInt8.init(bitPattern:)), as: UTF8.self)
        return ourselves.split(separator: "/", omittingEmptySubsequences: false).dropLast().joined(separator: "/") + "/" + name
    }

    /// The path of the daemon of 0.1.0 that `scripts/older-daemon` built; `nil` if it did not run.
    public static var olderDaemon: String? {
        let path = Checkout.path + "/.build/older/gaplessd"
        return unsafe access(path, X_OK) == 0 ? path : nil
    }
}
