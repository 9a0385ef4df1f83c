import ArgumentParser

/// The option that selects one of the lists in `redis_queue_key`.
struct ListOption: ParsableArguments {
    @Option(parsing: .unconditional, help: ArgumentHelp("Use only this list of redis_queue_key.", valueName: "NAME"))
    var list: String?

    /// Returns the selected list, or all lists.
    func lists(of settings: Settings, call: String) throws -> [String] {
        guard let list else { return settings.lists }
        guard settings.lists.contains(list) else {
            let known = settings.lists.map(\.printable).joined(separator: ", ")
            throw ExitCode.wrongUsage("--list: '\(list.printable)' is not in redis_queue_key (\(known)).", of: call)
        }
        return [list]
    }
}
