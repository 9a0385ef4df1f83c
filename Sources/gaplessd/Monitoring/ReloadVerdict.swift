import CLinux
import Glibc
import Platform

/// The result of a reload, as one datagram.
struct ReloadVerdict: Equatable, Sendable {
    var isAdopted: Bool
    /// Faults of the settings.
    var lines: [String]

    private static let mostBytes = 32 << 10

    /// Sends it to a `gaplessd reload`, which may have ended.
    func send(to process: pid_t) {
        _ = NotifySocket(ReloadInbox.name(of: process))?.send(String(decoding: bytes, as: UTF8.self))
    }

    var bytes: [UInt8] {
        var bytes = Array((isAdopted ? "adopted" : "rejected").utf8)
        for line in lines where bytes.count + line.utf8.count < Self.mostBytes {
            bytes.append(UInt8(ascii: "\n"))
            bytes += line.printable.utf8
        }
        return bytes
    }

}

extension ReloadVerdict {
    init?(_ bytes: [UInt8]) {
        var lines = String(decoding: bytes, as: UTF8.self).split(separator: "\n").map(String.init)
        guard let first = lines.first, ["adopted", "rejected"].contains(first) else { return nil }
        lines.removeFirst()
        (isAdopted, self.lines) = (first == "adopted", lines)
    }
}

/// The socket at which `gaplessd reload` waits: an abstract name (unix(7)) with its process ID, which the daemon knows from the
/// signal. The kernel names the sender of each datagram, so that no other process can answer.
struct ReloadInbox: ~Copyable {
    /// The value of the signal of `gaplessd reload`: SIGHUP from kill(1) has no value, and is not answered.
    static let signalValue: CInt = 0x6E10AD

    private let descriptor: CInt

    static func name(of process: pid_t) -> String { "@gaplessd-reload-\(process)" }

    init?() {
        guard let address = NotifySocket.address(of: Self.name(of: getpid())) else { return nil }
        let descriptor = socket(AF_UNIX, CInt(SOCK_DGRAM.rawValue | SOCK_CLOEXEC.rawValue | SOCK_NONBLOCK.rawValue), 0)
        guard descriptor >= 0 else { return nil }
        var on: CInt = 1
        let isBound = unsafe address.withUnsafeBytes { raw in
            unsafe bind(descriptor, raw.baseAddress!.assumingMemoryBound(to: sockaddr.self), socklen_t(raw.count)) == 0
        }
        guard isBound, unsafe setsockopt(descriptor, SOL_SOCKET, SO_PASSCRED, &on, socklen_t(MemoryLayout<CInt>.size)) == 0 else {
            close(descriptor)
            return nil
        }
        self.descriptor = descriptor
    }

    deinit { close(descriptor) }

    /// Returns whether the signal was sent.
    func request(from process: pid_t) -> Bool {
        unsafe sigqueue(process, SIGHUP, sigval(sival_int: Self.signalValue)) == 0
    }

    /// Waits for the answer of a process.
    func wait(for process: pid_t, until deadline: Instant) -> ReloadVerdict? {
        var poller = Poller()
        while .now < deadline {
            poller.reset()
            poller.add(descriptor, for: .read)
            poller.wait(until: deadline)
            while let (sender, bytes) = receive() {
                if sender == process, let verdict = ReloadVerdict(bytes) { return verdict }
            }
            // The process has ended.
            if kill(process, 0) != 0, errno == ESRCH { return nil }
        }
        return nil
    }

    /// Returns a datagram and the process that sent it.
    private func receive() -> (sender: pid_t, bytes: [UInt8])? {
        var bytes = [UInt8](repeating: 0, count: 64 << 10)
        var sender: pid_t = 0
        let count = unsafe bytes.withUnsafeMutableBytes { unsafe gapless_receive(descriptor, $0.baseAddress, $0.count, &sender) }
        return count > 0 ? (sender, Array(bytes.prefix(count))) : nil
    }
}
