/// The result of one push of a sequence.
public struct PushResult: Sendable {
    /// The place of the push in its sequence, from 0.
    public let index: Int
    /// The push as the sequence had it.
    public let push: Push
    /// The receipt, or the error.
    public let result: Result<Receipt, APNSError>
}
