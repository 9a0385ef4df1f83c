internal import Glibc
internal import Platform

/// The provider token of one key, for all sessions of all pools: the lock around its machine, its file and its waits. The file
/// shares the token with all processes of the machine, and a `ProviderTokenExchange` with other machines. Any thread.
final class ProviderTokenSource: Sendable {
    private struct State {
        var machine: TokenMachine
        /// `nil` without other machines.
        var exchange: (with: ProviderTokenExchange, seal: TokenSeal)?
    }

    private struct Name: Hashable {
        var keyID: String
        var teamID: String
        var fingerprint: [UInt8]
    }

    /// The source of each key that this process has used. It outlives the credential, so that a reload signs no token.
    private static let all = Locked<[Name: ProviderTokenSource]>([:])

    /// - Parameter folder: the folder of stored tokens; that of the first call applies.
    static func shared(for key: SigningKey, folder: String?) -> ProviderTokenSource {
        let name = Name(keyID: key.keyID, teamID: key.teamID, fingerprint: key.fingerprint)
        return all.withLock { all in
            if let known = all[name] { return known }
            let file = folder.map { StateFile(folder: $0, name: "provider-token-\(key.fileName)") }
            let source = ProviderTokenSource(key, file: file)
            all[name] = source
            return source
        }
    }

    /// The longest wait for the file's lock: a process that was stopped while holding it must not block all others.
    private static let lockTimeout: Duration = .seconds(2)

    private static let noFolder = "there is no folder for it"

    private let key: SigningKey
    private let file: StateFile?
    private let state: Locked<State>
    /// A copy for `age`: the holder of the lock of `state` may wait for a file.
    private let mintedAt = Locked<Instant?>(nil)

    /// - Parameters:
    ///   - file: `nil` keeps the token in this process alone.
    ///   - timeout: the longest wait for a reply of other machines.
    init(_ key: SigningKey, file: StateFile?, timeout: Duration = .seconds(2)) {
        self.key = key
        self.file = file
        state = Locked(State(machine: TokenMachine(key, timeout: timeout)))
    }

    /// Shares the token with other machines from now on.
    func share(through exchange: ProviderTokenExchange) {
        guard let seal = key.seal() else { return }
        state.withLock { $0.exchange = (exchange, seal) }
        exchange.add(self, name: key.fileName)
    }

    private func change<Result>(_ body: (inout State) -> Result) -> Result {
        state.withLock { state in
            defer { mintedAt.withLock { $0 = state.machine.schedule.mintedAt } }
            return body(&state)
        }
    }

    /// The age of the token; `nil` before the first. Waits for no file.
    func age(now: Instant) -> Duration? { mintedAt.withLock { mintedAt in mintedAt.map { now - $0 } } }

    /// Returns all news since the last call.
    func takeNews() -> [TokenNews] { state.withLock { $0.machine.takeNews() } }

    /// Returns the report that tokens cannot be stored, which the first token would cause, or `nil`.
    func newsOfKeeping() -> TokenNews? {
        let why = file == nil ? Self.noFolder : file?.faultOfKeeping()?.description
        return why.map { .notKept(key: key.keyID, $0) }
    }

    // MARK: Sessions

    /// Returns the token to send now, signed if it is due. Returns `nil` only if there is none and OpenSSL cannot sign.
    ///
    /// May wait for other processes, for two seconds at most. It waits for other machines only without a usable token.
    func token(forNewSession: Bool, at moment: Moment = Moment()) -> ProviderToken? {
        search { state, mayWait in
            let isDue = { (machine: TokenMachine) in machine.isDue(forNewSession: forNewSession, now: moment.now) }
            guard isDue(state.machine) else { return (state.machine.token, nil) }
            if ask(&state) {
                let mustWait = state.machine.token == nil || state.machine.isRefused
                return mustWait ? (nil, .machines) : (state.machine.token, nil)
            }
            let wait = replace(&state, moment, mayWait: mayWait, while: isDue)
            return (state.machine.token, wait)
        }
    }

    private enum Wait { case machines, file }

    /// Repeats `step` until it needs not wait. It may wait for the file for `lockTimeout`. Meanwhile the lock of `state` is free.
    private func search<Found>(_ step: (inout State, _ mayWait: Bool) -> (Found, Wait?)) -> Found {
        var deadline: Instant?
        while true {
            let (found, wait) = change { step(&$0, deadline.map { .now < $0 } ?? true) }
            guard let wait else { return found }
            if wait == .file { deadline = deadline ?? .now + Self.lockTimeout }
            var pause = timespec(tv_sec: 0, tv_nsec: wait == .file ? 5_000_000 : 1_000_000)
            unsafe nanosleep(&pause, nil)
        }
    }

    /// Asks other machines for a token. Returns whether a reply is expected.
    private func ask(_ state: inout State) -> Bool {
        guard let exchange = state.exchange?.with else { return false }
        let answer = state.machine.sharing.ask(now: .now)
        if answer == .asked { exchange.wanted.ring() }
        return answer != .alone
    }

    /// Returns the generation of a token newer than `generation`, which APNs called expired, or `nil` if it is too soon for
    /// another. Does not wait: the newer token may still be on its way from another machine, or another process may hold the
    /// file's lock. Then `token` waits.
    func renew(after generation: UInt64, at moment: Moment = Moment()) -> UInt64? {
        change { state in
            // Another pool, another process or the schedule may already have renewed it.
            if state.machine.refused(generation, at: moment), ask(&state) { return generation + 1 }
            let wait = replace(&state, moment, mayWait: true) {
                $0.isStale(generation) && $0.schedule.mayRenew(now: moment.now)
            }
            if wait != nil { return generation + 1 }
            return state.machine.isStale(generation) ? nil : state.machine.token?.generation
        }
    }

    /// Keeps the current token in every process, after 429 `TooManyProviderTokenUpdates`.
    func updatesRefused(at moment: Moment = Moment()) {
        change { state in
            guard state.machine.updatesRefused(at: moment), let file else { return }
            do throws(StateFile.Fault) {
                // The holder of the lock has just signed a token or received the same response.
                if let lock = try file.tryLock() { try save(state, moment, file, lock) }
            } catch { state.machine.complain(error.description) }
        }
    }

    // MARK: Other machines

    /// The request to send to other machines now, if any.
    func request(at moment: Moment = Moment()) -> ProviderTokenExchange.Request? {
        state.withLock { state in state.exchange.flatMap { state.machine.request($0.seal, at: moment) } }
    }

    /// The reply to a request that was sent at this time.
    func received(_ reply: ProviderTokenExchange.Reply, sentAt: Instant, at moment: Moment = Moment()) {
        switch reply {
        case .wait: return
        case .none: state.withLock { $0.machine.sharing.replied() }
        case .mint:
            guard Instant.now - sentAt < TokenSharing.permission else { return }
            search { state, mayWait in
                let wait = replace(&state, moment, mayWait: mayWait) { $0.isDue(forNewSession: true, now: moment.now) }
                if wait == nil { state.machine.sharing.replied() }
                return ((), wait)
            }
        case .token(let sealed, let age):
            change { state in
                guard let seal = state.exchange?.seal else { return }
                guard let saved = seal.open(sealed).flatMap({ SavedToken(text: $0) }), key.hasSigned(saved) else {
                    state.machine.complain("the token of other machines in Redis is damaged")
                    return state.machine.sharing.failed(now: .now)
                }
                state.machine.sharing.replied()
                guard state.machine.received(saved, age: max(.zero, age), at: moment) else { return }
                // Another process of this machine, or the next start, may not reach the exchange.
                guard let file, let lock = try? file.tryLock() else { return }
                try? save(state, moment, file, lock)
            }
        }
    }

    func exchangeFailed() { state.withLock { $0.machine.sharing.failed(now: .now) } }

    // MARK: Under the lock

    /// Replaces the token while `isWanted`: by one from another process, otherwise by a new one, which is stored for the
    /// others.
    ///
    /// - Parameter mayWait: whether the caller repeats this later while another process holds the file's lock. Otherwise the new
    ///   token is not stored.
    private func replace(_ state: inout State, _ moment: Moment, mayWait: Bool, while isWanted: (TokenMachine) -> Bool) -> Wait? {
        guard isWanted(state.machine) else { return nil }
        guard let file else {
            state.machine.complain(Self.noFolder)
            mint(&state, moment)
            return nil
        }
        do throws(StateFile.Fault) {
            // A reader needs no lock, and most processes find a usable token here.
            state.machine.found(try file.read(), at: moment)
            guard isWanted(state.machine) else { return nil }
            if let lock = try file.tryLock() {
                state.machine.found(try file.read(), at: moment)
                if isWanted(state.machine) {
                    mint(&state, moment)
                    try save(state, moment, file, lock)
                }
                return nil
            }
            if mayWait { return .file }
            throw file.isHeld
        } catch {
            state.machine.complain(error.description)
            if isWanted(state.machine) { mint(&state, moment) }
            return nil
        }
    }

    private func mint(_ state: inout State, _ moment: Moment) {
        if state.machine.mint(at: moment) { state.exchange?.with.wanted.ring() }
    }

    private func save(
        _ state: State, _ moment: Moment, _ file: StateFile, _ lock: borrowing StateFile.Lock
    ) throws(StateFile.Fault) {
        if let saved = state.machine.saved(at: moment) { try file.write(saved, holding: lock) }
    }
}

/// News of provider tokens, for the log.
public enum TokenNews: Sendable, Equatable {
    /// A new token was signed.
    case minted(key: String)
    /// A stored token is used.
    case found(key: String, age: Duration)
    /// Tokens cannot be stored. The text says why.
    case notKept(key: String, String)
}
