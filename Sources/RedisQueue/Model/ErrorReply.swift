/// An error that Redis or a Sentinel replied with, read once where it arrives.
public struct ErrorReply: Sendable, Hashable, CustomStringConvertible {
    public enum Kind: Sendable, Hashable {
        /// NOSCRIPT, after `SCRIPT FLUSH`, a restart or a failover: the script is sent again in full.
        case scriptMissing
        /// A Redis Cluster has the key at another node. The call was not carried out.
        case moved(Node?)
        /// The key's slot is migrating to this node (cluster specification, "ASK redirection").
        case ask(Node?)
        /// TRYAGAIN or CLUSTERDOWN: the call was not carried out, and may succeed a moment later.
        case clusterBusy
        /// NOAUTH.
        case passwordMissing
        case passwordWrong
        /// AUTH was sent to a server without a password.
        case passwordNeedless
        /// NOPERM, for a command or for a key.
        case rightMissing(isCommand: Bool)
        case wrongType
        case crossSlot
        case databaseOutOfRange
        /// A Redis Cluster has database 0 only.
        case databaseInCluster
        case outOfMemory
        /// The blocking command was ended from outside.
        case unblocked
        case unknownCommand
        case wrongArgumentCount
        case notAnInteger
        case transactionAborted
        /// LOADING, BUSY, READONLY, MISCONF and every other error. The worker keeps its state and its jobs, closes the
        /// connection, looks for the server after a pause (`QueueMachine.lost`, `Reconnection.failed`), and repeats the call. So
        /// it finds the new master after a failover, whose old master replies READONLY.
        case other
    }

    /// A node of a Redis Cluster. The host is empty or `?` where it is the host of the node that replied.
    public struct Node: Sendable, Hashable {
        public var host: String
        public var port: Int
    }

    /// BUSYGROUP: the consumer group exists already.
    public var isExistingGroup: Bool { text.hasPrefix("BUSYGROUP ") }

    public let kind: Kind
    /// The reply, its code first, without the arguments of commands: these may be a job or a password.
    public let text: String

    /// - Parameter reply: as Redis sent it.
    public init(_ reply: String) {
        var text = reply
        if let cut = text.firstRange(of: "with args") { text = text[..<cut.lowerBound] + "…" }
        text = ErrorReply.unwrapped(text)
        kind = Kind(text)
        // Redis 7 adds the script's hash and line to an error inside a script. They tell an operator nothing.
        if text.contains(", on @user_script:"), let cut = text.ranges(of: " script: ").last {
            text = String(text[..<cut.lowerBound])
        }
        self.text = text
    }

    /// Returns the error of a command inside a script: before Redis 7 it is
    /// `ERR Error running script (call to f_HASH): @user_script:12: @user_script: 12: -OOM command not allowed`, with one place
    /// or two, and not always with the hyphen.
    private static func unwrapped(_ text: String) -> String {
        guard text.hasPrefix("ERR Error running script") else { return text }
        let place = "@user_script:"
        var error = text[...]
        while let mark = error.firstRange(of: place) {
            let rest = error[mark.upperBound...].drop { $0 == " " || $0.isNumber }
            guard rest.hasPrefix(": ") else { break }
            error = rest.dropFirst(2)
            guard error.hasPrefix(place) else { return String(error.hasPrefix("-") ? error.dropFirst() : error) }
        }
        return text
    }

    /// The first word: `WRONGTYPE`.
    public var code: Substring { text.prefix { $0 != " " } }

    public var description: String {
        switch kind {
        case .crossSlot: text + " (in a Redis Cluster the keys beside a list must be in its slot)"
        case .ask: text + ErrorReply.migration
        case .clusterBusy where text.hasPrefix("TRYAGAIN"): text + ErrorReply.migration
        case .unknownCommand where text.lowercased().contains("eval"): text + " (gaplessd requires scripts: EVAL and EVALSHA)"
        default: text
        }
    }

    private static let migration =
        " (the list's slot is on its way to another node of the cluster; gaplessd waits until it has arrived)"

    /// Whether only an operator can remove the cause: a wrong password, a missing right, a wrong type at a key.
    public var isRefusal: Bool {
        switch kind {
        case .passwordMissing, .passwordWrong, .passwordNeedless, .rightMissing, .wrongType, .crossSlot, .databaseOutOfRange,
            .databaseInCluster:
            true
        default: false
        }
    }

    public var isMissingRight: Bool { if case .rightMissing = kind { true } else { false } }
}

extension ErrorReply.Kind {
    /// Texts that may stand anywhere: before Redis 7, an error inside a script was wrapped in "ERR Error running script".
    private static let anywhere: [(text: String, kind: Self)] = [
        ("NOAUTH", .passwordMissing), ("WRONGPASS", .passwordWrong), ("invalid password", .passwordWrong),
        ("without any password configured", .passwordNeedless), ("no password is set", .passwordNeedless),
        ("can't run this command", .rightMissing(isCommand: true)),
        ("can't access at least one", .rightMissing(isCommand: false)), ("WRONGTYPE", .wrongType), ("CROSSSLOT", .crossSlot),
        ("DB index is out of range", .databaseOutOfRange), ("SELECT is not allowed in cluster mode", .databaseInCluster),
    ]

    private static let prefixes: [(text: String, kind: Self)] = [
        ("NOSCRIPT", .scriptMissing), ("TRYAGAIN", .clusterBusy), ("CLUSTERDOWN", .clusterBusy), ("OOM", .outOfMemory),
        ("UNBLOCKED", .unblocked), ("ERR unknown command", .unknownCommand),
        ("ERR wrong number of arguments", .wrongArgumentCount), ("ERR value is not an integer", .notAnInteger),
        ("EXECABORT", .transactionAborted),
    ]

    fileprivate init(_ text: String) {
        if text.hasPrefix("MOVED ") {
            self = .moved(ErrorReply.Node(redirect: text))
        } else if text.hasPrefix("ASK ") {
            self = .ask(ErrorReply.Node(redirect: text))
        } else if let known = Self.prefixes.first(where: { text.hasPrefix($0.text) }) {
            self = known.kind
        } else if text.contains("NOPERM") || text.hasPrefix("ERR ACL failure in script") {
            // Redis 6, 7 and 8 word it differently. All say "run" of a command and not of a key.
            self = .rightMissing(isCommand: text.contains(" run "))
        } else {
            self = Self.anywhere.first { text.contains($0.text) }?.kind ?? .other
        }
    }
}

extension ErrorReply.Node {
    /// Reads `MOVED 3999 10.0.0.1:6381`; an IPv6 address has no brackets there.
    fileprivate init?(redirect text: String) {
        let words = text.split(separator: " ")
        guard words.count == 3, let colon = words[2].lastIndex(of: ":"),
            let port = Int(words[2][words[2].index(after: colon)...]), (1...65535).contains(port)
        else { return nil }
        self.init(host: String(words[2][..<colon]), port: port)
    }
}
