/// The commands that a new connection to a server or a Sentinel begins with.
enum Login {
    /// A command, by the replies that it may get.
    enum Step: Equatable {
        /// AUTH.
        case password
        /// SELECT, PING.
        case plain
        /// ROLE. The reply has to be that of a master.
        case role

        /// The error that the reply is. That of AUTH keeps only its code.
        func error(in reply: RedisReply) -> RedisError? {
            guard case .error(let error) = reply else { return nil }
            return self == .password ? .authenticationRefused(by: error) : .reply(error)
        }
    }

    static func commands(_ settings: QueueSettings) -> [(Step, Arguments)] {
        var commands: [(Step, Arguments)] = []
        if let command = authentication(settings.username, settings.password) { commands.append((.password, command)) }
        if settings.database != 0 { commands.append((.plain, Arguments(["SELECT", String(settings.database)]))) }
        commands.append((.plain, Arguments(["PING"])))
        // Sentinels may lag behind: the server itself has to confirm that it is a master.
        if case .sentinels = settings.server { commands.append((.role, Arguments(["ROLE"]))) }
        return commands
    }

    /// AUTH at a Sentinel; `nil` where no password is set.
    static func sentinelAuthentication(_ settings: QueueSettings) -> Arguments? {
        if settings.sentinelPassword == nil { return authentication(settings.username, settings.password) }
        return authentication(settings.sentinelUsername, settings.sentinelPassword)
    }

    private static func authentication(_ username: String?, _ password: String?) -> Arguments? {
        guard let password else { return nil }
        return Arguments(username.map { ["AUTH", $0, password] } ?? ["AUTH", password])
    }
}
