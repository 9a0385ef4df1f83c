/// An action of `QueueMachine` that the shell performs.
enum QueueEffect: Equatable {
    case dial
    case hangUp
    case call(Call)
    /// The blocking command, on the second connection, and the claim behind it.
    case wait(Call.Claim?)
    /// Another node of the cluster has the list.
    case follow(ErrorReply.Node?)
    /// The nodes of the cluster, from CLUSTER SLOTS.
    case learn([RedisReply])
    /// The worker needs a new name. `renamed` follows.
    case rename
    case report(QueueEvent)
}
