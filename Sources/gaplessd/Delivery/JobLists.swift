import DequeModule
import Platform
import RedisQueue

/// The queues of all lists, in the order of the settings.
struct JobLists: ~Copyable {
    private var queues = UniqueDeque<JobQueue>()
    /// The name of this worker at each list.
    let workers: [String]

    init(_ configuration: Configuration) {
        let resolver = NameResolver(thread: "redis names")
        var workers: [String] = []
        for settings in configuration.settings.queues {
            let queue = JobQueue(settings: settings, version: gaplessdVersion, tls: configuration.redisTLS, resolver: resolver)
            workers.append(queue.worker)
            queues.append(queue)
        }
        self.workers = workers
    }

    var indices: Range<Int> { queues.indices }
    var count: Int { queues.count }

    subscript(list: Int) -> JobQueue {
        _read { yield queues[list] }
        _modify { yield &queues[list] }
    }

    mutating func addInterests(to poller: inout Poller) { for list in indices { queues[list].addInterests(to: &poller) } }

    /// The time of the next turn of a list.
    var deadline: Instant? {
        mutating get {
            var next = Earliest()
            for list in indices { next.consider(queues[list].deadline) }
            return next.instant
        }
    }

    /// The earliest end of a lease. A list in doubt has none, because its jobs are withdrawn.
    var sendingDeadline: Instant? {
        mutating get {
            var next = Earliest()
            for list in indices { next.consider(queues[list].sendingDeadline) }
            return next.instant
        }
    }

    /// The server of a list that has just connected, if the settings do not name it.
    func discoveredServer(after event: QueueEvent, list: Int) -> Endpoint? {
        if case .connected = event { queues[list].discoveredServer } else { nil }
    }

    mutating func adopt(_ new: Configuration) {
        for list in indices { queues[list].adopt(new.settings.queues[list], tls: new.redisTLS) }
    }

    mutating func stop() { for list in indices { queues[list].stop() } }

    /// Adds what only the lists know.
    mutating func complete(_ snapshot: inout ProcessSnapshot, now: Instant) {
        for list in indices {
            snapshot.lists[list].sinceContact = queues[list].lastContact.map { now - $0 }
            snapshot.lists[list].latency = queues[list].latency(now: now)
            snapshot.lists[list].hasBacklog = queues[list].wantsPlaces(now: now)
        }
    }
}
