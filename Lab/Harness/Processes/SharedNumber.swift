import Glibc

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
