import Clocks
import Glibc
import Sockets
import StatusServer
import Threads

/// Whether `metrics_listen` can be listened at: for a moment.
enum ListenProbe {
    static func run(_ address: HostAndPort) throws(ProbeError) -> String {
        do throws(SocketError) {
            _ = try Listener(host: address.host, port: address.port)
            return "ok, \(address.text)"
        } catch .system(_, errno: EADDRINUSE) {
            guard let health = HealthQuestion.answer(at: address) else {
                let why = "\(String(cString: strerror(EADDRINUSE))), and no gaplessd answers there"
                throw .refused(SettingsError(cannotListenAt: address, why).line)
            }
            let word = health == "ok" ? "" : " and says: \(health.printable)"
            return "ok, \(address.text), where a running gaplessd listens\(word)"
        } catch {
            throw .refused(SettingsError(cannotListenAt: address, error.reason).line)
        }
    }
}

/// GET /healthz, as a monitoring program asks: to learn whether it is a gaplessd that has a port.
private struct HealthQuestion: ~Copyable {
    /// For the connection and the answer together: a gaplessd that lives needs a millisecond.
    private static let patience = Duration.seconds(1)
    private static let mostBytes = 16 << 10

    private let socket: Socket
    private let deadline = Instant.now + patience

    /// What it says of itself; `nil` where somebody else has the port, or nobody answers in time.
    static func answer(at address: HostAndPort) -> String? {
        do throws(SocketError) {
            guard let place = try SocketAddress.resolve(host: address.host, port: address.port).first else { return nil }
            return HealthQuestion(socket: try Socket(connectingTo: place)).ask(address.text)
        } catch {
            return nil
        }
    }

    private func ask(_ host: String) -> String? {
        guard isReady(for: .write), socket.connectError() == nil else { return nil }
        let request = Array("GET /healthz HTTP/1.1\r\nHost: \(host)\r\nConnection: close\r\n\r\n".utf8)
        // So few bytes find room in the buffers of a new connection.
        guard request.withUnsafeBytes({ socket.write($0) }) == .done(request.count) else { return nil }
        return Self.health(in: String(decoding: readToEnd(), as: UTF8.self))
    }

    /// All that comes until the other side closes, which a gaplessd does.
    private func readToEnd() -> [UInt8] {
        var bytes: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 4096)
        while bytes.count < Self.mostBytes, isReady(for: .read),
            case .done(let count) = buffer.withUnsafeMutableBytes({ socket.read(into: $0) })
        {
            bytes += buffer[..<count]
        }
        return bytes
    }

    private func isReady(for interest: Poller.Readiness) -> Bool {
        var poller = Poller()
        poller.add(socket.descriptor, for: interest)
        poller.wait(until: deadline)
        return !poller.readiness(at: 0).isEmpty
    }

    /// The body of an answer that only a gaplessd gives.
    private static func health(in answer: String) -> String? {
        guard let end = answer.firstRange(of: "\r\n\r\n") else { return nil }
        let head = answer[..<end.lowerBound].split(separator: "\r\n")
        guard let first = head.first, ["HTTP/1.1 200 ", "HTTP/1.1 503 "].contains(where: first.hasPrefix),
            head.contains(where: { $0.lowercased() == "server: \(StatusServer.name)" })
        else { return nil }
        return answer[end.upperBound...].split(separator: "\n").first.map(String.init)
    }
}

extension SettingsError {
    /// `metrics_listen` leads nowhere.
    init(cannotListenAt address: HostAndPort, _ why: String) {
        self.init(
            key: "metrics_listen", problem: "cannot listen at \(address.text): \(why)",
            remedy: "an address of this machine with a free port, or port 0 for any, would be right")
    }
}

extension SocketError {
    /// Without the place, where that has been said.
    fileprivate var reason: String {
        if case .system(_, let code) = self { String(cString: strerror(code)) } else { description }
    }
}
