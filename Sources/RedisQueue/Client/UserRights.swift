/// What the user that we are may do with the keys of one list.
///
/// Everything a worker sends is put between MULTI and DISCARD, where Redis looks whether the user may, and carries out nothing.
/// A user that may not run MULTI is asked by what does nothing.
public struct UserRights: Sendable, Equatable {
    /// Without these no job is delivered, or one might be lost.
    public private(set) var missingCommands: [String] = []
    public private(set) var missingKeys: [String] = []
    /// The slot of the list does not hold all keys: what Redis said.
    public private(set) var crossing: String?
    /// The memory is full and nothing may be evicted, so that no producer can push: what Redis said.
    public private(set) var shortage: String?
    /// What a worker does without, in sentences.
    public private(set) var remarks: [String] = []

    /// What is wrong, in sentences.
    public var faults: [String] {
        var faults: [String] = []
        if !missingCommands.isEmpty { faults.append("this user may not run \(missingCommands.joined(separator: ", "))") }
        if !missingKeys.isEmpty {
            faults.append(
                "this user may not read and write the key\(missingKeys.count > 1 ? "s" : "") \(missingKeys.joined(separator: ", "))"
            )
        }
        if let crossing { faults.append(crossing) }
        return faults
    }

    /// Each command that scripts and workers send, in a form that Redis lets into a transaction. `K` stands for a key, `Q` for
    /// the list.
    static func commands(_ mode: QueueSettings.DeliveryMode, hasResults: Bool) -> [String] {
        let all = [
            "DEL K", "EVALSHA 0 1 K", "EXISTS K", "HDEL K x", "HEXISTS K x", "HGET K x", "HINCRBY K x 1", "HKEYS K", "HLEN K",
            "HMGET K x", "HSET K x x", "LLEN K", "LPUSH K x", "LRANGE K 0 0", "LTRIM K 0 0", "RPUSH K x", "TIME", "ZADD K 1 x",
            "ZCARD K", "ZRANGE K 0 0", "ZRANGEBYSCORE K 0 0", "ZREM K x", "ZSCORE K x",
        ]
        let results = hasResults ? ["XADD K * x x", "XLEN K"] : []
        return all + results + (mode == .atMostOnce ? ["BLPOP Q 1", "LINDEX K 0", "LPOP Q 1", "RPOP K"] : [])
    }

    /// What a worker, or `check`, tries and can do without, and what is lost then.
    static func luxuries(_ mode: QueueSettings.DeliveryMode) -> [(command: String, loss: String)] {
        let info = ("INFO", "dangerous settings of Redis are not warned of")
        let type = ("TYPE K", "the types of the keys were not looked at")
        if mode == .atMostOnce { return [info, type] }
        return [info, type, ("BLMOVE Q Q LEFT LEFT 1", "the list is asked again and again instead of waited for")]
    }

    public static func read(_ client: inout RedisClient, _ settings: QueueSettings) throws(RedisError) -> UserRights {
        let keys = Keys(list: settings.list)
        // In a cluster this is also the way to the node that has the list.
        _ = try answer(&client, ["EVAL", "return 1", "1", keys.list])
        var rights = UserRights()
        let needed = commands(settings.mode, hasResults: settings.resultsKey != nil)
        let wanted = luxuries(settings.mode)
        let touched = allKeys(keys, settings)
        let all = needed + wanted.map(\.command)
        let verdicts: [Verdict]
        if case .error = try answer(&client, ["MULTI"]) {
            verdicts = try rights.askOneByOne(&client, all, keys, touched)
        } else {
            verdicts = try rights.askInTransaction(&client, all, keys, touched)
        }
        rights.judge(verdicts, needed: needed.map(name), wanted: wanted)
        return rights
    }

    /// Refused or not; any other error is thrown.
    private static func answer(_ client: inout RedisClient, _ command: [String]) throws(RedisError) -> RedisReply {
        do throws(RedisError) {
            return try client.command(command)
        } catch {
            guard case .reply(let text) = error, text.hasPrefix("NOPERM") else { throw error }
            return .error(text)
        }
    }

    /// Behind MULTI: without it, what is sent would be carried out.
    private mutating func askInTransaction(
        _ client: inout RedisClient, _ commands: [String], _ keys: Keys, _ touched: [String]
    ) throws(RedisError) -> [Verdict] {
        let questions = commands.map { UserRights.words($0, keys) }
        let answers = try client.pipeline(questions + UserRights.scripts(touching: touched) + [["DISCARD"]])
        try look(at: answers)
        judge(keys: touched, answers.dropFirst(questions.count))
        return answers.prefix(questions.count).map(Verdict.init)
    }

    /// For a user that may not run MULTI: what does nothing is sent as it is, and a script asks for the rest (Redis 7; before it
    /// nobody can be asked).
    private mutating func askOneByOne(
        _ client: inout RedisClient, _ commands: [String], _ keys: Keys, _ touched: [String]
    ) throws(RedisError) -> [Verdict] {
        let scripts = UserRights.scripts(touching: touched)
        // No script has this hash, and HINCRBY refuses the text, for which there must be room all the same.
        let harmless = [["EVALSHA", String(repeating: "0", count: 40), "0"], ["HINCRBY", keys.nothing, "x", "x"]]
        let answers = try client.pipeline(harmless + scripts)
        try look(at: answers)
        if Verdict(answers[0]) == .refused { missingCommands.append("evalsha") }
        judge(keys: touched, answers.dropFirst(harmless.count))
        // A command is judged by itself: with a key that is refused each would be.
        guard !missingCommands.contains("eval"), let key = touched.first(where: { !missingKeys.contains($0) }) else { return [] }
        let verdicts = try client.command(["EVAL", UserRights.permissions, "1", key] + commands).items ?? []
        if verdicts.isEmpty { remarks = ["the user's other rights were not looked at: it may not run MULTI"] }
        return verdicts.map { $0.integer == 1 ? .granted : $0.integer == 2 ? .unknown : .refused }
    }

    /// Whether the user may run each of ARGV, with KEYS[1] for `K` and `Q`: 1, else 0, and 2 where there is no such command.
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
        [keys.list, keys.workers, keys.delayed, keys.dead, keys.feedback, keys.stats, keys.nothing] + keys.recovered
            + [keys.inflight("x"), keys.worker("x")] + [settings.resultsKey].compactMap(\.self)
    }

    private static func words(_ command: String, _ keys: Keys) -> [String] {
        command.split(separator: " ").map { $0 == "K" ? keys.nothing : $0 == "Q" ? keys.list : String($0) }
    }

    private static func name(_ command: String) -> String { String(command.prefix { $0 != " " }).lowercased() }

    private mutating func judge(_ verdicts: [Verdict], needed: [String], wanted: [(command: String, loss: String)]) {
        var rest = verdicts[...]
        for name in needed where rest.popFirst() == .refused && !missingCommands.contains(name) { missingCommands.append(name) }
        for luxury in wanted {
            let name = UserRights.name(luxury.command)
            switch rest.popFirst() {
            case .refused: remarks.append("this user may not run \(name): \(luxury.loss)")
            case .unknown: remarks.append("this Redis has no \(name): \(luxury.loss)")
            case .granted, nil: break
            }
        }
    }

    /// - Parameter answers: to `scripts(touching:)`, and more.
    private mutating func judge(keys: [String], _ answers: ArraySlice<RedisReply>) {
        var rest = answers
        if case .error(let text)? = rest.popFirst() {
            if Verdict(.error(text)) == .refused { missingCommands.append("eval") }
            if text.hasPrefix("CROSSSLOT") { crossing = ErrorReply.withoutArguments(text) }
        }
        for key in keys {
            if case .error(let text)? = rest.popFirst(), text.hasPrefix("NOPERM"), Verdict(.error(text)) != .refused {
                missingKeys.append(key)
            }
        }
    }

    /// Throws the first error that is none of those that are judged. EXECABORT comes of the others.
    private mutating func look(at answers: [RedisReply]) throws(RedisError) {
        let expected = [
            "NOPERM", "CROSSSLOT", "OOM", "EXECABORT", "NOSCRIPT", "ERR unknown command", "ERR value is not an integer",
        ]
        for case .error(let text) in answers {
            if !expected.contains(where: text.hasPrefix) { throw .reply(ErrorReply.withoutArguments(text)) }
            if text.hasPrefix("OOM") { shortage = text }
        }
    }

    /// What an answer says of the command's name.
    private enum Verdict {
        case granted, refused, unknown

        /// Redis 6 and 7 word a refusal differently; both name the command, where a refused key is told without.
        init(_ reply: RedisReply) {
            guard case .error(let text) = reply else {
                self = .granted
                return
            }
            let isRefused = text.hasPrefix("NOPERM") && text.firstRange(of: " run ") != nil
            self = isRefused ? .refused : text.hasPrefix("ERR unknown command") ? .unknown : .granted
        }
    }
}
