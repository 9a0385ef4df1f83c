/// The folder for data that outlives a start: provider tokens, which APNs allows to change only rarely.
enum StateFolder {
    /// The first `StateDirectory=` of the systemd unit; else `/var/lib/gaplessd` for root, or the folder of the user (XDG base
    /// directories). `nil` if the environment names none.
    static func path(environment: (String) -> String?, isRoot: Bool) -> String? {
        func folder(_ name: String) -> String? { environment(name).flatMap { $0.hasPrefix("/") ? $0 : nil } }
        if let given = folder("STATE_DIRECTORY") { return given.split(separator: ":").first.map(String.init) }
        if isRoot { return "/var/lib/gaplessd" }
        if let state = folder("XDG_STATE_HOME") { return "\(state)/gaplessd" }
        return folder("HOME").map { "\($0)/.local/state/gaplessd" }
    }
}
