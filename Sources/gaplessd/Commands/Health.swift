import ArgumentParser
import Glibc
import HTTP1
import Platform

/// `gaplessd health`: asks the daemon on this machine whether it is healthy.
struct Health: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "health",
        abstract: "Asks the daemon at metrics_listen whether it is healthy, for the health check of a container.",
        discussion: """
            Prints the response of /healthz. It does not depend on Redis or APNs, so that an outage restarts no container.

            Exit status: 0 healthy, 1 the daemon reports a fault, 64 wrong usage, 69 no gaplessd responds, 78 a fault in the \
            settings, or metrics_listen is not set.
            """)

    @OptionGroup var file: SettingsArgument

    func run() throws {
        guard let address = try file.loadSettings().metricsListen, address.port != 0 else {
            let missing = SettingsError(
                key: "metrics_listen", problem: "required key is missing", expected: "the address and port of /healthz")
            StandardStreams.print([missing.line(file: file.settings)], to: STDERR_FILENO)
            throw ExitCode.settingsFault
        }
        guard let health = HealthRequest.send(to: address) else {
            StandardStreams.print(["health: no gaplessd responds at \(address.text)"], to: STDERR_FILENO)
            throw ExitCode.serviceUnavailable
        }
        guard health == "ok" else {
            StandardStreams.print(["health: \(health.printable)"], to: STDERR_FILENO)
            throw ExitCode.failure
        }
        StandardStreams.print([health])
    }
}

/// `GET /healthz` to the daemon that serves `metrics_listen`.
enum HealthRequest {
    /// Limit for the response. A gaplessd responds within a millisecond.
    private static let timeout = Duration.seconds(1)
    private static let longestResponse = 16 << 10

    /// Returns the first line of `GET /healthz`; `nil` if no gaplessd responds.
    static func send(to address: HostAndPort) -> String? {
        guard let response = get("/healthz", from: address), let end = response.firstRange(of: "\r\n\r\n") else { return nil }
        let head = response[..<end.lowerBound].split(separator: "\r\n")
        guard let first = head.first, ["HTTP/1.1 200 ", "HTTP/1.1 503 "].contains(where: first.hasPrefix),
            head.contains(where: { $0.lowercased() == "server: \(StatusServer.name)" })
        else { return nil }
        return response[end.upperBound...].split(separator: "\n").first.map(String.init)
    }

    /// Returns the whole response, which a gaplessd ends by closing the connection.
    private static func get(_ path: String, from address: HostAndPort) -> String? {
        let deadline = Instant.now + timeout
        func isReady(_ socket: borrowing Socket, for interest: Poller.Readiness) -> Bool {
            var poller = Poller()
            poller.add(socket.descriptor, for: interest)
            poller.wait(until: deadline)
            return !poller.readiness(at: 0).isEmpty
        }
        guard let place = try? SocketAddress.resolve(host: address.host, port: address.port).first,
            let socket = try? Socket(connectingTo: place), isReady(socket, for: .write), socket.connectError() == nil
        else { return nil }
        let request = Array("GET \(path) HTTP/1.1\r\nHost: \(address.text)\r\nConnection: close\r\n\r\n".utf8)
        // A request of this size fits into the empty send buffer of a new connection.
        guard unsafe request.withUnsafeBytes({ unsafe socket.write($0) }) == .done(request.count) else { return nil }
        var bytes: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 4096)
        while bytes.count < longestResponse, isReady(socket, for: .read),
            case .done(let count) = unsafe buffer.withUnsafeMutableBytes({ unsafe socket.read(into: $0) })
        {
            bytes += buffer[..<count]
        }
        return String(decoding: bytes, as: UTF8.self)
    }
}
