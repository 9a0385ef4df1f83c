import Glibc

/// A sanitizer that this program, and with it the other programs of the package, was built with.
public enum Sanitizer: Sendable {
    case address
    case thread

    /// `nil` in a usual build.
    public static let current: Sanitizer? =
        if unsafe dlsym(nil, "__tsan_init") != nil {
            .thread
        } else if unsafe dlsym(nil, "__asan_init") != nil {
            .address
        } else {
            nil
        }

    /// How many times longer a program may take than a usual build.
    public static var slowdown: Int { current == nil ? 1 : 4 }

    /// A bound of resident memory with what the sanitizer adds: its shadow memory and freed memory that it keeps are resident.
    /// - Parameter bytes: the bound of a usual build.
    public static func memoryBound(_ bytes: Int) -> Int { current == nil ? bytes : 8 * bytes }
}
