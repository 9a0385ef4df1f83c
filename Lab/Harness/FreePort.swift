import Glibc

/// Ports that nobody listens at.
public enum FreePort {
    /// One that the kernel had free a moment ago. Below 50,000, so that a cluster's bus fits in 10,000 above it.
    public static func pick() -> Int {
        while true {
            let port = Int.random(in: 20_000..<50_000)
            if isFree(port) && isFree(port + 10_000) { return port }
        }
    }

    private static func isFree(_ port: Int) -> Bool {
        let descriptor = socket(AF_INET, CInt(SOCK_STREAM.rawValue), 0)
        defer { close(descriptor) }
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = in_port_t(port).bigEndian
        address.sin_addr.s_addr = in_addr_t(0x7F00_0001).bigEndian
        return withUnsafeBytes(of: &address) { raw in
            bind(descriptor, raw.baseAddress!.assumingMemoryBound(to: sockaddr.self), socklen_t(raw.count)) == 0
        }
    }
}
