import RedisQueue

/// Asks Redis whether it lets us in, and whether the keys of the lists are lists.
enum RedisProbe {
    static func run(_ settings: Settings) throws(ProbeFault) -> String {
        let server = settings.redis.server.text
        let types: [String]
        do {
            types = try Self.types(settings)
        } catch {
            throw ProbeFault(error, from: server)
        }
        for (list, type) in zip(settings.lists, types) where type != "list" && type != "none" {
            throw .refused("\(server): the key \(list) is a \(type), not a list")
        }
        return "ok, \(server)"
    }

    /// What each list's key holds.
    private static func types(_ settings: Settings) throws(RedisError) -> [String] {
        // All lists are on one server, and there is at least one.
        var client = try RedisClient(settings: settings.queue(settings.lists[0]))
        var types: [String] = []
        for list in settings.lists {
            guard case .status(let type) = try client.command(["TYPE", list]) else { throw .notRedis("an odd answer to TYPE") }
            types.append(type)
        }
        return types
    }
}

extension ProbeFault {
    /// What a Redis says that will serve us later.
    private static let passing = ["LOADING", "BUSY", "CLUSTERDOWN", "MASTERDOWN", "TRYAGAIN"]

    fileprivate init(_ error: RedisError, from server: String) {
        if case .reply(let text) = error, !Self.passing.contains(where: text.hasPrefix) {
            self = .refused("\(server): \(text)")
        } else {
            self = .unavailable("\(server): \(error)")
        }
    }
}
