import Platform
import PushPool

/// The channels behind the names that jobs give, as far as this process knows them.
///
///     known as      fact                                        next
///     nothing       a job names it                              asked
///     asked         the keeper has found it                     found
///     asked         it has no record, and none is created       missing
///     asked         its creation failed                         failed, for a time
///     asked         no answer for a minute                      asked again
///     found         APNs does not know the id                   doubted, and asked again
///     doubted       the keeper has found another id             found
///     doubted       the keeper has found the same id            confirmed: the next such response is final
///     found         half a minute                               found, and asked again
///
/// A job whose channel is not found waits in Redis, in its slot or among the delayed jobs.
struct ChannelNames {
    /// What becomes of a job that names a channel.
    enum Resolution: Equatable {
        case channel(id: String, storage: ChannelCall.Storage)
        case wait(Duration)
        /// There is no such channel: a bad job.
        case missing
    }

    private enum Standing {
        case asked(since: Instant, doubted: String?)
        case found(id: String, ChannelCall.Storage, isConfirmed: Bool)
        case failed(until: Instant)
        case missing(until: Instant)
    }

    private struct Entry {
        var standing: Standing
        /// When the keeper was asked last.
        var asked: Instant
    }

    /// A bound for producers whose jobs all name other channels: the table is emptied when it is full.
    static let most = 10_000
    /// The waits of a job while its channel is being found.
    static let shortestWait = Duration.milliseconds(100)
    static let longestWait = Duration.seconds(5)
    /// After this time an id is looked up again: another daemon may have deleted the channel.
    private static let refresh = Duration.seconds(30)
    private static let patience = Duration.seconds(60)
    /// For so long no other job of a missing name asks again.
    private static let missingTime = Duration.seconds(1)

    private var entries: [ChannelName: Entry] = [:]
    /// The names to ask the keeper for.
    private var questions: [ChannelName] = []

    // MARK: Jobs

    /// Gives the job the id of the channel that it names. Returns the time after which it is looked for again, if it is not found
    /// yet.
    mutating func find(
        _ name: String, for job: inout Job, app: Int, _ turn: borrowing Turn, _ effects: inout [DispatchEffect]
    ) throws(JobError) -> Duration? {
        let channel = ChannelName(app: turn.plan.apps[app].name ?? "", name: name)
        let resolution = resolve(channel, now: turn.now)
        ask(&effects)
        switch resolution {
        case .channel(let id, let storage):
            job.found(channel: id, storage, now: turn.wallClock.unixSeconds)
            return nil
        case .wait(let pause): return pause
        case .missing:
            throw .structure(
                "channel_name \(channel.text) does not exist, and the setting channels creates no channel of this name")
        }
    }

    /// Whether APNs does not know the channel of a job that names it, and the record may have another id meanwhile.
    mutating func mayHaveChanged(
        for job: HeldJob, after outcome: Outcome, _ turn: borrowing Turn, _ effects: inout [DispatchEffect]
    ) -> Bool {
        guard let name = job.job.channelName, case .rejected(let rejection) = outcome,
            ChannelCall.reasonsOfMissingChannel.contains(rejection.reason)
        else { return false }
        let channel = ChannelName(app: turn.plan.apps[job.app].name ?? "", name: name)
        guard doubts(channel, id: job.token, now: turn.now) else { return false }
        ask(&effects)
        return true
    }

    /// The name of the channel of a job, which may name it by its id.
    func name(of job: HeldJob, in plan: DispatchPlan) -> ChannelName? {
        let app = plan.apps[job.app].name ?? ""
        if let name = job.job.channelName { return ChannelName(app: app, name: name) }
        guard case .channel = job.job.target else { return nil }
        let found = entries.first { name, entry in
            if case .found(job.token, _, _) = entry.standing { name.app == app } else { false }
        }
        return found?.key
    }

    private mutating func ask(_ effects: inout [DispatchEffect]) {
        for name in takeQuestions() { effects.append(.askKeeper(.find(name))) }
    }

    // MARK: Names

    /// Returns the names that the keeper has not been asked for yet.
    mutating func takeQuestions() -> [ChannelName] {
        defer { questions = [] }
        return questions
    }

    mutating func resolve(_ name: ChannelName, now: Instant) -> Resolution {
        guard let entry = entries[name] else {
            ask(name, doubted: nil, now: now)
            return .wait(Self.shortestWait)
        }
        switch entry.standing {
        case .asked(let since, let doubted):
            if now - since >= Self.patience { ask(name, doubted: doubted, now: now) }
            return .wait(min(Self.longestWait, max(Self.shortestWait, now - since)))
        case .found(let id, let storage, _):
            if now - entry.asked >= Self.refresh {
                entries[name]?.asked = now
                questions.append(name)
            }
            return .channel(id: id, storage: storage)
        case .failed(let end) where end > now: return .wait(max(Self.shortestWait, end - now))
        case .missing(let end) where end > now: return .missing
        case .failed, .missing:
            ask(name, doubted: nil, now: now)
            return .wait(Self.shortestWait)
        }
    }

    private mutating func ask(_ name: ChannelName, doubted: String?, now: Instant) {
        if entries.count >= Self.most { entries.removeAll() }
        entries[name] = Entry(standing: .asked(since: now, doubted: doubted), asked: now)
        questions.append(name)
    }

    mutating func answered(_ answer: ChannelKeeper.Answer, now: Instant) {
        switch answer {
        case .found(let name, let id, let storage):
            var isConfirmed = false
            switch entries[name]?.standing {
            case .asked(_, let doubted): isConfirmed = doubted == id
            case .found(id, _, let wasConfirmed): isConfirmed = wasConfirmed
            default: break
            }
            set(name, .found(id: id, storage, isConfirmed: isConfirmed), now: now)
        case .missing(let name): set(name, .missing(until: now + Self.missingTime), now: now)
        case .failed(let name, let pause): set(name, .failed(until: now + pause), now: now)
        }
    }

    private mutating func set(_ name: ChannelName, _ standing: Standing, now: Instant) {
        entries[name] = Entry(standing: standing, asked: entries[name]?.asked ?? now)
    }

    /// APNs does not know a channel. Returns whether the job should be sent again once the name is looked up: the record may have
    /// another id meanwhile.
    mutating func doubts(_ name: ChannelName, id: String, now: Instant) -> Bool {
        switch entries[name]?.standing {
        case .found(id, _, isConfirmed: true): return false
        case .found(id, _, isConfirmed: false), nil:
            ask(name, doubted: id, now: now)
            return true
        // It is being looked up, or has another id already.
        case .asked, .found, .failed, .missing: return true
        }
    }
}
