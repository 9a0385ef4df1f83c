/// What an error reply means for who sent the call.
enum ErrorReply: Equatable {
    /// `SCRIPT FLUSH`, a restart, a failover: the script is sent again in full.
    case scriptMissing
    /// Only somebody with rights on the server can mend it: a wrong password, a missing right, a wrong type at a key.
    case refusal
    /// A Redis Cluster has the key at another node, which the text names. The call was not carried out.
    case moved
    /// LOADING, BUSY, READONLY, MISCONF, TRYAGAIN and everything unforeseen: state is kept, and it is tried again.
    case passing

    init(_ text: String) {
        if text.hasPrefix("NOSCRIPT") {
            self = .scriptMissing
        } else if text.hasPrefix("MOVED ") {
            self = .moved
        } else if ErrorReply.refusals.contains(where: text.contains) {
            // Not only as a prefix: before Redis 7 an error inside a script was wrapped in "ERR Error running script".
            self = .refusal
        } else {
            self = .passing
        }
    }

    private static let refusals = [
        "NOAUTH", "WRONGPASS", "NOPERM", "WRONGTYPE", "invalid password", "can't run this command", "can't access at least one",
        "DB index is out of range", "AUTH was refused", "CROSSSLOT", "SELECT is not allowed in cluster mode",
        "knows no master of this name", "is no Sentinel",
    ]

    /// Whether a Redis Cluster is busy with itself: the call was not carried out, and may be a moment later.
    static func isClusterAtWork(_ text: String) -> Bool {
        ["TRYAGAIN", "CLUSTERDOWN", "ASK "].contains(where: text.hasPrefix)
    }

    /// An error reply fit for a log: Redis quotes the arguments of an unknown command, which may be a job or a password.
    static func withoutArguments(_ text: String) -> String {
        if text.hasPrefix("CROSSSLOT") {
            return text + " (in a Redis Cluster the keys beside a list must be in its slot)"
        }
        if text.hasPrefix("ASK ") || text.hasPrefix("TRYAGAIN") {
            return text + " (the list's slot is on its way to another node of the cluster, and waits until it is there)"
        }
        if let cut = text.firstRange(of: "with args") { return text[..<cut.lowerBound] + "…" }
        // What Redis 7 adds to an error inside a script: the script's hash and line, which tell an operator nothing.
        guard let cut = text.firstRange(of: " script: ") else { return text }
        return String(text[..<cut.lowerBound])
    }
}
