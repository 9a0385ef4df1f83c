import Clocks
import Threads

/// Whether this process lives, and whether it can do its work: `/healthz` and `/readyz`.
enum Readiness {
    /// A dispatcher that has told nothing for so long is stuck: it turns at least once a second.
    static let patience = Duration.seconds(10)

    /// - Parameter started: since when there is to be a first notice.
    static func isAlive(_ notice: ProcessBoard.Notice?, started: Instant, now: Instant) -> Bool {
        now - (notice?.at ?? started) < patience
    }

    /// Why pushes do not go out, one sentence each; empty where all is well.
    static func faults(_ notice: ProcessBoard.Notice?, now: Instant) -> [String] {
        guard let notice else { return ["starting"] }
        let snapshot = notice.snapshot
        var faults: [String] = []
        if now - notice.at >= patience {
            faults.append("the dispatcher has not turned for \((now - notice.at).roundedSeconds) s")
        }
        if snapshot.isLeaving { faults.append("stopping: nothing new is claimed") }
        for list in snapshot.lists {
            if !list.isConnected {
                faults.append("list \(list.name.printable): no connection to Redis")
            } else if list.isInDoubt {
                faults.append("list \(list.name.printable): no word from Redis for most of the lease")
            }
        }
        for app in snapshot.apps {
            if let hold = app.hold {
                faults.append("app \(app.label.printable) is held: \(hold.sentence.printable)")
            } else if app.capacity == 0 {
                faults.append("app \(app.label.printable): no open session to APNs")
            }
        }
        return faults
    }
}
