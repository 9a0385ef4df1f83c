internal import Glibc
internal import JSONBytes
internal import Platform

/// The provider token of one key, for all sessions of all pools. A file shares it with all processes of the machine, and a
/// `ProviderTokenExchange` with other machines. Any thread.
final class ProviderTokenSource: Sendable {
    private struct State {
        var schedule: TokenSchedule
        var token: ProviderToken?
        var news: [TokenNews] = []
        /// Whether an error of the file has been reported.
        var hasComplained = false
        /// `nil` without other machines.
        var exchange: (with: ProviderTokenExchange, seal: TokenSeal)?
        var sharing: TokenSharing

        /// Whether APNs has called the token expired.
        var isRefused: Bool { token.map { $0.generation <= sharing.refused } ?? false }

        func isDue(forNewSession: Bool, now: Instant) -> Bool {
            token == nil || isRefused || schedule.isDue(forNewSession: forNewSession, now: now)
        }
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
            let source = ProviderTokenSource(key, file: folder.map { ProviderTokenFile(folder: $0, name: key.fileName) })
            all[name] = source
            return source
        }
    }

    /// The longest wait for the file's lock: a process that was stopped while holding it must not block all others.
    private static let lockTimeout: Duration = .seconds(2)

    private static let noFolder = "there is no folder for it"

    private let key: SigningKey
    private let file: ProviderTokenFile?
    private let state: Locked<State>
    /// A copy for `age`: the holder of the lock of `state` may wait for a file.
    private let mintedAt = Locked<Instant?>(nil)

    /// - Parameters:
    ///   - file: `nil` keeps the token in this process alone.
    ///   - timeout: the longest wait for a reply of other machines.
    init(_ key: SigningKey, file: ProviderTokenFile?, timeout: Duration = .seconds(2)) {
        self.key = key
        self.file = file
        state = Locked(State(schedule: TokenSchedule(), sharing: TokenSharing(timeout: timeout)))
    }

    /// Shares the token with other machines from now on.
    func share(through exchange: ProviderTokenExchange) {
        guard let seal = key.seal() else { return }
        state.withLock { $0.exchange = (exchange, seal) }
        exchange.add(self, name: key.fileName)
    }

    /// Returns the token to send now, signed if it is due. Returns `nil` only if there is none and OpenSSL cannot sign.
    ///
    /// May wait for other processes, for two seconds at most. It waits for other machines only without a usable token.
    func token(forNewSession: Bool, at moment: Moment = Moment()) -> ProviderToken? {
        search { find(forNewSession: forNewSession, &$0, moment, mayWait: $1) }
    }

    private enum Wait { case machines, file }

    /// Repeats `step` until it needs not wait. It may wait for the file for `lockTimeout`. Meanwhile the lock of `state` is free.
    private func search<Found>(_ step: (inout State, _ mayWait: Bool) -> (Found, Wait?)) -> Found {
        var deadline: Instant?
        while true {
            let (found, wait) = state.withLock { step(&$0, deadline.map { .now < $0 } ?? true) }
            switch wait {
            case nil: return found
            case .machines: ProviderTokenSource.pause(milliseconds: 1)
            case .file:
                deadline = deadline ?? .now + Self.lockTimeout
                ProviderTokenSource.pause(milliseconds: 5)
            }
        }
    }

    private func find(
        forNewSession: Bool, _ state: inout State, _ moment: Moment, mayWait: Bool
    ) -> (ProviderToken?, Wait?) {
        guard state.isDue(forNewSession: forNewSession, now: moment.now) else { return (state.token, nil) }
        if ask(&state) {
            let mustWait = state.token == nil || state.isRefused
            return (mustWait ? nil : state.token, mustWait ? .machines : nil)
        }
        let wait = replace(&state, moment, mayWait: mayWait) { $0.isDue(forNewSession: forNewSession, now: moment.now) }
        return (state.token, wait)
    }

    /// Asks other machines for a token. Returns whether a reply is expected.
    private func ask(_ state: inout State) -> Bool {
        guard let exchange = state.exchange?.with else { return false }
        let answer = state.sharing.ask(now: .now)
        if answer == .asked { exchange.wanted.ring() }
        return answer != .alone
    }

    /// Returns the generation of a token newer than `generation`, which APNs called expired, or `nil` if it is too soon for
    /// another. Does not wait: the newer token may still be on its way from another machine, or another process may hold the
    /// file's lock. Then `token` waits.
    func renew(after generation: UInt64, at moment: Moment = Moment()) -> UInt64? {
        state.withLock { state in
            // Another pool, another process or the schedule may already have renewed it.
            let isStale = { (state: State) in (state.token?.generation ?? 0) <= generation }
            if isStale(state), let token = state.token, state.schedule.mayRenew(now: moment.now) {
                state.sharing.refused = token.generation
                if ask(&state) { return generation + 1 }
            }
            let wait = replace(&state, moment, mayWait: true) { isStale($0) && $0.schedule.mayRenew(now: moment.now) }
            if wait != nil { return generation + 1 }
            return isStale(state) ? nil : state.token?.generation
        }
    }

    /// Keeps the current token in every process, after 429 `TooManyProviderTokenUpdates`.
    func updatesRefused(at moment: Moment = Moment()) {
        state.withLock { state in
            if state.schedule.isKept(now: moment.now) { return }
            state.schedule.updatesRefused(now: moment.now)
            guard let file else { return }
            do throws(ProviderTokenFile.Fault) {
                // The holder of the lock has just signed a token or received the same response.
                if let lock = try file.tryLock() { try save(state, moment, file, lock) }
            } catch { complain(&state, error.description) }
        }
    }

    /// Returns the report that tokens cannot be stored, which the first token would cause, or `nil`.
    func newsOfKeeping() -> TokenNews? {
        let why = file == nil ? Self.noFolder : file?.faultOfKeeping()?.description
        return why.map { .notKept(key: key.keyID, $0) }
    }

    /// The age of the token; `nil` before the first. Waits for no file.
    func age(now: Instant) -> Duration? { mintedAt.withLock { mintedAt in mintedAt.map { now - $0 } } }

    /// Returns all news since the last call.
    func takeNews() -> [TokenNews] {
        state.withLock { state in
            defer { state.news = [] }
            return state.news
        }
    }

    // MARK: Other machines

    /// The request to send to other machines now, if any.
    func request(at moment: Moment = Moment()) -> ProviderTokenExchange.Request? {
        state.withLock { state in
            guard let seal = state.exchange?.seal else { return nil }
            // Asking before the token is due keeps sessions from waiting.
            let isDue = state.token != nil && state.isDue(forNewSession: true, now: moment.now)
            let isWanted = state.sharing.isAsking || isDue
            guard isWanted || state.token != nil && !state.sharing.isShared else { return nil }
            var request = ProviderTokenExchange.Request(name: key.fileName)
            if isWanted { request.oldest = TokenSchedule.oldestForNewSession }
            guard let token = state.token, let mintedAt = state.schedule.mintedAt else { return request }
            let id = seal.id(of: token.bytes)
            if state.isRefused { request.refused = id }
            if !state.sharing.isShared && !state.isRefused, let sealed = seal.seal(state.schedule.saved(token, at: moment).text) {
                request.offer = .init(sealed: sealed, id: id, age: max(.zero, moment.now - mintedAt))
            }
            return request
        }
    }

    /// The reply to a request that was sent at this time.
    func received(_ reply: ProviderTokenExchange.Reply, sentAt: Instant, at moment: Moment = Moment()) {
        switch reply {
        case .wait: return
        case .none: state.withLock { $0.sharing.replied() }
        case .mint:
            guard Instant.now - sentAt < TokenSharing.permission else { return }
            search { state, mayWait in
                let wait = replace(&state, moment, mayWait: mayWait) { $0.isDue(forNewSession: true, now: moment.now) }
                if wait == nil { state.sharing.replied() }
                return ((), wait)
            }
        case .token(let sealed, let age):
            state.withLock { state in
                guard let seal = state.exchange?.seal else { return }
                guard let saved = seal.open(sealed).flatMap({ SavedToken(text: $0) }), key.hasSigned(saved) else {
                    complain(&state, "the token of other machines in Redis is damaged")
                    return state.sharing.failed(now: .now)
                }
                state.sharing.replied()
                adopt(saved, age: max(.zero, age), &state, moment)
            }
        }
    }

    func exchangeFailed() { state.withLock { $0.sharing.failed(now: .now) } }

    /// Uses the token of another machine, unless it is older than the current one, or APNs asked to keep the current one.
    private func adopt(_ saved: SavedToken, age: Duration, _ state: inout State, _ moment: Moment) {
        let mintedAt = moment.now - age
        guard let own = state.token, let since = state.schedule.mintedAt else { return use(saved, mintedAt, &state, moment) }
        if saved.bytes == own.bytes {
            state.sharing.isShared = true
            // The other machines renewed their token less than 20 minutes ago: there is no newer one.
            if state.isRefused { state.schedule.renewed(now: moment.now) }
            state.sharing.refused = 0
        } else if state.isRefused || mintedAt > since && !state.schedule.isKept(now: moment.now) {
            let isEarly = state.isRefused && moment.now - since < TokenSchedule.between
            use(saved, mintedAt, &state, moment)
            if isEarly { state.schedule.renewed(now: moment.now) }
        }
    }

    private func use(_ saved: SavedToken, _ mintedAt: Instant, _ state: inout State, _ moment: Moment) {
        begin(TokenSchedule(mintedAt: mintedAt), &state)
        state.token = ProviderToken(
            bytes: saved.bytes, issuedAt: saved.issuedAt, generation: (state.token?.generation ?? 0) + 1, mintedAt: mintedAt)
        state.sharing.isShared = true
        state.news.append(.found(key: key.keyID, age: moment.now - mintedAt))
        // Another process of this machine, or the next start, may not reach the exchange.
        guard let file, let lock = try? file.tryLock() else { return }
        try? save(state, moment, file, lock)
    }

    // MARK: Under the lock

    /// Replaces the token while `isWanted`: by one from another process, otherwise by a new one, which is stored for the
    /// others.
    ///
    /// - Parameter mayWait: whether the caller repeats this later while another process holds the file's lock. Otherwise the new
    ///   token is not stored.
    private func replace(_ state: inout State, _ moment: Moment, mayWait: Bool, while isWanted: (State) -> Bool) -> Wait? {
        guard isWanted(state) else { return nil }
        guard let file else {
            complain(&state, Self.noFolder)
            mint(&state, moment)
            return nil
        }
        do throws(ProviderTokenFile.Fault) {
            // A reader needs no lock, and most processes find a usable token here.
            take(try file.read(), &state, moment)
            guard isWanted(state) else { return nil }
            if let lock = try file.tryLock() {
                take(try file.read(), &state, moment)
                if isWanted(state) {
                    mint(&state, moment)
                    try save(state, moment, file, lock)
                }
                return nil
            }
            if mayWait { return .file }
            throw file.isHeld
        } catch {
            complain(&state, error.description)
            if isWanted(state) { mint(&state, moment) }
            return nil
        }
    }

    private static func pause(milliseconds: Int) {
        var pause = timespec(tv_sec: 0, tv_nsec: milliseconds * 1_000_000)
        unsafe nanosleep(&pause, nil)
    }

    private func save(
        _ state: State, _ moment: Moment, _ file: ProviderTokenFile, _ lock: borrowing ProviderTokenFile.Lock
    ) throws(ProviderTokenFile.Fault) {
        guard let token = state.token else { return }
        try file.write(state.schedule.saved(token, at: moment).text, holding: lock)
    }

    /// Adopts the stored token, unless it is unusable or older than the current one.
    private func take(_ content: [UInt8]?, _ state: inout State, _ moment: Moment) {
        guard let content, let saved = SavedToken(text: content), key.hasSigned(saved),
            let schedule = TokenSchedule(saved, at: moment)
        else { return }
        if let own = state.token {
            if saved.issuedAt < own.issuedAt { return }
            if saved.bytes == own.bytes {
                state.schedule.learn(from: schedule)
                return
            }
        }
        begin(schedule, &state)
        state.sharing.isShared = false
        let mintedAt = schedule.mintedAt ?? moment.now
        state.token = ProviderToken(
            bytes: saved.bytes, issuedAt: saved.issuedAt, generation: (state.token?.generation ?? 0) + 1, mintedAt: mintedAt)
        state.news.append(.found(key: key.keyID, age: moment.now - mintedAt))
    }

    private func mint(_ state: inout State, _ moment: Moment) {
        let token = ProviderToken(
            keyID: key.keyID, teamID: key.teamID, issuedAt: moment.unixTime, generation: (state.token?.generation ?? 0) + 1,
            mintedAt: moment.now, sign: key.sign)
        guard let token else { return }
        state.token = token
        state.sharing.isShared = false
        state.exchange?.with.wanted.ring()
        var schedule = state.schedule
        schedule.minted(now: moment.now)
        begin(schedule, &state)
        state.news.append(.minted(key: key.keyID))
    }

    private func begin(_ schedule: TokenSchedule, _ state: inout State) {
        state.schedule = schedule
        mintedAt.withLock { $0 = schedule.mintedAt }
    }

    private func complain(_ state: inout State, _ why: String) {
        if state.hasComplained { return }
        state.hasComplained = true
        state.news.append(.notKept(key: key.keyID, why))
    }
}

extension SigningKey {
    /// The name of the token's file: two keys with the same id have different fingerprints.
    var fileName: String {
        let digits = fingerprint.prefix(8).map { byte in
            let text = String(byte, radix: 16)
            return byte < 16 ? "0" + text : text
        }
        return "\(teamID)-\(keyID)-\(digits.joined())"
    }

    /// Whether this key has signed the token with this date.
    func hasSigned(_ saved: SavedToken) -> Bool {
        let signed = ProviderToken.signedPart(keyID: keyID, teamID: teamID, issuedAt: saved.issuedAt)
        guard saved.bytes.count > signed.count + 1, saved.bytes.starts(with: signed + [UInt8(ascii: ".")]),
            let signature = Base64.decode(saved.bytes[(signed.count + 1)...], as: .url)
        else { return false }
        return verify(signature, of: signed)
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
