/// The client's end of a sequence of pushes. Cancels the pushes without a result when the reader ends.
final class ResultFeed: Sendable {
    private let core: ClientCore
    private let inbox = ResultInbox()

    init(_ core: ClientCore) { self.core = core }

    deinit { core.cancel(inbox) }

    var isCancelled: Bool { inbox.isCancelled }

    func submit(_ pushes: [(index: Int, push: Push)]) { core.submit(pushes, to: inbox) }

    func cancel() {
        inbox.cancel()
        core.cancel(inbox)
    }

    /// Waits until there are results. Cancelling the task cancels the pushes, which then have results.
    func receive() async -> [PushResult] {
        await withTaskCancellationHandler {
            await inbox.receive()
        } onCancel: {
            cancel()
        }
    }
}
