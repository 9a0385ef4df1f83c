import Platform

/// Collects the entries of one turn of the loop and publishes them before the turn's answers are written.
final class LedgerWriter {
    let ledger: Ledger
    private let detail: LedgerDetail
    private var file: LedgerFile?
    private var entries: [LedgerEntry] = []
    /// `nil` if no recent pushes are kept.
    private let recent: RecentPushes?
    private var pushes: [RecentPush] = []
    var totals = Totals()

    init(_ ledger: Ledger, _ detail: LedgerDetail, filePath: String?, recent: RecentPushes?) throws(SimulatorError) {
        self.ledger = ledger
        self.detail = detail
        self.recent = recent
        if let filePath { file = try LedgerFile(path: filePath) }
    }

    func record(_ verdict: Verdict, _ request: Request, connection: Int, time: Instant) {
        totals.requests += 1
        if case .accepted = verdict { totals.accepted += 1 } else { totals.answers[verdict.label, default: 0] += 1 }
        if recent != nil { pushes.append(RecentPush(request, verdict, time: Int64(WallClock.now().seconds * 1000))) }
        if detail == .counts && file == nil { return }
        let hash = SHA256.hex(request.body)
        file?.add(verdict.status, request, hash)
        guard case .requests(let keepsBodies) = detail else { return }
        entries.append(
            LedgerEntry(
                verdict: verdict, apnsID: request.text(request.idField) ?? "",
                token: String(decoding: request.token, as: UTF8.self),
                topic: request.appRange.map { String(decoding: request.bytes[$0], as: UTF8.self) } ?? request.text(.topic),
                isBroadcast: request.kind == .broadcast,
                pushType: request.text(.pushType), priority: request.text(.priority),
                expiration: request.text(.expiration), collapseID: request.text(.collapseID), bodySHA256: hash,
                body: keepsBodies ? request.body : nil, connection: connection, stream: request.stream, time: time))
    }

    func publish() {
        if totals == Totals() { return }
        ledger.add(totals, entries)
        recent?.add(pushes)
        pushes.removeAll(keepingCapacity: true)
        totals = Totals()
        entries.removeAll(keepingCapacity: true)
    }

    /// The time of the next flush of the file.
    var deadline: Instant? { file?.deadline }

    func flushFile(now: Instant, isLast: Bool = false) {
        guard let due = file?.deadline, isLast || due <= now else { return }
        do throws(SimulatorError) {
            try file?.flush()
        } catch {
            // The simulator continues. `fileError` reports the fault, and the tool prints it.
            ledger.fileFailed(error)
            file = nil
        }
    }
}
