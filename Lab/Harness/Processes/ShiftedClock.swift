import Glibc

/// A time of day that can be moved under programs that run. They must have been started with `environment`.
public final class ShiftedClock {
    private let folder = TemporaryFolder()
    private let file: CInt

    public init() throws {
        file = open(folder.file("shift"), O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
        guard file >= 0 else { throw ChildProcess.Failure(description: "cannot make a clock: errno \(errno)") }
        move(to: .zero)
    }

    deinit { close(file) }

    public var environment: [String: String] {
        ["LD_PRELOAD": BuiltProducts.path("libClockShift.so"), "CLOCK_SHIFT_FILE": folder.file("shift")]
    }

    /// So far from the true time, in whole seconds.
    public func move(to shift: Duration) {
        var seconds = shift.components.seconds
        _ = pwrite(file, &seconds, MemoryLayout.size(ofValue: seconds), 0)
    }
}
