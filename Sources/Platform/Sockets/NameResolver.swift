/// Looks up names on a thread of its own, because getaddrinfo(3) may block for any time.
///
/// A name server that hangs costs this one thread and no deadline. The thread exists only while there are questions, and no
/// one joins it.
public final class NameResolver: Sendable {
    public typealias Answer = Result<[SocketAddress], SocketError>
    public typealias Lookup = @Sendable (_ host: String, _ port: Int) -> Answer

    private struct Question {
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
    private let thread: String
    private let lookup: Lookup

    /// - Parameter thread: the name of the thread.
    public init(
        thread: String,
        lookup: @escaping Lookup = { host, port in
            Result { () throws(SocketError) in try SocketAddress.resolve(host: host, port: port) }
        }
    ) {
        self.thread = thread
        self.lookup = lookup
    }

    /// Asks for all addresses of a host, in both families. The sender has one mailbox for each question.
    public func ask(_ host: String, port: Int, answers: Mailbox<Answer>) {
        let mustStart = state.withLock { state in
            state.waiting.append(Question(host: host, port: port, answers: answers))
            defer { state.isRunning = true }
            return !state.isRunning
        }
        if mustStart { start() }
    }

    /// Returns an address of a host, and waits for it at most this long.
    public func address(of host: String, port: Int, atMost limit: Duration) throws(SocketError) -> SocketAddress {
        if let address = try addresses(of: host, port: port, until: .now + limit).first { return address }
        throw .unresolvable(host: host, reason: "no address")
    }

    /// Returns the addresses of a host, and waits for them until the deadline. Meanwhile it calls `watch` every `step`, whose
    /// error ends the wait.
    public func addresses(
        of host: String, port: Int, until deadline: Instant, every step: Duration = .seconds(3600),
        watch: () throws(SocketError) -> Void = {}
    ) throws(SocketError) -> [SocketAddress] {
        if let address = SocketAddress.numeric(host: host, port: port) { return [address] }
        let answers: Mailbox<Answer>
        do throws(ThreadError) {
            answers = try Mailbox(thread: thread)
        } catch {
            throw .unresolvable(host: host, reason: error.description)
        }
        ask(host, port: port, answers: answers)
        defer { forget(answers) }
        var poller = Poller()
        poller.add(answers.wakeDescriptor, for: .read)
        while .now < deadline {
            poller.wait(until: min(deadline, .now + step))
            if let answer = answers.drain().first { return try answer.get() }
            try watch()
        }
        throw .timedOut("looking up \(host)")
    }

    private func start() {
        do throws(ThreadError) {
            try OwnedThread(name: thread) { [self] in run() }.leave()
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

    /// Removes a question that no one waits for any more: questions must not pile up while a name server hangs.
    public func forget(_ answers: Mailbox<Answer>) {
        state.withLock { $0.waiting.removeAll { $0.answers === answers } }
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
