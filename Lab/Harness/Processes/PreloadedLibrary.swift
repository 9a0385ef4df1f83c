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
