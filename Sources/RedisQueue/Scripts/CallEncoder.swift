/// Writes calls as commands of Redis. The constant parts are put together once, because an idle daemon with a new job waits for
/// little else.
struct CallEncoder {
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
    private var scripts: WorkerScripts
    /// The stream of results that the settings no longer name, for results that were written before. `nil` without one.
    private var formerResultsKey: String?
    private var formerScripts: WorkerScripts?
    /// The arguments of `Scripts.settle` that the settings determine.
    private var settleOptions = Arguments()
    /// The number of the connection as the calls carry it: with a random fraction that is drawn at each registration. Two
    /// processes with one name may register under the same number, if Redis loses the record in between.
    private var connection: (number: Int64, text: String) = (0, "0") {
        didSet { connectionArgument = Arguments([connection.text]).bytes }
    }
    private var connectionArgument: [UInt8] = []
    /// The last registration of which a reply was read, and those after it.
    private var registrations: [(number: Int64, text: String)] = []
    private static let mostRegistrations = 64
    /// Tests that compare records do without the fraction.
    var drawsFraction = true

    /// - Parameter information: names and values for `worker:W`.
    init(settings: QueueSettings, worker: WorkerName, information: [String], epochSeed: Int64) {
        keys = Keys(list: settings.list)
        self.settings = settings
        self.worker = worker
        self.information = information
        self.epochSeed = epochSeed
        chunks = Array((keys.chunks(worker.text) + ":").utf8)
        wait = CallEncoder.wait(on: keys.list, settings.mode)
        scripts = WorkerScripts(keys, worker, settings)
        settleOptions = CallEncoder.settleOptions(settings)
    }

    /// See `QueueSettings.adopt`.
    mutating func adopt(_ new: QueueSettings) {
        if new.resultsKey == nil, let key = settings.resultsKey { formerResultsKey = key }
        settings.adopt(new)
        settleOptions = CallEncoder.settleOptions(settings)
        forgetScripts()
    }

    /// From here on the server's script cache may be another one's.
    mutating func forgetScripts() {
        scripts = WorkerScripts(keys, worker, settings)
        formerScripts = nil
        guard settings.resultsKey == nil, let formerResultsKey else { return }
        var former = settings
        former.resultsKey = formerResultsKey
        formerScripts = WorkerScripts(keys, worker, former)
    }

    /// The commands that a new connection begins with.
    func greeting() -> [(Call.Greeting, Arguments)] {
        var commands: [(Call.Greeting, Arguments)] = []
        if let command = CallEncoder.authentication(settings) { commands.append((.password, command)) }
        if settings.database != 0 {
            commands.append((.plain, Arguments(["SELECT", String(settings.database)])))
        }
        commands.append((.plain, Arguments(["PING"])))
        // Sentinels may lag behind: the server itself has to confirm that it is a master.
        if case .sentinels = settings.server { commands.append((.role, Arguments(["ROLE"]))) }
        return commands
    }

    /// `nil` where no password is set.
    static func authentication(_ settings: QueueSettings) -> Arguments? {
        authentication(settings.username, settings.password)
    }

    /// The login at a Sentinel.
    static func sentinelAuthentication(_ settings: QueueSettings) -> Arguments? {
        if settings.sentinelPassword == nil { return authentication(settings) }
        return authentication(settings.sentinelUsername, settings.sentinelPassword)
    }

    private static func authentication(_ username: String?, _ password: String?) -> Arguments? {
        guard let password else { return nil }
        return Arguments(username.map { ["AUTH", $0, password] } ?? ["AUTH", password])
    }

    /// - Parameter number: of the connection.
    mutating func write(_ call: Call, number: Int64, to out: inout [UInt8]) {
        if connection.number != number { connection = (number, String(number)) }
        switch call {
        case .greeting: preconditionFailure("greetings are written when a connection is made")
        case .register(let registration):
            if drawsFraction { connection.text = "\(number).\(UInt32.random(in: 1_000_000_000 ... .max))" }
            registrations.removeAll { $0.number < registration.answered }
            scripts.register.write(facts(of: registration, number), to: &out)
            registrations = registrations.suffix(Self.mostRegistrations - 1) + [connection]
        case .claim(let claim): self.claim(claim, to: &out)
        case .jobs(let claim):
            out.appendCommandHead(of: 4)
            out.append(contentsOf: readHead)
            out.appendArgument(chunks, claim.chunk)
            out.append(contentsOf: readTail)
        case .settle(let batch): settle(batch, to: &out)
        case .beat(let counter, let settled, let chunk):
            let newest = chunk.map { String($0) } ?? ""
            scripts.beat.write(Arguments([connection.text, String(counter), String(settled), newest]), to: &out)
        case .promote: scripts.promote.begin(with: 0, to: &out)
        case .reap(let dead, let chunk, let lists):
            var reap = scripts.reap(dead.worker, suspects: chunk, lists: lists)
            let silence = dead.silence.map { String(Int($0 / .milliseconds(1))) } ?? ""
            reap.write(Arguments([connection.text, dead.worker, String(dead.counter), String(chunk), silence]), to: &out)
        case .adopt(let adopted):
            let facts = [Int64(adopted.chunk), Int64(adopted.level), Int64(adopted.positions)].map(String.init)
            var rest = Arguments([connection.text] + facts)
            for job in adopted.jobs {
                rest.append(job.place)
                rest.append(job.fullSize.map { String($0) } ?? "")
                rest.append(job.bytes)
            }
            scripts.adopt.begin(with: rest.count, lists: [adopted.chunk], of: chunks, to: &out)
            out.append(contentsOf: rest.bytes)
        case .merge: scripts.merge.begin(with: 0, to: &out)
        case .take(let app, let count):
            var take = scripts.take(app)
            take.write(Arguments([String(count)]), to: &out)
        case .restore(let app, let isStop):
            var restore = scripts.restore(app)
            restore.write(Arguments([connection.text, isStop ? "1" : "0"]), to: &out)
        case .unregister: scripts.unregister.write(Arguments([connection.text]), to: &out)
        case .info: out.appendCommand(Arguments(["INFO"]))
        case .nodes: out.appendCommand(Arguments(["CLUSTER", "SLOTS"]))
        case .fetch(let chunk, let places):
            var fetch = scripts.fetch(chunk)
            fetch.write(Arguments(places.map(String.init)), to: &out)
        case .pop(let count):
            out.appendCommand(Arguments(count == 1 ? ["LPOP", keys.list] : ["LPOP", keys.list, String(count)]))
        case .inspect(let chunk):
            out.appendCommand(Arguments(["EXISTS", keys.list] + (chunk.map { [keys.chunk(worker.text, $0)] } ?? [])))
        case .wait: out.appendCommand(wait)
        }
    }

    static let waitSeconds = 20

    /// A blocking peek: the head of the list moves onto itself. `at_most_once` takes a job, and waits only one second, so that a
    /// stop need not wait longer.
    private static func wait(on list: String, _ mode: QueueSettings.DeliveryMode) -> Arguments {
        switch mode {
        case .atLeastOnce: Arguments(["BLMOVE", list, list, "LEFT", "LEFT", String(waitSeconds)])
        case .atMostOnce: Arguments(["BLPOP", list, "1"])
        }
    }

    private func facts(of registration: Call.Registration, _ number: Int64) -> Arguments {
        Arguments(
            [
                connection.text, String(registration.counter), String(registration.confirmed),
                registration.isExpected ? "1" : "0",
                String(epochSeed &+ number),  // Differs each time: a worker may see Redis emptied twice.
                String(max(0, settings.deadLetterMax)), String(max(0, settings.feedbackMax)), String(worker.identity),
                String(registration.sealed), String(registration.answered),
                registrations.reduce(into: " ") { $0 += "\($1.text) " },
            ] + information)
    }

    private static func settleOptions(_ settings: QueueSettings) -> Arguments {
        var options = Arguments()
        options.append(settings.mode == .atLeastOnce ? 1 : 0)
        options.append(max(0, settings.deadLetterMax))
        options.append(max(0, settings.feedbackMax))
        options.append(max(0, settings.resultsMax))
        return options
    }

    private mutating func claim(_ claim: Call.Claim, to out: inout [UInt8]) {
        let (count, lists) = (claim.after == nil ? 5 : 6, [claim.chunk, claim.chunk + 1])
        if let app = claim.aside {
            scripts.withAsideClaim(of: app) {
                $0.begin(with: count, lists: lists, of: chunks, others: [keys.asides], to: &out)
            }
        } else {
            scripts.claim.begin(with: count, lists: lists, of: chunks, to: &out)
        }
        out.append(contentsOf: connectionArgument)
        out.appendArgument(claim.chunk)
        out.appendArgument(claim.count)
        out.appendArgument(claim.mostBytes)
        out.appendArgument(claim.fromSecond)
        if let after = claim.after { out.appendArgument(after) }
    }

    private mutating func settle(_ batch: SettleBatch, to out: inout [UInt8]) {
        let isAside = !batch.asides.isEmpty
        let count = 6 + settleOptions.count + batch.chunks.count + batch.steps.count + (isAside ? 2 : 0)
        let others = isAside ? batch.asides.map(keys.aside) + [keys.asides] : []
        if batch.hasResults, formerScripts != nil {
            formerScripts?.settle.begin(with: count, lists: batch.lists, of: chunks, others: others, to: &out)
        } else {
            scripts.settle.begin(with: count, lists: batch.lists, of: chunks, others: others, to: &out)
        }
        out.append(contentsOf: connectionArgument)
        out.appendArgument(batch.sequence)
        out.append(contentsOf: settleOptions.bytes)
        out.appendArgument(batch.resent)
        out.appendArgument(batch.maybeDuplicates)
        out.appendArgument(batch.chunkCount)
        out.appendArgument(batch.compacted.isEmpty ? "" : batch.compacted.reduce(into: " ") { $0 += "\($1) " })
        out.append(contentsOf: batch.chunks.bytes)
        if !batch.asides.isEmpty {
            out.appendArgument("x")
            out.appendArgument(batch.asides.count)
        }
        out.append(contentsOf: batch.steps.bytes)
    }
}
