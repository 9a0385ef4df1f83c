internal import Platform

/// Carries a listener, which is not copyable, to the thread that uses it.
final class ProxyDoor: Sendable {
    let listener: Listener
    init(_ listener: consuming Listener) { self.listener = listener }
}
