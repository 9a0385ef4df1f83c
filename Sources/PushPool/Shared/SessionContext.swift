internal import Sockets
internal import Threads

/// What one session's thread gets.
struct SessionContext: Sendable {
    let id: SessionID
    /// One before it broke (`SessionMachine.Limits.startsSlowly`).
    let startsSlowly: Bool
    let configuration: PoolConfiguration
    let shared: PoolShared
    let orders: Mailbox<SessionOrder>
    /// Rings for orders and for work.
    let wakeUp: WakeUp

    /// Of a session on this address, for people.
    func name(of address: SocketAddress) -> String {
        let settings = configuration.settings
        return settings.proxy == nil ? address.description : "\(settings.host):\(settings.port) through the proxy \(address)"
    }

    /// Tells the pool's owner what became of provider tokens.
    func report(_ tokens: ProviderTokenSource) {
        for news in tokens.takeNews() { shared.messages.send(.tokens(news)) }
    }
}
