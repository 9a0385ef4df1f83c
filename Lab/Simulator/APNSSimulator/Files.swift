import Glibc

/// Reads and writes small files.
package enum Files {
    package static func exists(_ path: String) -> Bool { unsafe access(path, F_OK) == 0 }

    /// Creates the directory and its parents with mode 0700.
    static func makeDirectory(_ path: String) throws(SimulatorError) {
        if unsafe mkdir(path, 0o700) == 0 || errno == EEXIST { return }
        let code = errno
        if code == ENOENT, let slash = path.lastIndex(of: "/"), slash > path.startIndex {
            try makeDirectory(String(path[..<slash]))
            if unsafe mkdir(path, 0o700) == 0 || errno == EEXIST { return }
        }
        throw failure("make the directory", path, code)
    }

    package static func names(in directory: String) throws(SimulatorError) -> [String] {
        guard let stream = unsafe opendir(directory) else { throw failure("read", directory, errno) }
        defer { unsafe closedir(stream) }
        var names: [String] = []
        while let entry = unsafe readdir(stream) {
            unsafe names.append(
                withUnsafeBytes(of: &entry.pointee.d_name) { raw in
                    unsafe String(decoding: raw.prefix { $0 != 0 }, as: UTF8.self)
                })
        }
        return names.sorted()
    }

    package static func read(_ path: String) throws(SimulatorError) -> [UInt8] {
        let descriptor = unsafe open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { throw failure("read", path, errno) }
        defer { Glibc.close(descriptor) }
        var content: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 16384)
        while true {
            let count = unsafe Glibc.read(descriptor, &buffer, buffer.count)
            if count == 0 { return content }
            guard count > 0 else { throw failure("read", path, errno) }
            content += buffer[..<count]
        }
    }

    /// - Parameter isSecret: creates the file with mode 0600 instead of 0644.
    package static func write(_ bytes: [UInt8], to path: String, isSecret: Bool) throws(SimulatorError) {
        let mode: mode_t = isSecret ? 0o600 : 0o644
        let descriptor = unsafe open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode)
        guard descriptor >= 0 else { throw failure("write", path, errno) }
        defer { Glibc.close(descriptor) }
        fchmod(descriptor, mode)
        try append(bytes[...], to: descriptor, path)
    }

    static func openForAppending(_ path: String) throws(SimulatorError) -> CInt {
        let descriptor = unsafe open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0o644)
        guard descriptor >= 0 else { throw failure("write", path, errno) }
        return descriptor
    }

    static func append(_ bytes: ArraySlice<UInt8>, to descriptor: CInt, _ path: String) throws(SimulatorError) {
        var rest = bytes
        while !rest.isEmpty {
            let count = unsafe rest.withUnsafeBytes { unsafe Glibc.write(descriptor, $0.baseAddress, $0.count) }
            if count < 0 && errno == EINTR { continue }
            guard count > 0 else { throw failure("write", path, errno) }
            rest = rest.dropFirst(count)
        }
    }

    static func close(_ descriptor: CInt) { _ = Glibc.close(descriptor) }

    private static func failure(_ verb: String, _ path: String, _ code: CInt) -> SimulatorError {
        SimulatorError(unsafe "cannot \(verb) \(path): \(String(cString: strerror(code)))")
    }
}
