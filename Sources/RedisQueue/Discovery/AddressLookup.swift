import Glibc
internal import Platform

/// Looks up the addresses of servers, one server at a time, without blocking its thread.
///
/// If the resolver fails or is slow, the last known addresses of the server count. An answer that comes too late is kept for
/// the next lookup.
struct AddressLookup {
    typealias Answer = Result<[SocketAddress], RedisError>

    private struct Question {
        let endpoint: Endpoint
        let host: String
        let answers: Mailbox<NameResolver.Answer>
        var due: Instant
    }

    /// The most servers whose addresses are kept. Redis may name any number of them.
    static let mostKnown = 64

    private let resolver: NameResolver?
    private var known: [Endpoint: [SocketAddress]] = [:]
    private var question: Question?

    /// - Parameter resolver: `nil` to look names up in place, which blocks.
    init(_ resolver: NameResolver?) { self.resolver = resolver }

    /// Begins to look up a server. Returns `nil` if that needs time: then `answer` follows.
    ///
    /// - Parameter limit: for a server without known addresses; with such, a quarter of it.
    mutating func begin(_ endpoint: Endpoint, atMost limit: Duration, now: Instant) -> Answer? {
        guard let resolver, case .tcp(let host, let port) = endpoint else {
            return AddressLookup.inPlace(endpoint)
        }
        if let address = SocketAddress.numeric(host: host, port: port) { return .success([address]) }
        _ = receive()
        let due = now + (known[endpoint] == nil ? limit : limit / 4)
        if question?.endpoint == endpoint {
            question?.due = due  // The resolver still works on it.
            return nil
        }
        if let question { resolver.forget(question.answers) }
        question = nil
        guard let wakeUp = WakeUp.ifAvailable(sparing: 0) else {
            return fallBack(endpoint, .system("eventfd", errno: EMFILE))
        }
        let answers = Mailbox<NameResolver.Answer>(wakeUp: wakeUp)
        question = Question(endpoint: endpoint, host: host, answers: answers, due: due)
        resolver.ask(host, port: port, answers: answers)
        return nil
    }

    func addInterest(to poller: inout Poller) {
        if let question { poller.add(question.answers.wakeDescriptor, for: .read) }
    }

    /// The time at which `answer` no longer waits for the resolver.
    var deadline: Instant? { question?.due }

    /// Returns the result of the lookup, once there is one.
    mutating func answer(now: Instant) -> Answer? {
        guard let question else { return nil }
        if let answer = receive() { return answer }
        return now < question.due ? nil : fallBack(question.endpoint, .timedOut("looking up \(question.host)"))
    }

    /// Takes the resolver's answer, if it has come.
    private mutating func receive() -> Answer? {
        guard let (endpoint, result) = question.flatMap({ asked in asked.answers.drain().first.map { (asked.endpoint, $0) } })
        else { return nil }
        question = nil
        switch result {
        case .success(let addresses) where addresses.isEmpty: return fallBack(endpoint, AddressLookup.noAddress(of: endpoint))
        case .success(let addresses):
            if known[endpoint] == nil && known.count >= AddressLookup.mostKnown { known = [:] }
            known[endpoint] = addresses
            return .success(addresses)
        case .failure(let error): return fallBack(endpoint, error)
        }
    }

    private func fallBack(_ endpoint: Endpoint, _ error: SocketError) -> Answer {
        known[endpoint].map(Answer.success) ?? .failure(.socket(error))
    }

    /// Looks up a server on the caller's thread. At least one address.
    static func inPlace(_ endpoint: Endpoint) -> Answer {
        do throws(SocketError) {
            switch endpoint {
            case .unix(let path): return .success([try SocketAddress(unixPath: path)])
            case .tcp(let host, let port):
                let addresses = try SocketAddress.resolve(host: host, port: port)
                return addresses.isEmpty ? .failure(.socket(noAddress(of: endpoint))) : .success(addresses)
            }
        } catch {
            return .failure(.socket(error))
        }
    }

    private static func noAddress(of endpoint: Endpoint) -> SocketError {
        .unresolvable(host: "\(endpoint)", reason: "no address")
    }
}
