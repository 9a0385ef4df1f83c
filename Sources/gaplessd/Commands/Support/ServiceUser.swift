import Glibc

/// The user of the service, for a call of root: the owner of the folder with the provider tokens.
struct ServiceUser {
    private let name: String
    private let id: uid_t
    private let groups: Set<gid_t>

    /// `nil` unless this process belongs to root and the folder to another user.
    init?(_ stateFolder: String?) {
        var folder = stat()
        guard geteuid() == 0, let stateFolder, unsafe stat(stateFolder, &folder) == 0, folder.st_uid != 0 else { return nil }
        id = folder.st_uid
        guard let entry = unsafe getpwuid(id) else {
            // A dynamic user of systemd exists only while the service runs.
            (name, groups) = ("with the id \(id)", [folder.st_gid])
            return
        }
        name = unsafe String(cString: entry.pointee.pw_name)
        var members = [gid_t](repeating: 0, count: 256)
        var count = CInt(members.count)
        let isWhole = unsafe getgrouplist(entry.pointee.pw_name, entry.pointee.pw_gid, &members, &count) >= 0
        groups = Set(members.prefix(isWhole ? Int(count) : members.count) + [folder.st_gid])
    }

    /// One line for each file of the settings that this user cannot read by its mode, or by that of a folder above it.
    func warnings(_ configuration: Configuration) -> [String] {
        // systemd copies these for the service (LoadCredential=).
        let loaded = unsafe getenv("CREDENTIALS_DIRECTORY").map { unsafe String(cString: $0) + "/" }
        return configuration.files.sorted().compactMap { path in
            if let loaded, path.hasPrefix(loaded) { return nil }
            guard FileStamp(path: path) != nil, let obstacle = obstacle(to: path) else { return nil }
            let place = obstacle == path ? "" : " (see the mode of \(obstacle.printable))"
            return "\(path.printable) is readable for root, but not for the service user \(name)\(place); "
                + "change its owner, group or mode, or use LoadCredential= of systemd"
        }
    }

    /// The file, or the first folder above it, that does not admit this user.
    private func obstacle(to path: String) -> String? {
        var folder = path.hasPrefix("/") ? "" : "."
        let parts = path.split(separator: "/")
        for part in parts.dropLast() {
            folder += "/\(part)"
            if !admits(folder, read: false) { return folder }
        }
        return admits(path, read: true) ? nil : path
    }

    /// - Parameter read: whether reading is asked for, or passing a folder.
    private func admits(_ path: String, read: Bool) -> Bool {
        var facts = stat()
        guard unsafe stat(path, &facts) == 0 else { return true }
        let bit: mode_t = read ? 4 : 1
        let shift: mode_t = facts.st_uid == id ? 6 : groups.contains(facts.st_gid) ? 3 : 0
        return facts.st_mode >> shift & bit != 0
    }
}
