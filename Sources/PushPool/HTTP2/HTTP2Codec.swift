/// The client side of one HTTP/2 connection: requests and bytes in, events and bytes out. Never touches a socket.
///
/// A request keeps the slot that its owner chose until `delivered`, `rejected` or `reset` frees it. HEADERS and DATA go into
/// the output together at once, unless the peer's windows or limit delay them.
struct HTTP2Codec: ~Copyable {
    var out = OutBuffer()
    var reader = HTTP2FrameReader()
    var inflater: HeaderInflater
    var encoder: HPACKEncoder
    var streams: StreamTable
    /// Events that were not taken yet, oldest first.
    var events: [HTTP2Event] = []

    /// Requests of which nothing was sent, oldest first.
    var waiting: [WaitingRequest] = []
    /// Streams with an unsent part of their body, oldest first. Some may be closed already.
    var sending: [StreamID] = []
    var sendWindow = FlowWindow()
    /// The peer's SETTINGS_INITIAL_WINDOW_SIZE.
    var initialWindow = FlowWindow.initial
    var receiveWindow = ReceiveWindow(size: HTTP2Codec.receiveWindowBytes)
    /// The peer's MAX_CONCURRENT_STREAMS: 0 before its first SETTINGS, unlimited if they do not name it.
    var peerLimit = 0
    var hasSettings = false

    /// 32 bits, so that it does not overflow after the last stream id.
    private var nextStream: UInt32 = 1
    /// The highest stream whose HEADERS were sent: those above are idle (RFC 9113, 5.1.1).
    private(set) var lastOpened: StreamID = 0
    /// The end of the requests in the output as of the last look, and the newest of their streams.
    private var requestsEnd = (place: UInt64(0), stream: StreamID(0))
    /// Whether GOAWAY was sent or received: no more requests.
    var isClosing = false
    /// The peer's violation that ended the connection.
    var failure: HTTP2Error?
    /// The stream whose header block is being read, and whether the block ends the stream.
    var block: (stream: StreamID, endsStream: Bool) = (0, false)
    /// ACKs since the output was last empty.
    var acknowledgements = 0

    /// The receive window of the connection. Error bodies use it up: 65,535 bytes last for 1,300 `Unregistered`.
    static let receiveWindowBytes = 1 << 20
    /// The most unread ACKs before the connection ends.
    static let mostAcknowledgements = 10_000

    /// Writes the preface and SETTINGS.
    ///
    /// - Parameters:
    ///   - authority: `host`, or `host:port` if the port is not 443.
    ///   - slots: the number of requests that may be open at a time.
    ///   - collectsAPNSIDs: whether `delivered` carries an id.
    ///   - topic: as for `HPACKEncoder`.
    init(authority: String, slots: Int, collectsAPNSIDs: Bool, topic: String? = nil) {
        inflater = HeaderInflater()
        encoder = HPACKEncoder(authority: authority, topic: topic)
        streams = StreamTable(capacity: slots, collectsAPNSIDs: collectsAPNSIDs)
        out.append(OutBuffer.preface)
        out.settings([(.enablePush, 0)])
        out.windowUpdate(0, by: HTTP2Codec.receiveWindowBytes - FlowWindow.initial)
    }

    // MARK: Requests

    /// Sets the token of all later requests, without the word "bearer"; `nil` with a certificate.
    mutating func setToken(_ token: [UInt8]?) { encoder.setToken(token) }

    /// Starts a request in a free slot. Returns `nil` if HTTP/2 opens no more streams.
    mutating func submit(_ notification: Notification, slot: Int) -> StreamID? {
        guard failure == nil, !isClosing, let stream = StreamID(exactly: nextStream) else { return nil }
        nextStream += 2
        streams.begin(stream, at: slot)
        if notification.headers.call != nil { streams[slot].response.detail = .whole }
        if waiting.isEmpty && mayOpen(notification) {
            open(stream, slot, notification)
        } else {
            waiting.append(WaitingRequest(notification: notification, stream: stream, slot: slot))
        }
        return stream
    }

    /// A request whose body does not fit into the connection's window waits as a whole: until then nothing of it is sent.
    private func mayOpen(_ notification: Notification) -> Bool {
        streams.openCount < peerLimit && (sendWindow.left > 0 || notification.payload.isEmpty)
    }

    private mutating func open(_ stream: StreamID, _ slot: Int, _ notification: Notification) {
        streams.openCount += 1
        streams[slot].headersAt = out.end
        lastOpened = stream
        let block = out.beginHeaders(stream)
        encoder.encode(notification, into: &out)
        out.endHeaders(stream, blockAt: block)
        let (body, payload) = (notification.body, notification.payload)
        let count = min(payload.count, sendWindow.left, initialWindow)
        guard count < payload.count else { return send(body, payload, slot, stream, isLast: true) }
        let end = payload.lowerBound + max(0, count)
        if count > 0 { send(body, payload.lowerBound..<end, slot, stream, isLast: false) }
        streams[slot].unsent = UnsentBody(bytes: body, range: end..<payload.upperBound)
        sending.append(stream)
    }

    private mutating func send(_ bytes: [UInt8], _ range: Range<Int>, _ slot: Int, _ stream: StreamID, isLast: Bool) {
        streams[slot].credit -= range.count
        var start = range.lowerBound
        while range.upperBound - start > sendWindow.frameRoom {
            let end = start + sendWindow.frameRoom
            out.data(stream, bytes.span.extracting(start..<end), isLast: false)
            sendWindow.spend(end - start)
            start = end
        }
        out.data(stream, bytes.span.extracting(start..<range.upperBound), isLast: isLast)
        sendWindow.spend(range.upperBound - start)
    }

    /// The bytes of payload that the windows admit in new requests.
    ///
    /// `mutating`: for a getter that is not, Swift 6.3 copies the whole codec, and it does not compile a field `ByAddress` here.
    var windowRoom: Int {
        mutating get {
            if sending.isEmpty { return sendWindow.left }
            // A peer without a window for new streams gives one to each stream, after its HEADERS.
            if initialWindow == 0 { return 0 }
            return sendWindow.left - sending.reduce(0) { $0 + (unsentBytes(of: $1)) }
        }
    }

    private func unsentBytes(of stream: StreamID) -> Int {
        streams.slot(of: stream).flatMap { streams[$0].unsent?.range.count } ?? 0
    }

    /// Sends requests and bodies that a window, the limit or SETTINGS now admit.
    mutating func sendWaiting() {
        if !sending.isEmpty { sendBodies() }
        var opened = 0
        while opened < waiting.count && !isClosing && mayOpen(waiting[opened].notification) {
            open(waiting[opened].stream, waiting[opened].slot, waiting[opened].notification)
            opened += 1
        }
        waiting.removeFirst(opened)
    }

    private mutating func sendBodies() {
        var rest: [StreamID] = []
        for stream in sending {
            guard let slot = streams.slot(of: stream), let body = streams[slot].unsent else { continue }
            let count = min(body.range.count, sendWindow.left, initialWindow + streams[slot].credit)
            guard count > 0 else {
                rest.append(stream)
                continue
            }
            let end = body.range.lowerBound + count
            let isLast = end == body.range.upperBound
            send(body.bytes, body.range.lowerBound..<end, slot, stream, isLast: isLast)
            streams[slot].unsent = isLast ? nil : UnsentBody(bytes: body.bytes, range: end..<body.range.upperBound)
            if !isLast { rest.append(stream) }
            requestsEnd.place = out.end
        }
        sending = rest
    }

    /// Sends RST_STREAM with CANCEL. A `reset` event follows.
    mutating func cancel(_ stream: StreamID) {
        guard let slot = streams.slot(of: stream) else { return }
        abort(slot, .cancel)
    }

    /// Ends a stream, with RST_STREAM if the peer knows it.
    mutating func abort(_ slot: Int, _ code: HTTP2ErrorCode) {
        let stream = streams[slot].stream
        if streams[slot].isSent { out.resetStream(stream, code) } else { waiting.removeAll { $0.stream == stream } }
        close(slot, reset: code.rawValue)
    }

    /// Closes a stream without a complete response.
    mutating func close(_ slot: Int, reset code: UInt32) {
        let (stream, wasSent) = (streams[slot].stream, streams[slot].isSent)
        events.append(.reset(slot: slot, stream: stream, code: code, wasSent: wasSent))
        streams.end(slot)
    }

    // MARK: The connection

    mutating func ping(_ number: UInt64) {
        if failure == nil { out.ping(number, []) }
    }

    /// Sends GOAWAY with NO_ERROR before the connection is closed.
    mutating func sendGoAway() {
        if failure == nil && !isClosing { out.goAway(.noError) }
        isClosing = true
    }

    /// Whether the peer has violated HTTP/2: only the final GOAWAY is still written.
    var isOver: Bool { failure != nil }

    /// The peer's violation, for the log.
    var fault: String { failure.map { "HTTP/2: \($0.text)" } ?? "" }

    /// Whether any byte of this slot's HEADERS has left the output.
    func isWritten(slot: Int) -> Bool {
        streams.indices.contains(slot) && streams[slot].headersAt < out.written
    }

    /// Whether bytes of requests wait in the output. Call it before each write: frames of other kinds count as requests if they
    /// follow some that were submitted since the last call.
    mutating func hasUnwrittenRequests() -> Bool {
        if requestsEnd.stream != lastOpened { requestsEnd = (out.end, lastOpened) }
        return requestsEnd.place > out.written
    }

    /// Moves all events to `batch`, whose previous content is removed.
    mutating func takeEvents(into batch: inout [HTTP2Event]) {
        if !batch.isEmpty { batch.removeAll(keepingCapacity: true) }
        swap(&batch, &events)
    }
}

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
        case 200..<300: events.append(.delivered(slot: slot, stream: stream, streams[slot].response.acceptance))
        case 300...:
            let answer = streams[slot].response
            let response = Response(
                status: answer.status, apnsID: answer.apnsID, uniqueID: answer.uniqueID, retryAfter: answer.retryAfter,
                body: answer.body)
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

/// An event of the connection.
enum HTTP2Event: Equatable {
    /// A complete response with status 2xx; the stream is closed. The acceptance is present if the codec collects ids, and for a
    /// channel call.
    case delivered(slot: Int, stream: StreamID, Acceptance?)
    /// A complete response with another status; the stream is closed.
    case rejected(slot: Int, stream: StreamID, Response)
    /// The stream closed without a complete response. `wasSent`: its HEADERS had left the codec.
    case reset(slot: Int, stream: StreamID, code: UInt32, wasSent: Bool)
    /// SETTINGS arrived; this limit applies now.
    case settings(maxConcurrentStreams: Int)
    case goAway(last: StreamID, code: UInt32, debugData: [UInt8])
    /// The ACK of a PING, with the number of the PING.
    case pingAnswered(UInt64)

    static func delivered(slot: Int, stream: StreamID, apnsID: String?) -> HTTP2Event {
        .delivered(slot: slot, stream: stream, apnsID.map { Acceptance(apnsID: $0) })
    }
}

/// A request that waits for the peer's limit or the connection's window.
struct WaitingRequest {
    let notification: Notification
    let stream: StreamID
    let slot: Int
}
