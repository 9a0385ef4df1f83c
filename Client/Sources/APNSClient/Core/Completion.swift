/// The receiver of a result.
enum Completion: Sendable {
    case caller(CheckedContinuation<Result<Receipt, APNSError>, Never>)
    case sequence(ResultInbox, index: Int, Push)

    func complete(with result: Result<Receipt, APNSError>) {
        switch self {
        case .caller(let continuation): continuation.resume(returning: result)
        case .sequence(let inbox, let index, let push): inbox.deliver(PushResult(index: index, push: push, result: result))
        }
    }
}
