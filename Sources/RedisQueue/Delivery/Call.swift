/// A command that the queue sends to Redis. Indirect, because it is moved a dozen times on its way, and some are large.
indirect enum Call: Equatable {
    /// The reply is a status, or that of ROLE with `master`. Otherwise the connection cannot be used.
    case greeting(Login.Step)
    case register(Registration)
    /// `jobs` follows it on the same connection, in the same write.
    case claim(Claim)
    /// The list of a chunk that was just claimed.
    case jobs(of: Claim)
    case pop(PopQueue.Call)
    case settle(SettleBatch)
    case beat(Beat)
    case promote
    case takeOver(Takeover)
    case adopt(Adoption)
    case restore(Restore)
    case review(SlotReview)
    /// Return the jobs in slots to the list, at a stop.
    case returnSlots
    case launch(CampaignLaunch)
    /// The ids of the campaigns with tokens, and the times of their beginnings.
    case campaigns
    /// The texts around the tokens of a campaign.
    case describe(campaign: String)
    /// Records a campaign of which this worker holds tokens, if Redis has lost it.
    case keep(Campaign)
    case figures(CampaignFigures)
    case info
    /// The apps that daemons of the list have had.
    case apps
    /// The nodes of a Redis Cluster.
    case nodes
    case fetch(Fetch)
    case unregister
    /// The number of existing keys among the list and the chunk of the claim behind the wait. It shows whether Redis responds,
    /// and which jobs the second connection may have missed.
    case inspect(chunk: UInt64?)
    /// On the second connection: wait for a job.
    case wait

    /// Whether the reply may be a `Lua.Status` instead of a result. A job with the text `FENCED` is only a job.
    var isFenced: Bool {
        switch self {
        case .claim, .settle, .beat, .takeOver, .adopt, .restore, .review, .returnSlots, .unregister, .launch, .figures: true
        case .greeting, .register, .jobs, .pop, .promote, .info, .apps, .nodes, .fetch, .inspect, .wait, .campaigns, .describe,
            .keep:
            false
        }
    }

    /// Whether the second connection carries it.
    var isOnSecond: Bool {
        switch self {
        case .wait: true
        case .claim(let claim), .jobs(let claim): claim.isPiggybacked
        default: false
        }
    }
}

/// Writes calls as commands of Redis. The constant parts are put together once, because an idle daemon with a new job waits for
/// little else.
struct CallEncoder {
    /// The timeout of the blocking command.
    static let waitSeconds = 20

    private let keys: Keys
    private(set) var settings: QueueSettings
    private let worker: WorkerName
    private let information: [String]
    private let epochSeed: Int64
    private let wait: Arguments
    /// The command that reads the jobs of a chunk: its parts around the key, and the key without the number.
    private let readHead = Arguments(["LRANGE"]).bytes
    private let chunks: [UInt8]
    private let readTail = Arguments(["0", "-1"]).bytes
    private var scripts: Scripts
    /// The stream of results that the settings no longer name, for results that were written before. `nil` without one.
    private var formerResultsKey: String?
    private var formerSettle: PreparedScript?
    /// The arguments of a batch that the settings determine.
    private var settleOptions: [UInt8]
    /// The number of the connection as the calls carry it: with a random fraction that is drawn at each registration. Two
    /// processes with one name may register under the same number, if Redis loses the record in between.
    private var connection: (number: Int64, text: String) = (0, "0") {
        didSet { identity = Arguments([worker.text, connection.text]) }
    }
    /// The first arguments of a call of a registered worker.
    private var identity = Arguments()
    /// The last registration of which a reply was read, and those after it.
    private var registrations: [(number: Int64, text: String)] = []
    private static let mostRegistrations = 64
    /// Tests that compare records do without the fraction.
    var drawsFraction = true

    /// The scripts that are sent often, or at each connection. The others have keys of their own in each call, and are sent in
    /// full.
    private struct Scripts {
        var register: PreparedScript
        var claim: PreparedScript
        var slotClaim: PreparedScript
        var settle: PreparedScript
        var beat: PreparedScript
        var promote: PreparedScript
        var adopt: PreparedScript
        var unregister: PreparedScript
        var tokens: PreparedScript
        var figures: PreparedScript

        init(_ keys: ScriptKeys) {
            register = PreparedScript(Registration.script, keys)
            claim = PreparedScript(Claim.script, keys)
            slotClaim = PreparedScript(SlotClaim.script, keys)
            settle = PreparedScript(SettleBatch.script, keys)
            beat = PreparedScript(Beat.script, keys)
            promote = PreparedScript(Promotion.script, keys)
            adopt = PreparedScript(Adoption.script, keys)
            unregister = PreparedScript(Unregistration.script, keys)
            tokens = PreparedScript(CampaignClaim.script, keys)
            figures = PreparedScript(CampaignFigures.script, keys)
        }
    }

    /// - Parameter information: names and values for `worker:W`.
    init(settings: QueueSettings, worker: WorkerName, information: [String], epochSeed: Int64) {
        keys = Keys(list: settings.list)
        self.settings = settings
        self.worker = worker
        self.information = information
        self.epochSeed = epochSeed
        chunks = Array((keys.chunks(worker.text) + ":").utf8)
        // A blocking peek: the head of the list moves onto itself.
        let peek = ["BLMOVE", keys.list, keys.list, "LEFT", "LEFT", String(CallEncoder.waitSeconds)]
        wait = settings.mode.keepsJobs ? Arguments(peek) : PopQueue.wait(on: keys.list)
        scripts = Scripts(ScriptKeys(keys, worker: worker.text, results: settings.resultsKey))
        settleOptions = SettleBatch.options(settings)
    }

    /// See `QueueSettings.adopt`.
    mutating func adopt(_ new: QueueSettings) {
        if new.resultsKey == nil, let key = settings.resultsKey { formerResultsKey = key }
        settings.adopt(new)
        settleOptions = SettleBatch.options(settings)
        forgetScripts()
    }

    /// From here on the server's script cache may be another one's.
    mutating func forgetScripts() {
        scripts = Scripts(scriptKeys)
        formerSettle = nil
        guard settings.resultsKey == nil, let formerResultsKey else { return }
        var former = scriptKeys
        former.results = formerResultsKey
        formerSettle = PreparedScript(SettleBatch.script, former)
    }

    private var scriptKeys: ScriptKeys { ScriptKeys(keys, worker: worker.text, results: settings.resultsKey) }

    /// - Parameter number: of the connection.
    mutating func write(_ call: Call, number: Int64, to out: inout [UInt8]) {
        if connection.number != number { connection = (number, String(number)) }
        switch call {
        case .greeting: preconditionFailure("the login is written when a connection is made")
        case .register(let registration): register(registration, number, to: &out)
        case .claim(let claim): self.claim(claim, to: &out)
        case .jobs(let claim):
            out.appendCommandHead(of: 4)
            out.append(contentsOf: readHead)
            out.appendArgument(chunks, claim.chunk)
            out.append(contentsOf: readTail)
        case .settle(let batch): settle(batch, to: &out)
        case .beat(let beat):
            scripts.beat.begin(arguments: identity.count + Beat.Argument.allCases.count, to: &out)
            out.append(contentsOf: identity.bytes)
            for argument in Beat.Argument.allCases { beat.write(argument, to: &out) }
        case .promote: scripts.promote.begin(arguments: 0, to: &out)
        case .takeOver(let takeover):
            let more = takeover.keys(keys, worker: worker.text)
            let count = identity.count + Takeover.Argument.allCases.count
            begin(Takeover.script, moreKeys: more, arguments: count, to: &out)
            out.append(contentsOf: identity.bytes)
            for argument in Takeover.Argument.allCases { takeover.write(argument, to: &out) }
        case .adopt(let adoption):
            scripts.adopt.begin(moreKeys: 1, arguments: identity.count + adoption.argumentCount, to: &out)
            out.appendArgument(chunks, adoption.chunk)
            out.append(contentsOf: identity.bytes)
            for argument in Adoption.Argument.allCases { adoption.write(argument, to: &out) }
        case .restore(let restore):
            begin(Restore.script, moreKeys: [keys.aside(restore.app)], arguments: identity.count + 1, to: &out)
            out.append(contentsOf: identity.bytes)
            out.appendArgument(restore.isStop ? 1 : 0)
        case .review(let review):
            let count = identity.count + SlotReview.Argument.allCases.count
            begin(SlotReview.script, moreKeys: [keys.scope(review.app), keys.chunks(review.holder)], arguments: count, to: &out)
            out.append(contentsOf: identity.bytes)
            for argument in SlotReview.Argument.allCases { review.write(argument, to: &out) }
        case .returnSlots:
            begin(SlotReturn.script, moreKeys: [], arguments: identity.count, to: &out)
            out.append(contentsOf: identity.bytes)
        case .launch(let launch):
            let count = identity.count + CampaignLaunch.Argument.allCases.count
            begin(CampaignLaunch.script, moreKeys: launch.keys(keys), arguments: count, to: &out)
            out.append(contentsOf: identity.bytes)
            for argument in CampaignLaunch.Argument.allCases { launch.write(argument, to: &out) }
        case .campaigns:
            let range = ["0", "+inf", "WITHSCORES", "LIMIT", "0", String(Campaign.most)]
            out.appendCommand(Arguments(["ZRANGEBYSCORE", keys.campaigns] + range))
        case .describe(let id): out.appendCommand(Arguments(["HMGET", keys.campaign(id), "head", "tail", "stop"]))
        case .keep(let campaign):
            let more = [keys.campaigns, keys.campaign(campaign.id)]
            begin(CampaignLaunch.keepScript, moreKeys: more, arguments: 4, to: &out)
            out.appendArgument(campaign.id)
            out.appendArgument(campaign.head)
            out.appendArgument(campaign.tail)
            out.appendArgument(campaign.stop)
        case .figures(let figures):
            let (more, arguments) = (figures.keys(keys), figures.arguments)
            scripts.figures.begin(moreKeys: more.count, arguments: identity.count + arguments.count, to: &out)
            for key in more { out.appendArgument(key) }
            out.append(contentsOf: identity.bytes)
            out.append(contentsOf: arguments.bytes)
        case .unregister:
            scripts.unregister.begin(arguments: identity.count, to: &out)
            out.append(contentsOf: identity.bytes)
        case .info: out.appendCommand(Arguments(["INFO"]))
        case .apps: out.appendCommand(Arguments(["EVAL", AppRecords.readScript, "1", keys.apps]))
        case .nodes: out.appendCommand(Arguments(["CLUSTER", "SLOTS"]))
        case .fetch(let fetch):
            begin(Fetch.script, moreKeys: [keys.chunk(worker.text, fetch.chunk)], arguments: fetch.places.count, to: &out)
            for place in fetch.places { out.appendArgument(place) }
        case .pop(let call): PopQueue.write(call, keys, to: &out)
        case .inspect(let chunk):
            out.appendCommand(Arguments(["EXISTS", keys.list] + (chunk.map { [keys.chunk(worker.text, $0)] } ?? [])))
        case .wait: out.appendCommand(wait)
        }
    }

    /// Writes the beginning of a rare call in full: workers rarely die, and each has keys of its own.
    private func begin(_ script: Script, moreKeys: [String], arguments: Int, to out: inout [UInt8]) {
        var script = PreparedScript(script, scriptKeys)
        script.begin(moreKeys: moreKeys.count, arguments: arguments, to: &out)
        for key in moreKeys { out.appendArgument(key) }
    }

    private mutating func register(_ registration: Registration, _ number: Int64, to out: inout [UInt8]) {
        if drawsFraction { connection.text = "\(number).\(UInt32.random(in: 1_000_000_000 ... .max))" }
        registrations.removeAll { $0.number < registration.answered }
        var rest = identity
        for argument in Registration.Argument.allCases {
            switch argument {
            case .counter: rest.append(String(registration.counter))
            case .confirmed: rest.append(registration.confirmed)
            case .isExpected: rest.append(registration.isExpected ? "1" : "0")
            case .epoch: rest.append(String(epochSeed &+ number))  // Differs each time: a worker may see Redis emptied twice.
            case .deadLetterMax: rest.append(max(0, settings.deadLetterMax))
            case .feedbackMax: rest.append(max(0, settings.feedbackMax))
            case .keepsJobs: rest.append(settings.mode.keepsJobs ? "1" : "0")
            case .identity: rest.append(worker.identity)
            case .sealed: rest.append(registration.sealed)
            case .answered: rest.append(String(registration.answered))
            case .registrations: rest.append(registrations.reduce(into: " ") { $0 += "\($1.text) " })
            case .fields: for text in information { rest.append(text) }
            }
        }
        scripts.register.begin(arguments: rest.count, to: &out)
        out.append(contentsOf: rest.bytes)
        registrations = registrations.suffix(Self.mostRegistrations - 1) + [connection]
    }

    private mutating func claimSlots(_ claim: Claim, of app: String, others: [String], to out: inout [UInt8]) {
        let (others, count) = (others.map(keys.chunks), identity.count + SlotClaim.Argument.allCases.count)
        scripts.slotClaim.begin(moreKeys: 2 + others.count, arguments: count, to: &out)
        out.appendArgument(chunks, claim.chunk)
        out.appendArgument(keys.scope(app))
        for key in others { out.appendArgument(key) }
        out.append(contentsOf: identity.bytes)
        for argument in SlotClaim.Argument.allCases {
            switch argument {
            case .chunk: out.appendArgument(claim.chunk)
            case .count: out.appendArgument(claim.count)
            case .bytes: out.appendArgument(claim.mostBytes)
            case .pace: out.appendArgument(Slots.text(of: settings.channelPace))
            case .keepsJobs: out.appendArgument(settings.mode.keepsJobs ? 1 : 0)
            }
        }
    }

    private mutating func claim(_ claim: Claim, to out: inout [UInt8]) {
        let arguments = claim.arguments
        switch claim.source {
        case .slots(let app, let others): return claimSlots(claim, of: app, others: others, to: &out)
        case .campaign(let id, let created): return tokens(claim, of: id, created, to: &out)
        case .aside(let app):
            var names = scriptKeys
            names.aside = app
            var script = PreparedScript(Claim.script, names)
            script.isLoaded = scripts.claim.isLoaded
            script.begin(moreKeys: 3, arguments: identity.count + arguments.count, to: &out)
            scripts.claim.isLoaded = true
        case .list: scripts.claim.begin(moreKeys: 2, arguments: identity.count + arguments.count, to: &out)
        }
        out.appendArgument(chunks, claim.chunk)
        out.appendArgument(chunks, claim.chunk + 1)
        if case .aside = claim.source { out.appendArgument(keys.asides) }
        out.append(contentsOf: identity.bytes)
        for argument in arguments { claim.write(argument, to: &out) }
    }

    private mutating func tokens(_ claim: Claim, of id: String, _ created: String, to out: inout [UInt8]) {
        scripts.tokens.begin(moreKeys: 5, arguments: identity.count + 5, to: &out)
        out.appendArgument(chunks, claim.chunk)
        out.appendArgument(chunks, claim.chunk + 1)
        for key in [keys.campaigns, keys.campaign(id), keys.audience(id)] { out.appendArgument(key) }
        out.append(contentsOf: identity.bytes)
        out.appendArgument(claim.chunk)
        out.appendArgument(claim.count)
        out.appendArgument(id)
        out.appendArgument(CampaignToken.prefix(of: id))
        out.appendArgument(created)
    }

    private mutating func settle(_ batch: SettleBatch, to out: inout [UInt8]) {
        let hashes = batch.slotApps.isEmpty ? [] : [keys.slots, keys.states, keys.waiting, keys.paced]
        let last = batch.asides.isEmpty && batch.slotApps.isEmpty ? [] : [keys.asides]
        let lists = batch.lists
        let more = lists.count + batch.asides.count + batch.slotApps.count + hashes.count + last.count
        let count = identity.count + batch.argumentCount
        if batch.hasResults, formerSettle != nil {
            formerSettle?.begin(moreKeys: more, arguments: count, to: &out)
        } else {
            scripts.settle.begin(moreKeys: more, arguments: count, to: &out)
        }
        for chunk in lists { out.appendArgument(chunks, chunk) }
        for app in batch.asides { out.appendArgument(keys.aside(app)) }
        for app in batch.slotApps { out.appendArgument(keys.scope(app)) }
        for key in hashes + last { out.appendArgument(key) }
        out.append(contentsOf: identity.bytes)
        batch.writeArguments(settleOptions, pace: settings.channelPace, to: &out)
    }
}
