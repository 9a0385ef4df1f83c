/// The rights of the user for the keys of one list.
///
/// Every command of a worker is sent between MULTI and DISCARD, where Redis checks the rights and runs nothing. For a user that
/// may not run MULTI, commands without effect are sent instead.
public struct UserRights: Sendable, Equatable {
    /// Without these, jobs are not delivered or might be lost.
    public private(set) var missingCommands: [String] = []
    public private(set) var missingKeys: [String] = []
    /// Whether Redis knows EVAL, which `rename-command` may hide.
    private var hasScripts = true
    /// The error of Redis when the keys are not all in the slot of the list.
    public private(set) var crossing: ErrorReply?
    /// The error of Redis when its memory is full and it may evict nothing, so that no producer can push.
    public private(set) var shortage: ErrorReply?
    /// Sentences about the optional commands that are missing.
    public private(set) var remarks: [String] = []

    /// Sentences about the missing rights.
    public var faults: [String] {
        if !hasScripts { return ["this Redis does not know the command eval, which gaplessd requires"] }
        var faults: [String] = []
        if !missingCommands.isEmpty { faults.append("this user may not run \(missingCommands.joined(separator: ", "))") }
        if !missingKeys.isEmpty {
            faults.append(
                "this user may not read and write the key\(missingKeys.count > 1 ? "s" : "") "
                    + "\(missingKeys.joined(separator: ", "))"
            )
        }
        return faults
    }

    /// The commands of scripts and workers, in a form that a transaction accepts. `K` stands for a key, `Q` for the list.
    static func commands(_ mode: QueueSettings.DeliveryMode, hasResults: Bool) -> [String] {
        let all = [
            "DEL K", "EVALSHA 0 1 K", "EXISTS K", "HDEL K x", "HEXISTS K x", "HGET K x", "HINCRBY K x 1", "HKEYS K", "HLEN K",
            "HMGET K x", "HSET K x x", "LLEN K", "LPUSH K x", "LRANGE K 0 0", "LTRIM K 0 0", "RPUSH K x", "TIME", "ZADD K 1 x",
            "ZCARD K", "ZRANGE K 0 0", "ZRANGEBYSCORE K 0 0", "ZREM K x", "ZSCORE K x",
        ]
        let results = hasResults ? ["XADD K * x x", "XLEN K"] : []
        return all + results + (mode == .atMostOnce ? ["BLPOP Q 1", "LINDEX K 0", "LPOP Q 1", "RPOP K"] : [])
    }

    /// The commands that a worker, or `check`, can do without, and the consequence.
    static func optionalCommands(_ mode: QueueSettings.DeliveryMode) -> [(command: String, loss: String)] {
        let info = ("INFO", "gaplessd cannot warn of dangerous Redis settings")
        let type = ("TYPE K", "the types of the keys were not checked")
        if mode == .atMostOnce { return [info, type] }
        let copying = ["SORT K BY nosort STORE K", "MEMORY USAGE K"].map { ($0, "a script copies the jobs") }
        return [info, type, ("BLMOVE Q Q LEFT LEFT 1", "the list is polled")] + copying
    }

    public static func read(_ client: inout RedisClient, _ settings: QueueSettings) throws(RedisError) -> UserRights {
        let keys = Keys(list: settings.list)
        // In a cluster this also finds the node that has the list.
        let script = try reply(&client, ["EVAL", "return 1", "1", keys.list])
        var rights = UserRights()
        if case .error(let error) = script, error.kind == .unknownCommand {
            rights.hasScripts = false
            return rights
        }
        let needed = commands(settings.mode, hasResults: settings.resultsKey != nil)
        let wanted = optionalCommands(settings.mode)
        let touched = allKeys(keys, settings)
        let all = needed + wanted.map(\.command)
        let verdicts: [Verdict]
        if case .error(let error) = try reply(&client, ["MULTI"]) {
            verdicts = try rights.askOneByOne(&client, all, keys, touched, hasMulti: error.isMissingRight)
        } else {
            verdicts = try rights.askInTransaction(&client, all, keys, touched)
        }
        rights.judge(verdicts, needed: needed.map(name), wanted: wanted)
        return rights
    }

    /// Returns the reply, or the error of a missing right or a renamed command; any other error is thrown.
    private static func reply(_ client: inout RedisClient, _ command: [String]) throws(RedisError) -> RedisReply {
        do throws(RedisError) {
            return try client.command(command)
        } catch {
            guard case .reply(let reply) = error, reply.isMissingRight || reply.kind == .unknownCommand else { throw error }
            return .error(reply)
        }
    }

    /// Belongs behind MULTI: without it, the commands would run.
    private mutating func askInTransaction(
        _ client: inout RedisClient, _ commands: [String], _ keys: Keys, _ touched: [String]
    ) throws(RedisError) -> [Verdict] {
        let questions = commands.map { UserRights.words($0, keys) }
        let replies = try client.pipeline(questions + UserRights.scripts(touching: touched) + [["DISCARD"]])
        try throwUnexpected(in: replies)
        judge(keys: touched, replies.dropFirst(questions.count))
        return replies.prefix(questions.count).map(Verdict.init)
    }

    /// For a user that may not run MULTI, or a Redis that does not know it (`rename-command`): commands without effect are sent,
    /// and a script asks for the rest (from Redis 7 on).
    private mutating func askOneByOne(
        _ client: inout RedisClient, _ commands: [String], _ keys: Keys, _ touched: [String], hasMulti: Bool
    ) throws(RedisError) -> [Verdict] {
        let scripts = UserRights.scripts(touching: touched)
        // No script has this hash. HINCRBY needs memory, and then refuses the text.
        let harmless = [["EVALSHA", String(repeating: "0", count: 40), "0"], ["HINCRBY", keys.nothing, "x", "x"]]
        let replies = try client.pipeline(harmless + scripts)
        try throwUnexpected(in: replies)
        if Verdict(replies[0]) == .refused { missingCommands.append("evalsha") }
        judge(keys: touched, replies.dropFirst(harmless.count))
        // With a key that is refused, every command would be.
        guard !missingCommands.contains("eval"), let key = touched.first(where: { !missingKeys.contains($0) }) else { return [] }
        let verdicts = try client.command(["EVAL", UserRights.permissions, "1", key] + commands).items ?? []
        if verdicts.isEmpty {
            let why = hasMulti ? "it may not run MULTI" : "this Redis does not know MULTI"
            remarks = ["the other rights of the user were not checked: \(why)"]
        }
        return verdicts.map { $0.integer == 1 ? .granted : $0.integer == 2 ? .unknown : .refused }
    }

    /// Replies for each of ARGV, with KEYS[1] for `K` and `Q`: 1 when the user may run it, else 0, and 2 for an unknown command.
    private static let permissions = """
        local verdicts = {}
        if not redis.acl_check_cmd then return verdicts end
        for place, command in ipairs(ARGV) do
            local words = {}
            for word in string.gmatch(command, '%S+') do
                words[#words + 1] = (word == 'K' or word == 'Q') and KEYS[1] or word
            end
            local isKnown, may = pcall(redis.acl_check_cmd, unpack(words))
            verdicts[place] = isKnown and (may and 1 or 0) or 2
        end
        return verdicts
        """

    /// One with all keys, then one for each.
    private static func scripts(touching keys: [String]) -> [[String]] {
        [["EVAL", "return 1", String(keys.count)] + keys] + keys.map { ["EVAL", "return 1", "1", $0] }
    }

    private static func allKeys(_ keys: Keys, _ settings: QueueSettings) -> [String] {
        let own = [keys.dead, keys.large, keys.feedback, keys.stats, keys.paused, keys.asides, keys.aside("x"), keys.nothing]
        let slots = [keys.slots, keys.states, keys.waiting, keys.paced, keys.scope("x")]
        return [keys.list, keys.workers, keys.delayed] + own + slots + keys.recovered
            + [keys.inflight("x"), keys.worker("x"), keys.holders, keys.chunks("x"), keys.chunk("x", 1)]
            + [settings.resultsKey].compactMap(\.self)
    }

    private static func words(_ command: String, _ keys: Keys) -> [String] {
        command.split(separator: " ").map { $0 == "K" ? keys.nothing : $0 == "Q" ? keys.list : String($0) }
    }

    /// The name of the right, with the subcommand if there is one.
    private static func name(_ command: String) -> String {
        command.split(separator: " ").prefix { $0.count > 1 && $0.allSatisfy(\.isUppercase) }.joined(separator: "|").lowercased()
    }

    private mutating func judge(_ verdicts: [Verdict], needed: [String], wanted: [(command: String, loss: String)]) {
        var rest = verdicts[...]
        for name in needed where rest.popFirst() == .refused && !missingCommands.contains(name) { missingCommands.append(name) }
        for (command, loss) in wanted {
            let name = UserRights.name(command)
            switch rest.popFirst() {
            case .refused: remarks.append("this user may not run \(name): \(loss)")
            case .unknown: remarks.append("this Redis has no \(name): \(loss)")
            case .granted, nil: break
            }
        }
    }

    /// - Parameter replies: to `scripts(touching:)`, and more.
    private mutating func judge(keys: [String], _ replies: ArraySlice<RedisReply>) {
        var rest = replies
        if case .error(let error)? = rest.popFirst() {
            if error.kind == .rightMissing(isCommand: true) { missingCommands.append("eval") }
            if error.kind == .crossSlot { crossing = error }
        }
        for key in keys {
            if case .error(let error)? = rest.popFirst(), error.kind == .rightMissing(isCommand: false) {
                missingKeys.append(key)
            }
        }
    }

    /// Throws the first error that the rest of this type does not expect. EXECABORT follows from the others.
    private mutating func throwUnexpected(in replies: [RedisReply]) throws(RedisError) {
        for case .error(let error) in replies {
            switch error.kind {
            case .outOfMemory: shortage = error
            case .rightMissing, .crossSlot, .transactionAborted, .scriptMissing, .unknownCommand, .notAnInteger: break
            default: throw .reply(error)
            }
        }
    }

    /// The right to run one command, by the reply to it.
    private enum Verdict {
        case granted, refused, unknown

        init(_ reply: RedisReply) {
            switch reply {
            case .error(let error) where error.kind == .rightMissing(isCommand: true): self = .refused
            case .error(let error) where error.kind == .unknownCommand: self = .unknown
            default: self = .granted
            }
        }
    }
}
