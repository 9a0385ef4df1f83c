internal import PushPool

/// The actions that the shell performs for the machine. Notifications go to the pool after all effects.
enum SendEffect: Equatable {
    /// The only result of this send.
    case settle(SendID, Result<Receipt, APNSError>)
    /// Take it back from the pool, or reset its stream.
    case cancel(SendID)
    /// Take back all that no session has taken.
    case takeBack
    /// Replace every session.
    case reconnect
    case renewToken(SendID, refusedOn: SessionID)
    case keepToken
    /// Close the pool and report what it still had.
    case close
}
