/// Writes calls as commands of Redis.
struct CallEncoder {
    private let keys: Keys
    private var settings: QueueSettings
    private let worker: WorkerName
    private let information: [String]
    private let inflight: String
    private let workerHash: String
    private let birthMark: Int64
    /// Scripts that this connection has sent in full, by the index of their hash.
    private var loaded: Set<String> = []

    /// One claim's jobs together; a single job may be larger.
    private static let mostClaimedBytes = 512 << 10

    /// - Parameter information: names and values for `worker:W`.
    init(settings: QueueSettings, worker: WorkerName, information: [String], birthMark: Int64) {
        keys = Keys(list: settings.list)
        self.settings = settings
        self.worker = worker
        self.information = information
        self.birthMark = birthMark
        inflight = keys.inflight(worker.text)
        workerHash = keys.worker(worker.text)
    }

    /// See `QueueSettings.adopt`.
    mutating func adopt(_ new: QueueSettings) { settings.adopt(new) }

    /// A server's script cache may be another one's from here on.
    mutating func forgetScripts() { loaded = [] }

    /// What a new connection begins with.
    func greeting() -> [(Call, Arguments)] {
        var commands: [(Call, Arguments)] = []
        if let command = CallEncoder.authentication(settings) { commands.append((.greeting(.password), command)) }
        if settings.database != 0 {
            commands.append((.greeting(.plain), Arguments(["SELECT", String(settings.database)])))
        }
        commands.append((.greeting(.plain), Arguments(["PING"])))
        // Sentinels may lag behind: the server itself must say that it is a master.
        if case .sentinels = settings.server { commands.append((.greeting(.role), Arguments(["ROLE"]))) }
        return commands
    }

    /// `nil` where no password is set.
    static func authentication(_ settings: QueueSettings) -> Arguments? {
        guard let password = settings.password else { return nil }
        return Arguments(settings.username.map { ["AUTH", $0, password] } ?? ["AUTH", password])
    }

    /// Old servers repeat the arguments of a command they do not know: of AUTH's answer only the code goes on.
    static func refusedPassword(_ text: String) -> String {
        // Redis 6 and later; before.
        let isNeedless = ["without any password configured", "no password is set"].contains { text.firstRange(of: $0) != nil }
        let why = isNeedless ? "this Redis has no password" : "wrong user name or password?"
        return "AUTH was refused (\(text.prefix { $0 != " " })): \(why)"
    }

    /// - Parameter number: of the connection.
    mutating func write(_ call: Call, number: Int64, to out: inout [UInt8]) {
        let fence = [keys.nothing, keys.workers, workerHash]
        let mine = fence + [inflight]
        let identity = Arguments([worker.text, String(number)])
        var rest = Arguments()
        switch call {
        case .greeting: preconditionFailure("greetings are written when a connection is made")
        case .register(let registration):
            rest = Arguments([
                String(registration.counter), String(registration.confirmed), registration.isExpected ? "1" : "0",
                String(birthMark &+ number),  // Another each time: the same worker may see Redis emptied twice.
            ] + information)
            let others = [keys.stats] + keys.recovered + [keys.list, keys.delayed, keys.dead, keys.feedback, results]
            run(Scripts.register, mine + others, identity, rest, to: &out)
        case .claim(let first, let count, let fromSecond):
            for number in [Int(clamping: first), count, CallEncoder.mostClaimedBytes, fromSecond] { rest.append(number) }
            run(Scripts.claim, mine + [keys.stats] + keys.recovered + [keys.list], identity, rest, to: &out)
        case .ride(let first, let count, let fromSecond, let after):
            for number in [Int(clamping: first), count, CallEncoder.mostClaimedBytes, fromSecond, Int(clamping: after)] {
                rest.append(number)
            }
            run(Scripts.claim, mine + [keys.stats] + keys.recovered + [keys.list], identity, rest, to: &out)
        case .settle(let batch):
            settle(batch, identity, mine, to: &out)
        case .beat(let counter):
            rest.append(String(counter))
            run(Scripts.beat, fence + keys.recovered + [keys.delayed], identity, rest, to: &out)
        case .promote: run(Scripts.promote, [keys.nothing, keys.delayed, keys.list], rest, rest, to: &out)
        case .reap(let dead, let first):
            rest = Arguments([dead.worker, String(dead.counter), String(first)])
            let theirs = [keys.worker(dead.worker), keys.inflight(dead.worker), keys.stats]
            run(Scripts.reap, mine + theirs + keys.recovered, identity, rest, to: &out)
        case .adopt(let jobs):
            for job in jobs {
                rest.append(job.field)
                rest.append(job.job)
            }
            run(Scripts.adopt, mine + [keys.stats], identity, rest, to: &out)
        case .merge: run(Scripts.merge, [keys.nothing, keys.list] + keys.recovered, rest, rest, to: &out)
        case .unregister: run(Scripts.unregister, mine, identity, rest, to: &out)
        case .info: out.appendCommand(Arguments(["INFO"]))
        case .nodes: out.appendCommand(Arguments(["CLUSTER", "SLOTS"]))
        case .fields: out.appendCommand(Arguments(["HKEYS", inflight]))
        case .fetch(let fields): out.appendCommand(Arguments(["HMGET", inflight] + fields))
        case .pop(let count):
            out.appendCommand(Arguments(count == 1 ? ["LPOP", keys.list] : ["LPOP", keys.list, String(count)]))
        case .look: out.appendCommand(Arguments(["LLEN", keys.list]))
        case .countHeld: out.appendCommand(Arguments(["HLEN", inflight]))
        case .wait: out.appendCommand(Arguments(waitCommand))
        }
    }

    /// The same call once more, with its script in full: the server has lost it.
    mutating func writeInFull(_ call: Call, number: Int64, to out: inout [UInt8]) {
        loaded = []
        write(call, number: number, to: &out)
    }

    /// A blocking peek that takes nothing: the head of the list moves onto itself. `at_most_once` takes, and for that waits
    /// only one second, so that an orderly stop need not wait longer.
    private var waitCommand: [String] {
        switch settings.mode {
        case .atLeastOnce: ["BLMOVE", keys.list, keys.list, "LEFT", "LEFT", String(CallEncoder.waitSeconds)]
        case .atMostOnce: ["BLPOP", keys.list, "1"]
        }
    }

    static let waitSeconds = 20

    private var results: String { settings.resultsKey ?? keys.nothing }

    private mutating func settle(_ batch: SettleBatch, _ identity: Arguments, _ mine: [String], to out: inout [UInt8]) {
        var rest = Arguments([
            String(batch.sequence), settings.mode == .atLeastOnce ? "1" : "0", String(max(0, settings.deadLetterMax)),
            String(max(0, settings.resultsMax)), String(batch.resent), String(batch.maybeDuplicates),
        ])
        rest.append(batch.acknowledged.count)
        let others = [keys.stats, keys.delayed, keys.dead, keys.feedback, keys.list, results]
        run(Scripts.settle, mine + others, identity, rest, batch.acknowledged, batch.steps, to: &out)
    }

    private mutating func run(_ script: Script, _ keys: [String], _ parts: Arguments..., to out: inout [UInt8]) {
        var head = Arguments()
        if loaded.insert(script.sha).inserted {
            head.append("EVAL")
            head.append(script.text)
        } else {
            head.append("EVALSHA")
            head.append(script.sha)
        }
        head.append(keys.count)
        for key in keys { head.append(key) }
        out.appendCommand(head, parts)
    }
}
