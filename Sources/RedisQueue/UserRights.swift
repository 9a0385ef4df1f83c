/// What the user that we are may do with the keys of one list.
///
/// Everything a worker sends is put between MULTI and DISCARD, where Redis looks whether the user may, and carries out nothing.
public struct UserRights: Sendable, Equatable {
    /// Without these no job is delivered, or one might be lost.
    public private(set) var missingCommands: [String] = []
    public private(set) var missingKeys: [String] = []
    /// The slot of the list does not hold all keys: what Redis said.
    public private(set) var crossing: String?
    /// What a worker does without, in sentences.
    public private(set) var remarks: [String] = []

    /// What is wrong, in sentences.
    public var faults: [String] {
        var faults: [String] = []
        if !missingCommands.isEmpty { faults.append("this user may not run \(missingCommands.joined(separator: ", "))") }
        for key in missingKeys { faults.append("this user may not read and write the key \(key)") }
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

    /// What a worker tries and can do without, and what is lost then.
    static func luxuries(_ mode: QueueSettings.DeliveryMode) -> [(command: String, loss: String)] {
        let info = ("INFO", "dangerous settings of Redis are not warned of")
        if mode == .atMostOnce { return [info] }
        return [info, ("BLMOVE Q Q LEFT LEFT 1", "the list is asked again and again instead of waited for")]
    }

    public static func read(_ client: inout RedisClient, _ settings: QueueSettings) throws(RedisError) -> UserRights {
        let keys = Keys(list: settings.list)
        // In a cluster this is also the way to the node that has the list.
        _ = try client.command(["TYPE", keys.list])
        var rights = UserRights()
        guard try begin(&client, &rights) else { return rights }
        let needed = commands(settings.mode, hasResults: settings.resultsKey != nil)
        let wanted = luxuries(settings.mode)
        let touched = allKeys(keys, settings)
        let whole = [["EVAL", "return 1", String(touched.count)] + touched]
        let each = touched.map { ["EVAL", "return 1", "1", $0] }
        let questions = (needed + wanted.map(\.command)).map { words($0, keys) }
        let answers = try client.pipeline(questions + whole + each + [["DISCARD"]])
        for case .error(let text) in answers where !isExpected(text) { throw .reply(ServerFault.withoutArguments(text)) }
        rights.judge(answers[...], needed: needed.map(name), wanted: wanted, keys: touched)
        return rights
    }

    /// Only once Redis has said yes to MULTI: what follows would be carried out otherwise.
    private static func begin(_ client: inout RedisClient, _ rights: inout UserRights) throws(RedisError) -> Bool {
        do throws(RedisError) {
            _ = try client.command(["MULTI"])
            return true
        } catch {
            guard case .reply(let text) = error, text.hasPrefix("NOPERM") else { throw error }
            rights.remarks = ["the user's rights were not looked at: it may not run MULTI"]
            return false
        }
    }

    private static func allKeys(_ keys: Keys, _ settings: QueueSettings) -> [String] {
        [keys.list, keys.workers, keys.delayed, keys.dead, keys.feedback, keys.stats, keys.nothing] + keys.recovered
            + [keys.inflight("x"), keys.worker("x")] + [settings.resultsKey].compactMap(\.self)
    }

    private static func words(_ command: String, _ keys: Keys) -> [String] {
        command.split(separator: " ").map { $0 == "K" ? keys.nothing : $0 == "Q" ? keys.list : String($0) }
    }

    private static func name(_ command: String) -> String { String(command.prefix { $0 != " " }).lowercased() }

    private mutating func judge(
        _ answers: ArraySlice<RedisReply>, needed: [String], wanted: [(command: String, loss: String)], keys: [String]
    ) {
        var rest = answers
        for name in needed where UserRights.isCommandRefused(rest.popFirst()) { missingCommands.append(name) }
        for luxury in wanted {
            let (answer, name) = (rest.popFirst(), UserRights.name(luxury.command))
            if UserRights.isCommandRefused(answer) { remarks.append("this user may not run \(name): \(luxury.loss)") }
            if UserRights.isUnknown(answer) { remarks.append("this Redis has no \(name): \(luxury.loss)") }
        }
        if case .error(let text)? = rest.popFirst() {
            if UserRights.isCommandRefused(.error(text)) { missingCommands.append("eval") }
            if text.hasPrefix("CROSSSLOT") { crossing = ServerFault.withoutArguments(text) }
        }
        for key in keys {
            if case .error(let text)? = rest.popFirst(), text.hasPrefix("NOPERM"), !UserRights.isCommandRefused(.error(text)) {
                missingKeys.append(key)
            }
        }
    }

    /// Whether the error is one that is judged, or one that a worker gets on with: out of memory. EXECABORT comes of the others.
    private static func isExpected(_ text: String) -> Bool {
        ["NOPERM", "CROSSSLOT", "OOM", "EXECABORT", "ERR unknown command"].contains(where: text.hasPrefix)
    }

    /// Redis 6 and 7 word it differently; both name the command, where a refused key is told without.
    private static func isCommandRefused(_ reply: RedisReply?) -> Bool {
        if case .error(let text)? = reply { text.hasPrefix("NOPERM") && text.firstRange(of: " run ") != nil } else { false }
    }

    private static func isUnknown(_ reply: RedisReply?) -> Bool {
        if case .error(let text)? = reply { text.hasPrefix("ERR unknown command") } else { false }
    }
}
