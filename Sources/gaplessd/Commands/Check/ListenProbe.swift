import Glibc
import Platform

/// Tests whether the daemon can bind `metrics_listen`.
enum ListenProbe {
    static func run(_ address: HostAndPort) throws(ProbeError) -> String {
        do throws(SocketError) {
            _ = try Listener(host: address.host, port: address.port)
            return "ok, \(address.text)"
        } catch .system(_, errno: EADDRINUSE) {
            guard let health = HealthRequest.send(to: address) else {
                let why = unsafe "\(String(cString: strerror(EADDRINUSE))) by another program"
                throw .refused(SettingsError(cannotListenAt: address, why).line)
            }
            let note = health == "ok" ? "" : ", which reports: \(health.printable)"
            return "ok, \(address.text), bound by a running gaplessd\(note)"
        } catch {
            throw .refused(SettingsError(cannotListenAt: address, error.reason).line)
        }
    }
}

extension SocketError {
    /// The description without the name of the system call.
    fileprivate var reason: String {
        if case .system(_, let code) = self { unsafe String(cString: strerror(code)) } else { description }
    }
}
