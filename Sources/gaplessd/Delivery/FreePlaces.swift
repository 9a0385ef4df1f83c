/// The places that a turn offers to the lists: the number of jobs that could go out now.
struct FreePlaces {
    /// Of all apps together.
    private var free = 0
    /// By app; empty while no app has a side list.
    private var ofApps: [Int] = []
    /// Whether an app has a side list: then its places are not for the jobs of Q.
    var isDivided = false

    /// Adds the places of the next app.
    mutating func add(_ places: Int) {
        free += places
        if isDivided { ofApps.append(places) }
    }

    /// Reduces the places to what a limit of all apps together allows.
    mutating func limit(_ allowed: (Int) -> Int) {
        let all = free
        free = allowed(all)
        if free >= all { return }
        // Each app keeps its share, rounded up: no app waits for the others.
        for app in ofApps.indices { ofApps[app] = (ofApps[app] * free + all - 1) / all }
    }

    /// Returns the number of jobs to claim from a list in which the apps for which `isAside` holds have side lists.
    func all(besides isAside: (Int) -> Bool) -> Int {
        if !isDivided { return free }
        var places = 0
        for app in ofApps.indices where !isAside(app) { places += ofApps[app] }
        return places
    }

    /// Takes the places of one app.
    mutating func take(app: Int) -> Int {
        if !ofApps.indices.contains(app) { return 0 }
        defer { ofApps[app] = 0 }
        return ofApps[app]
    }

    /// Lists of lower priority get no more.
    mutating func close() {
        free = 0
        for app in ofApps.indices { ofApps[app] = 0 }
    }
}
