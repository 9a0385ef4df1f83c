import Glibc

enum SocketClosing {
    /// Sends FIN. Reading continues.
    static func endWriting(_ descriptor: CInt) { shutdown(descriptor, CInt(SHUT_WR)) }

    /// Makes the next close of the socket send RST instead of FIN.
    static func resetOnClose(_ descriptor: CInt) {
        var option = linger(l_onoff: 1, l_linger: 0)
        unsafe setsockopt(descriptor, SOL_SOCKET, SO_LINGER, &option, socklen_t(MemoryLayout<linger>.size))
    }
}
