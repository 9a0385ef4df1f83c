internal import CLinux
import Glibc

/// A C library of Lab that the dynamic linker loads before a program (`LD_PRELOAD`) to replace functions of the C library.
///
/// The first use compiles it; processes that run at the same time wait for each other.
struct PreloadedLibrary {
    static let clockShift = PreloadedLibrary(name: "ClockShift")
    static let threadLimit = PreloadedLibrary(name: "ThreadLimit")
    static let hangingNames = PreloadedLibrary(name: "HangingNames")
    static let exitTrap = PreloadedLibrary(name: "ExitTrap")

    private let name: String

    /// Compiles the library next to the programs of this package, if its source is newer, and returns its path.
    func path() throws -> String {
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

    private func isCurrent(_ library: String, _ source: String) throws -> Bool {
        var (built, written) = (stat(), stat())
        guard unsafe stat(source, &written) == 0 else { throw HarnessError("cannot find \(source): errno \(errno)") }
        return unsafe stat(library, &built) == 0 && built.st_mtim.tv_sec > written.st_mtim.tv_sec
    }
}

/// A file of 8 bytes that a preloaded library maps into its program, so that this process can change it at any time.
struct SharedNumber: ~Copyable {
    let path: String
    private let folder = TemporaryFolder()
    private let file: CInt

    init() throws(HarnessError) {
        path = folder.file("number")
        file = unsafe open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
        guard file >= 0 else { throw HarnessError("cannot make \(path): errno \(errno)") }
    }

    deinit { close(file) }

    func set(_ number: Int64) {
        var number = number
        _ = unsafe pwrite(file, &number, MemoryLayout.size(ofValue: number), 0)
    }
}

/// A time of day that tests move for running programs. The programs must have been started with `environment`.
public final class ShiftedClock {
    private let library: String
    private let shift: SharedNumber

    public init() throws {
        library = try PreloadedLibrary.clockShift.path()
        shift = try SharedNumber()
        move(to: .zero)
    }

    public var environment: [String: String] { ["LD_PRELOAD": library, "CLOCK_SHIFT_FILE": shift.path] }

    /// Sets the distance to the true time, in whole seconds.
    public func move(to distance: Duration) { shift.set(distance.components.seconds) }
}

/// A time of day that stands still in running programs until it is set. The programs must have been started with `environment`.
public final class StillClock {
    private let library: String
    private let time: SharedNumber

    /// - Parameter microseconds: since 1970.
    public init(microseconds: Int64) throws {
        library = try PreloadedLibrary.clockShift.path()
        time = try SharedNumber()
        set(microseconds: microseconds)
    }

    public var environment: [String: String] { ["LD_PRELOAD": library, "CLOCK_STILL_FILE": time.path] }

    /// - Parameter microseconds: since 1970.
    public func set(microseconds: Int64) { time.set(microseconds) }
}

/// A resolver that hangs when a test says so. The program must have been started with `environment`.
public final class HangingNames {
    private let library: String
    private let hangs: SharedNumber

    public init() throws {
        library = try PreloadedLibrary.hangingNames.path()
        hangs = try SharedNumber()
        hangs.set(0)
    }

    public var environment: [String: String] { ["LD_PRELOAD": library, "HANGING_NAMES_FILE": hangs.path] }

    /// From now on no lookup of a name returns.
    public func hang() { hangs.set(1) }

    /// From now on lookups return, also those that hang.
    public func release() { hangs.set(0) }
}

/// The number of threads that a program may still start. The program must run under `wrapper`.
public final class ThreadLimit {
    private let library: String
    private let left: SharedNumber

    /// - Parameter left: threads besides the first one.
    public init(_ left: Int) throws {
        library = try PreloadedLibrary.threadLimit.path()
        self.left = try SharedNumber()
        // The sanitizer starts one of its own before `main`.
        allow(Sanitizer.current == .thread ? left + 1 : left)
    }

    /// A command that runs a program with the limit.
    public var wrapper: [String] { ["env", "LD_PRELOAD=\(library)", "THREAD_LIMIT_FILE=\(left.path)"] }

    /// Sets how many more threads the program may start; a negative number removes the limit.
    public func allow(_ threads: Int) { left.set(Int64(threads)) }
}

/// Aborts a program whose end calls the handlers of atexit(3).
public struct ExitTrap {
    private let library: String

    public init() throws { library = try PreloadedLibrary.exitTrap.path() }

    /// A command that runs a program with the trap.
    public var wrapper: [String] { ["env", "LD_PRELOAD=\(library)"] }
}
