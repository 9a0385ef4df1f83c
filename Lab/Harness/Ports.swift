internal import CLinux
import Glibc
internal import Sockets

/// A TCP port of the loopback interface that nobody had a moment ago, for programs that cannot choose one themselves.
public func freePort() throws -> Int { try Listener(port: 0).port }

/// Whether somebody listens on a port of the loopback interface.
public func canConnect(to port: Int) -> Bool {
    guard let address = try? SocketAddress.resolve(host: "127.0.0.1", port: port).first,
        let socket = try? Socket(connectingTo: address)
    else { return false }
    var descriptors = [pollfd(fd: socket.descriptor, events: Int16(POLLOUT), revents: 0)]
    return poll(&descriptors, 1, 1000) == 1 && socket.connectError() == nil
}
