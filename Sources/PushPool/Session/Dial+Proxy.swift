internal import Platform

/// Opens a tunnel through a proxy by a plain HTTP request. After the response to it, every byte comes from the server.
extension Dial {
    /// Sends CONNECT and reads the response. Returns `false` if the pool has abandoned this dial.
    func openWay(
        _ socket: borrowing Socket, through proxy: HTTPProxy, until deadline: Instant
    ) throws(SocketError) -> Bool {
        var request = proxy.request(host: host, port: port)[...]
        while !request.isEmpty {
            switch unsafe request.withUnsafeBytes({ unsafe socket.write($0) }) {
            case .done(let count): request = request.dropFirst(count)
            case .failed(let error): throw error
            case .closed, .needsRead, .needsWrite:
                guard try wait(socket.descriptor, for: .write, until: deadline, "CONNECT") else { return false }
            }
        }
        var answer = ProxyAnswer()
        var byte: [UInt8] = [0]
        while true {
            switch unsafe byte.withUnsafeMutableBytes({ unsafe socket.read(into: $0) }) {
            case .done:
                switch answer.receive(byte[0]) {
                case .open: return true
                case .refused(let fault): throw Dial.fault(fault, of: proxy)
                case nil: break
                }
            case .failed(let error): throw error
            case .closed: throw Dial.fault(.closed, of: proxy)
            case .needsRead, .needsWrite:
                guard try wait(socket.descriptor, for: .read, until: deadline, "response of the proxy to CONNECT") else {
                    return false
                }
            }
        }
    }

    private static func fault(_ fault: ProxyError, of proxy: HTTPProxy) -> SocketError {
        .refused("the proxy \(proxy): \(fault)")
    }
}
