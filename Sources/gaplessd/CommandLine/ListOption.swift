import ArgumentParser

/// One of the lists of the settings, where a call means only one.
struct ListOption: ParsableArguments {
    @Option(parsing: .unconditional, help: ArgumentHelp("Of several lists in redis_queue_key, this one.", valueName: "NAME"))
    var list: String?

    /// The lists that are meant: the one that was named, or all.
    func lists(of settings: Settings, call: String) throws -> [String] {
        guard let list else { return settings.lists }
        guard settings.lists.contains(list) else {
            let known = settings.lists.map(\.printable).joined(separator: ", ")
            throw ExitCode.wrongUsage("--list: '\(list.printable)' is not in redis_queue_key (\(known)).", of: call)
        }
        return [list]
    }
}
