internal import Platform

/// The input of one session's thread.
struct SessionContext: Sendable {
    let id: SessionID
    /// Whether a previous session broke (`SessionMachine.Limits.startsSlowly`).
    let startsSlowly: Bool
    let configuration: PoolConfiguration
    let shared: PoolShared
    let orders: Mailbox<SessionOrder>
    /// Rung for orders and for work.
    let wakeUp: WakeUp

    /// Returns the name of a session on this address, for logs.
    func name(of address: SocketAddress) -> String {
        let settings = configuration.settings
        return settings.proxy == nil ? address.description : "\(settings.host):\(settings.port) through the proxy \(address)"
    }

    /// Forwards news of provider tokens to the pool's owner.
    func report(_ tokens: ProviderTokenSource) {
        for news in tokens.takeNews() { shared.messages.send(.tokens(news)) }
    }
}
