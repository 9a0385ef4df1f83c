internal import Sockets
internal import Threads

/// Looks names up for the dials of one pool, on a thread of its own, because getaddrinfo(3) blocks for as long as it likes.
///
/// A name server that hangs costs this one thread and nobody's deadline. The thread is there only while there is something to
/// look up, and nobody waits for its end.
final class Resolver: Sendable {
    typealias Answer = Result<[SocketAddress], SocketError>
    typealias Lookup = @Sendable (_ host: String, _ port: Int) -> Answer

    private struct Question {
        let session: SessionID
        let host: String
        let port: Int
        let answers: Mailbox<Answer>
    }

    private struct State {
        var waiting: [Question] = []
        /// There is a thread, which looks again before it ends.
        var isRunning = false
    }

    private let state = Locked(State())
    private let lookup: Lookup

    init(
        lookup: @escaping Lookup = { host, port in
            Result { () throws(SocketError) in try SocketAddress.resolve(host: host, port: port) }
        }
    ) {
        self.lookup = lookup
    }

    /// Asks for all addresses of a host, both families. One question for each session at a time.
    func ask(_ host: String, port: Int, for session: SessionID, answers: Mailbox<Answer>) {
        let mustStart = state.withLock { state in
            state.waiting.append(Question(session: session, host: host, port: port, answers: answers))
            defer { state.isRunning = true }
            return !state.isRunning
        }
        if mustStart { start() }
    }

    private func start() {
        do throws(ThreadError) {
            try OwnedThread(name: "apns names") { [self] in run() }.leave()
        } catch {
            // Nobody looks anything up then: all who ask by now are told, and the next question tries again.
            let questions = state.withLock { state in
                defer { state = State() }
                return state.waiting
            }
            for question in questions {
                question.answers.send(.failure(.unresolvable(host: question.host, reason: error.description)))
            }
        }
    }

    /// The session waits no more: while a name server hangs, questions must not pile up.
    func forget(_ session: SessionID) {
        state.withLock { $0.waiting.removeAll { $0.session == session } }
    }

    private func run() {
        while let first = next() {
            let answer = lookup(first.host, first.port)
            // Who asked the same meanwhile gets the same: no answer to them would be fresher than a dial is long.
            for question in [first] + takeAll(asking: first) { question.answers.send(answer) }
        }
    }

    private func next() -> Question? {
        state.withLock { state in
            if state.waiting.isEmpty {
                state.isRunning = false
                return nil
            }
            return state.waiting.removeFirst()
        }
    }

    private func takeAll(asking question: Question) -> [Question] {
        state.withLock { state in
            let same = state.waiting.filter { $0.host == question.host && $0.port == question.port }
            state.waiting.removeAll { $0.host == question.host && $0.port == question.port }
            return same
        }
    }
}
