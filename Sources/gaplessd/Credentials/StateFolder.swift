/// Where this user's gaplessd keeps what the next start must know: provider tokens, which APNs wants to change seldom.
enum StateFolder {
    /// What systemd made for the unit (`StateDirectory=`, the first where it made several); else root's own place, or a user's
    /// (XDG base directories). `nil` where the environment names none.
    static func path(environment: (String) -> String?, isRoot: Bool) -> String? {
        func folder(_ name: String) -> String? { environment(name).flatMap { $0.hasPrefix("/") ? $0 : nil } }
        if let given = folder("STATE_DIRECTORY") { return given.split(separator: ":").first.map(String.init) }
        if isRoot { return "/var/lib/gaplessd" }
        if let state = folder("XDG_STATE_HOME") { return "\(state)/gaplessd" }
        return folder("HOME").map { "\($0)/.local/state/gaplessd" }
    }
}
