/// Interprets the peer's frames (RFC 9113, 6). Every violation by the peer is a fault that GOAWAY reports.
extension HTTP2Codec {
    /// Processes bytes from the peer; `takeEvents` returns the resulting events.
    mutating func receive(_ bytes: Span<UInt8>) {
        if failure != nil { return }
        do throws(HTTP2Error) {
            var place = 0
            while let frame = try reader.next(in: bytes, from: &place) {
                if frame.isHeld {
                    let held = reader.takeHeld()
                    try handle(frame.header, held.span.extracting(frame.payload))
                    reader.giveBack(held)
                } else {
                    try handle(frame.header, bytes.extracting(frame.payload))
                }
            }
            sendWaiting()
        } catch {
            failure = error
            out.goAway(error.code, debugData: error.text)
        }
    }

    private mutating func handle(_ header: FrameHeader, _ payload: Span<UInt8>) throws(HTTP2Error) {
        switch header.type {
        case .data: try dataCame(header, payload)
        case .headers:
            if let slot = try slot(of: header.stream) { streams[slot].response.beginBlock() }
            block = (header.stream, header.flags.contains(.endStream))
            try blockCame(header, payload)
        case .continuation: try blockCame(header, payload)
        case .resetStream:
            if let slot = try slot(of: header.stream) { resetCame(slot, code: payload.number(at: 0)) }
        case .settings: try settingsCame(header, payload)
        case .ping: try pingCame(header, payload)
        case .goAway: goAwayCame(payload)
        case .windowUpdate: try windowUpdateCame(header.stream, Int(payload.number(at: 0) & 0x7FFF_FFFF))
        // PRIORITY is obsolete, PUSH_PROMISE is rejected by the reader, and unknown types are ignored (RFC 9113, 5.5).
        case .priority, .pushPromise, nil: return
        }
    }

    /// Returns the slot of a stream, or `nil` if it is closed. Throws for a stream that was never opened.
    private func slot(of stream: StreamID) throws(HTTP2Error) -> Int? {
        guard stream.isOpenedByClient && stream <= lastOpened else {
            throw HTTP2Error(.protocolError, "a frame on stream \(stream), which is idle")
        }
        return streams.slot(of: stream)
    }

    // MARK: Responses

    private mutating func blockCame(_ header: FrameHeader, _ fragment: Span<UInt8>) throws(HTTP2Error) {
        let isLast = header.flags.contains(.endHeaders)
        guard let slot = streams.slot(of: block.stream) else {
            // The stream is closed, but its header block still changes the HPACK table.
            var nobody = IncomingResponse(collectsAPNSID: false)
            return try inflater.inflate(fragment, isLast: isLast, into: &nobody)
        }
        try inflater.inflate(fragment, isLast: isLast, into: &streams[slot].response)
        if isLast && block.endsStream { answerEnded(slot) }
    }

    private mutating func dataCame(_ header: FrameHeader, _ payload: Span<UInt8>) throws(HTTP2Error) {
        if let increment = receiveWindow.take(header.length) { out.windowUpdate(0, by: increment) }
        guard let slot = try slot(of: header.stream) else { return }
        streams[slot].response.append(payload)
        if header.flags.contains(.endStream) { return answerEnded(slot) }
        if let increment = streams[slot].window.take(header.length) { out.windowUpdate(header.stream, by: increment) }
    }

    /// A server may respond before it has the whole request (RFC 9113, 8.1): the rest of the request is dropped.
    private mutating func answerEnded(_ slot: Int) {
        if streams[slot].unsent != nil { out.resetStream(streams[slot].stream, .cancel) }
        closeAnswered(slot)
    }

    private mutating func resetCame(_ slot: Int, code: UInt32) {
        if code == HTTP2ErrorCode.noError.rawValue { closeAnswered(slot) } else { close(slot, reset: code) }
    }

    private mutating func closeAnswered(_ slot: Int) {
        let stream = streams[slot].stream
        switch streams[slot].response.status {
        case 200..<300: events.append(.delivered(slot: slot, stream: stream, apnsID: streams[slot].response.apnsID))
        case 300...:
            let answer = streams[slot].response
            let response = Response(
                status: answer.status, apnsID: answer.apnsID, retryAfter: answer.retryAfter, body: answer.body)
            events.append(.rejected(slot: slot, stream: stream, response))
        // A response without a final status is malformed (RFC 9113, 8.3.2).
        default: return close(slot, reset: HTTP2ErrorCode.protocolError.rawValue)
        }
        streams.end(slot)
    }

    // MARK: The connection's frames

    private mutating func settingsCame(_ header: FrameHeader, _ payload: Span<UInt8>) throws(HTTP2Error) {
        if header.flags.contains(.ack) { return }
        if !hasSettings { peerLimit = Int(UInt32.max) }
        hasSettings = true
        for place in stride(from: 0, to: payload.count, by: 6) {
            let name = UInt16(payload[place]) << 8 | UInt16(payload[place + 1])
            if let parameter = SettingsParameter(rawValue: name) { try apply(parameter, payload.number(at: place + 2)) }
        }
        try acknowledge()
        out.settingsAcknowledgement()
        events.append(.settings(maxConcurrentStreams: peerLimit))
        giveBackWhatExceedsLimit()
    }

    private mutating func apply(_ parameter: SettingsParameter, _ value: UInt32) throws(HTTP2Error) {
        switch parameter {
        case .headerTableSize: encoder.setTableLimit(Int(value))
        case .enablePush:
            guard value == 0 else { throw HTTP2Error(.protocolError, "a server that enables push") }
        case .maxConcurrentStreams: peerLimit = Int(value)
        case .initialWindowSize:
            let most = max(0, streams.indices.map { streams[$0].credit }.max() ?? 0)
            guard Int(value) + most <= FlowWindow.most else {
                throw HTTP2Error(.flowControlError, "INITIAL_WINDOW_SIZE \(value)")
            }
            initialWindow = Int(value)
        case .maxFrameSize:
            // Frames stay at the minimum size whatever the peer allows.
            guard (16_384...16_777_215).contains(value) else {
                throw HTTP2Error(.protocolError, "MAX_FRAME_SIZE \(value)")
            }
        }
    }

    /// Returns waiting requests beyond a lowered limit at once: another session may have free streams.
    private mutating func giveBackWhatExceedsLimit() {
        while let last = waiting.last, streams.openCount + waiting.count > peerLimit {
            waiting.removeLast()
            close(last.slot, reset: HTTP2ErrorCode.refusedStream.rawValue)
        }
    }

    private mutating func pingCame(_ header: FrameHeader, _ payload: Span<UInt8>) throws(HTTP2Error) {
        let number = UInt64(payload.number(at: 0)) << 32 | UInt64(payload.number(at: 4))
        if header.flags.contains(.ack) { return events.append(.pingAnswered(number)) }
        try acknowledge()
        out.ping(number, .ack)
    }

    /// Counts one more ACK. A peer that requests ACKs without reading them must not fill the memory.
    private mutating func acknowledge() throws(HTTP2Error) {
        acknowledgements = out.count == 0 ? 1 : acknowledgements + 1
        guard acknowledgements <= Self.mostAcknowledgements else {
            throw HTTP2Error(.enhanceYourCalm, "\(acknowledgements) PINGs and SETTINGS at once")
        }
    }

    /// The peer processed no stream above `last` and will process no new one (RFC 9113, 6.8). It may repeat this with a lower
    /// id.
    private mutating func goAwayCame(_ payload: Span<UInt8>) {
        let last = StreamID(field: payload.number(at: 0))
        let debugData = (8..<min(payload.count, 8 + ResponseBody.mostBytes)).map { payload[$0] }
        events.append(.goAway(last: last, code: payload.number(at: 4), debugData: debugData))
        isClosing = true
        waiting.removeAll()
        for stream in streams.streams {
            guard let slot = streams.slot(of: stream), stream > last || !streams[slot].isSent else { continue }
            close(slot, reset: HTTP2ErrorCode.refusedStream.rawValue)
        }
    }

    /// - Parameter stream: 0 for the connection.
    private mutating func windowUpdateCame(_ stream: StreamID, _ increment: Int) throws(HTTP2Error) {
        if stream == 0 {
            guard increment > 0 else { throw HTTP2Error(.protocolError, "WINDOW_UPDATE by 0") }
            guard sendWindow.grow(by: increment) else {
                throw HTTP2Error(.flowControlError, "a window beyond \(FlowWindow.most)")
            }
            return
        }
        guard let slot = try slot(of: stream) else { return }
        guard increment > 0 else { return abort(slot, .protocolError) }
        streams[slot].credit += increment
        if initialWindow + streams[slot].credit > FlowWindow.most { abort(slot, .flowControlError) }
    }
}
