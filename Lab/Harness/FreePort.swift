internal import CLinux
import Glibc
internal import Platform

/// TCP ports of the loopback interface, for programs that cannot choose a port themselves.
public enum FreePort {
    /// Returns a port that was free a moment ago. It is below 50,000, because a cluster node also uses the port 10,000 above.
    public static func pick() -> Int {
        while true {
            let port = Int.random(in: 20_000..<50_000)
            if (try? Listener(port: port)) != nil, (try? Listener(port: port + 10_000)) != nil { return port }
        }
    }

    /// Returns whether a server listens on a port.
    public static func isTaken(_ port: Int) -> Bool {
        guard let address = try? SocketAddress.resolve(host: "127.0.0.1", port: port).first,
            let socket = try? Socket(connectingTo: address)
        else { return false }
        var descriptors = [pollfd(fd: socket.descriptor, events: Int16(POLLOUT), revents: 0)]
        return unsafe poll(&descriptors, 1, 1000) == 1 && socket.connectError() == nil
    }
}
