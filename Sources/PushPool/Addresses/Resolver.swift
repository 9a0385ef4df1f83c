internal import Sockets
internal import Threads

/// Looks up names for the dials of one pool on a thread of its own, because getaddrinfo(3) may block for any time.
///
/// A name server that hangs costs this one thread and no deadline. The thread exists only while there are questions, and no
/// one joins it.
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
        /// Whether there is a thread. It looks for more questions before it ends.
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

    /// Asks for all addresses of a host, in both families. Each session has at most one question at a time.
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
            // Without a thread, all questions fail; the next question tries again.
            let questions = state.withLock { state in
                defer { state = State() }
                return state.waiting
            }
            for question in questions {
                question.answers.send(.failure(.unresolvable(host: question.host, reason: error.description)))
            }
        }
    }

    /// Removes the question of a session that no longer waits: questions must not pile up while a name server hangs.
    func forget(_ session: SessionID) {
        state.withLock { $0.waiting.removeAll { $0.session == session } }
    }

    private func run() {
        while let first = next() {
            let answer = lookup(first.host, first.port)
            // The same questions that arrived meanwhile get the same result.
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
