internal import CLinux
import Glibc

/// A C library of Lab that the dynamic linker loads before a program (`LD_PRELOAD`) to replace functions of the C library. A
/// number in a file, which the library maps, controls it while the program runs.
///
/// The program must have been started with `environment` or under `wrapper`.
public class PreloadedLibrary {
    public let environment: [String: String]
    private let folder = TemporaryFolder()
    private let file: CInt

    /// - Parameter variable: the library finds the path of the file there.
    fileprivate init(_ name: String, variable: String, number: Int64 = 0) throws {
        let path = folder.file("number")
        environment = ["LD_PRELOAD": try PreloadedLibrary.compiled(name), variable: path]
        file = unsafe open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
        guard file >= 0 else { throw HarnessError("cannot make \(path): errno \(errno)") }
        set(number)
    }

    deinit { close(file) }

    /// A command that runs a program with the library.
    public var wrapper: [String] { ["env"] + environment.map { "\($0.key)=\($0.value)" } }

    fileprivate func set(_ number: Int64) {
        var number = number
        _ = unsafe pwrite(file, &number, MemoryLayout.size(ofValue: number), 0)
    }

    /// Compiles the library next to the programs of this package, if its source is newer, and returns its path. Processes that
    /// run at the same time wait for each other.
    private static func compiled(_ name: String) throws -> String {
        let (source, library) = ("\(Checkout.path)/Lab/Preloaded/\(name).c", BuiltProducts.path("lib\(name).so"))
        let lock = unsafe open(library + ".lock", O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
        guard lock >= 0, flock(lock, LOCK_EX) == 0 else { throw HarnessError("cannot lock \(library): errno \(errno)") }
        defer { close(lock) }
        if try isCurrent(library, source) { return library }
        let draft = library + ".draft"
        // The Swift toolchain contains clang; `cc` is the system's compiler.
        for compiler in ["clang", "cc"] {
            let arguments = ["-shared", "-fPIC", "-O2", "-o", draft, source]
            let exit = try? ChildProcess(compiler, arguments, standardError: .inherited).wait()
            if exit?.status == 0, unsafe rename(draft, library) == 0 { return library }
        }
        throw HarnessError("cannot compile \(source) with clang or cc")
    }

    private static func isCurrent(_ library: String, _ source: String) throws -> Bool {
        var (built, written) = (stat(), stat())
        guard unsafe stat(source, &written) == 0 else { throw HarnessError("cannot find \(source): errno \(errno)") }
        return unsafe stat(library, &built) == 0 && built.st_mtim.tv_sec > written.st_mtim.tv_sec
    }
}

/// A time of day that tests move for running programs.
public final class ShiftedClock: PreloadedLibrary {
    public init() throws { try super.init("ClockShift", variable: "CLOCK_SHIFT_FILE") }

    /// Sets the distance to the true time, in whole seconds.
    public func move(to distance: Duration) { set(distance.components.seconds) }
}

/// A time of day that stands still in running programs until it is set.
public final class StillClock: PreloadedLibrary {
    /// - Parameter microseconds: since 1970.
    public init(microseconds: Int64) throws {
        try super.init("ClockShift", variable: "CLOCK_STILL_FILE", number: microseconds)
    }

    /// - Parameter microseconds: since 1970.
    public func set(microseconds: Int64) { set(microseconds) }
}

/// A resolver that hangs when a test says so.
public final class HangingNames: PreloadedLibrary {
    public init() throws { try super.init("HangingNames", variable: "HANGING_NAMES_FILE") }

    /// From now on no lookup of a name returns.
    public func hang() { set(1) }

    /// From now on lookups return, also those that hang.
    public func release() { set(0) }
}

/// The number of threads that a program may still start.
public final class ThreadLimit: PreloadedLibrary {
    /// - Parameter left: threads besides the first one.
    public init(_ left: Int) throws {
        // The sanitizer starts one of its own before `main`.
        let first = Int64(Sanitizer.current == .thread ? left + 1 : left)
        try super.init("ThreadLimit", variable: "THREAD_LIMIT_FILE", number: first)
    }

    /// Sets how many more threads the program may start; a negative number removes the limit.
    public func allow(_ threads: Int) { set(Int64(threads)) }
}

/// Aborts a program whose end calls the handlers of atexit(3).
public final class ExitTrap: PreloadedLibrary {
    public init() throws { try super.init("ExitTrap", variable: "EXIT_TRAP_FILE") }
}
