import Platform

/// The rules of `/healthz` and `/readyz`.
enum Readiness {
    /// A dispatcher that has published nothing for this long is stalled: it publishes at least once a second.
    static let timeout = Duration.seconds(10)

    /// - Parameter started: the start of the wait for the first notice.
    static func isAlive(_ notice: ProcessBoard.Notice?, started: Instant, now: Instant) -> Bool {
        now - (notice?.at ?? started) < timeout
    }

    /// Returns one sentence for each pause. A pause is a decision of the operator, not a fault.
    static func pauses(_ notice: ProcessBoard.Notice?) -> [String] {
        (notice?.snapshot.lists ?? []).flatMap { list in
            list.pauses.map { "list \(list.name.printable): \($0.scopedSentence.printable)" }
        }
    }

    /// Returns one sentence for each reason why pushes are not sent.
    static func faults(_ notice: ProcessBoard.Notice?, now: Instant) -> [String] {
        guard let notice else { return ["starting"] }
        let snapshot = notice.snapshot
        var faults: [String] = []
        if now - notice.at >= timeout {
            faults.append("dispatcher loop stalled for \((now - notice.at).roundedSeconds) s")
        }
        if snapshot.isLeaving { faults.append("stopping: no new jobs are claimed") }
        for list in snapshot.lists {
            if !list.isConnected {
                faults.append("list \(list.name.printable): no connection to Redis")
            } else if list.isInDoubt {
                faults.append("list \(list.name.printable): Redis has not responded for most of the lease")
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
