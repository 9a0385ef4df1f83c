import Glibc

/// Writes unbuffered lines to standard output.
enum Output {
    static func line(_ text: String) {
        var rest = Array("\(text)\n".utf8)[...]
        while !rest.isEmpty {
            let count = unsafe rest.withUnsafeBytes { unsafe write(STDOUT_FILENO, $0.baseAddress, $0.count) }
            if count < 0 && errno == EINTR { continue }
            // A closed pipe does not stop the simulator.
            if count <= 0 { return }
            rest = rest.dropFirst(count)
        }
    }
}
