/// The places that a turn offers to the lists: the number of jobs, of any app, that could go out now.
struct FreePlaces {
    private var free = 0
    private var mostPerList = Int.max

    /// Adds the places of an app, and its room for jobs beyond them: a claim cannot choose the apps of its jobs.
    mutating func add(_ places: Int, room: Int) {
        free += places
        mostPerList = min(mostPerList, room)
    }

    /// Reduces the places to what a limit of all apps together allows.
    mutating func limit(_ allowed: (Int) -> Int) { free = allowed(free) }

    /// Returns the number of jobs to claim from the list.
    func offer(to list: ListState) -> Int { min(list.places(free), mostPerList) }

    /// Lists of lower priority get no more.
    mutating func close() { free = 0 }
}
