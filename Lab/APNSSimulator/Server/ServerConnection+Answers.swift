import Clocks

/// What a connection does about requests, and what becomes due.
extension ServerConnection {
    func answer(_ slot: Int, _ http: HTTP2Server, _ desk: AnswerDesk) {
        if http[slot].isAboutChannels {
            lastRequest = desk.now
            return http.reply(slot: slot, desk.manage(&http[slot], of: &peer))
        }
        requestCount += 1
        let interval = desk.behaviour.goAwayEvery
        let isLast = interval > 0 && requestCount % interval == 0
        let planned = desk.answer(&http[slot], of: &peer, on: number)
        let idle = idleAnswer(desk)
        perform(idle ?? planned, slot, http, desk)
        guard phase == .open, !isDeaf else { return }
        if isLast { goAway(GoAway(), answering: nil, desk) }
        if idle == .reason(.idleTimeout) { goAway(.reason(.idleTimeout), answering: nil, desk) }
    }

    /// Something whose time has come.
    func perform(_ due: AnswerDesk.Due, _ desk: AnswerDesk) {
        switch due {
        case .answer(let answer, let stream): answerDelayed(answer, stream, desk)
        case .goAway(let frame): goAway(frame, answering: nil, desk)
        case .endOfLinger: phase = .over
        case .idleCheck: checkIdleness(desk)
        case .newLimit: changeLimit(desk)
        }
    }

    /// The client may have given up the stream.
    private func answerDelayed(_ answer: Answer, _ stream: Int32, _ desk: AnswerDesk) {
        guard let http, !isDeaf, phase == .open || phase == .closing, let slot = http.slot(of: stream) else { return }
        perform(answer, slot, http, desk)
    }

    private func perform(_ answer: Answer, _ slot: Int, _ http: HTTP2Server, _ desk: AnswerDesk) {
        switch answer {
        case .accept:
            record(.accepted(isAnswered: true), slot, http, desk)
            http.accept(slot: slot, uniqueID: desk.uniqueID())
            if !isTrusted || http.streamLimit == 1 { restoreLimit(http, desk) }
        case .status(let status, let reason, let timestamp, let retryAfter):
            record(.refused(status: status, reason: reason), slot, http, desk)
            let body = desk.body(status: status, reason: reason, timestamp: timestamp)
            http.refuse(slot: slot, status: status, body: body, uniqueID: desk.uniqueID(), retryAfter: retryAfter)
            let counts = (400..<500).contains(status) && status != 410
            if counts && desk.behaviour.dropsLimitAfterRejection { http.submitSettings(streams: 1, isFirst: false) }
        case .silent:
            record(.silent, slot, http, desk)
        case .delay(let duration, let then):
            // Not the turn's clock: the request may have come in after it was read.
            desk.due.add((number, .answer(then, stream: http[slot].stream)), at: .now + duration)
        case .resetStream(let code):
            record(.streamReset(code: code), slot, http, desk)
            http.reset(stream: http[slot].stream, code: code)
        case .closeConnection(let isRecorded):
            record(isRecorded ? .accepted(isAnswered: false) : .connectionCut, slot, http, desk)
            finish(isReset: true)
        case .halfOpen(let isRecorded):
            record(isRecorded ? .accepted(isAnswered: false) : .halfOpen, slot, http, desk)
            goDeaf(desk)
        case .goAway(let frame, let next):
            goAway(frame, answering: slot, desk)
            if let next { follow(frame, by: next, desk) }
        }
    }

    private func record(_ verdict: Verdict, _ slot: Int, _ http: HTTP2Server, _ desk: AnswerDesk) {
        if case .accepted = verdict { highestAccepted = max(highestAccepted, http[slot].stream) }
        desk.writer.record(verdict, http[slot], connection: number, time: desk.now)
    }

    // MARK: Limits

    private func restoreLimit(_ http: HTTP2Server, _ desk: AnswerDesk) {
        isTrusted = true
        let limit = currentLimit(desk.behaviour)
        if http.streamLimit != Int(limit) { http.submitSettings(streams: limit, isFirst: false) }
    }

    /// Sees to it that what depends on time is looked at in time.
    func scheduleChecks(_ behaviour: Behaviour, _ desk: AnswerDesk) {
        if let limit = behaviour.idleLimit, !hasIdleCheck {
            hasIdleCheck = true
            desk.due.add((number, .idleCheck), at: lastRequest + limit)
        }
        if behaviour.limitWalk == nil { wanderingLimit = nil }
        if let walk = behaviour.limitWalk, !hasLimitCheck {
            hasLimitCheck = true
            desk.due.add((number, .newLimit), at: desk.now + walk.interval)
        }
    }

    private func changeLimit(_ desk: AnswerDesk) {
        hasLimitCheck = false
        guard let walk = desk.behaviour.limitWalk, http != nil, !isDeaf, phase == .open else { return }
        wanderingLimit = desk.limit(of: walk)
        adopt(desk.behaviour, desk)
    }

    // MARK: Idleness

    private func idleAnswer(_ desk: AnswerDesk) -> Answer? {
        defer { lastRequest = desk.now }
        guard let limit = desk.behaviour.idleLimit else { return nil }
        if desk.now - lastRequest >= limit { isStale = true }
        switch desk.behaviour.idleFault {
        case .badRequest where isStale: return .reason(.idleTimeout)
        case .internalError where isStale: return .reason(.internalServerError)
        default: return nil
        }
    }

    private func checkIdleness(_ desk: AnswerDesk) {
        hasIdleCheck = false
        guard let limit = desk.behaviour.idleLimit, desk.behaviour.idleFault == .goAway, let http, !isDeaf, phase == .open else {
            return
        }
        if http.openStreams > 0 { lastRequest = desk.now }
        if desk.now - lastRequest >= limit { return goAway(.reason(.idleTimeout), answering: nil, desk) }
        hasIdleCheck = true
        desk.due.add((number, .idleCheck), at: lastRequest + limit)
    }

    // MARK: GOAWAY

    func sendGoAway(_ frame: GoAway, _ desk: AnswerDesk) { goAway(frame, answering: nil, desk) }

    /// Streams from `stream` on were never looked at.
    func sendGoAway(_ frame: GoAway, before stream: Int32, _ desk: AnswerDesk) {
        guard let http else { return }
        announce(frame, last: max(stream - 2, highestAccepted, 0), http, desk)
    }

    /// The second of two frames: at once, or in a while after the graceful notice.
    func follow(_ frame: GoAway, by next: GoAway, _ desk: AnswerDesk) {
        if frame.last == .notice {
            desk.due.add((number, .goAway(next)), at: .now + GoAway.followUp)
        } else {
            goAway(next, answering: nil, desk)
        }
    }

    func goAway(_ frame: GoAway, answering slot: Int?, _ desk: AnswerDesk) {
        guard let http, !isDeaf, phase == .open || phase == .closing else { return }
        let stream = slot.map { http[$0].stream } ?? http.highestStream + 2
        let last: Int32 =
            switch frame.last {
            case .all, .notice: http.highestStream
            case .belowThis: max(stream - 2, highestAccepted, 0)
            case .middle: middle(below: stream)
            case .zero: 0
            }
        if let slot {
            if frame.isAbrupt {
                record(.goneAway, slot, http, desk)
            } else if frame.last == .all || frame.last == .notice {
                record(.accepted(isAnswered: true), slot, http, desk)
                http.accept(slot: slot, uniqueID: desk.uniqueID())
            } else {
                record(.goneAway, slot, http, desk)
                // Something above it was accepted, so that the GOAWAY cannot say that this was not.
                if stream <= last { http.reset(stream: stream, code: 7) }
            }
        }
        announce(frame, last: last, http, desk)
    }

    /// Halfway from what was accepted to the stream before this one: the odd number of a stream, or 0.
    private func middle(below stream: Int32) -> Int32 {
        let first = highestAccepted > 0 ? highestAccepted : -1
        return max(first + max(0, stream - 2 - first) / 4 * 2, 0)
    }

    private func announce(_ frame: GoAway, last: Int32, _ http: HTTP2Server, _ desk: AnswerDesk) {
        desk.writer.totals.goAways += 1
        if frame.last == .notice { return http.giveNotice() }
        http.goAway(last: last, code: frame.code, debugData: Array(frame.debugData.utf8))
        phase = .closing
        endsAbruptly = endsAbruptly || frame.isAbrupt
        // From now on the streams above are closed: requests on them that are here already must not be accepted.
        http.pump(into: &output)
    }
}

extension Request {
    /// Looked at for every request: one byte tells most of them apart.
    var isAboutChannels: Bool {
        guard let path = range(of: .path), path.count > Request.channelPath.count else { return false }
        return bytes[path.lowerBound + 1] == Request.channelPath[1] && bytes[path].starts(with: Request.channelPath)
    }
}
