/// The client side of one HTTP/2 connection: requests and bytes in, events and bytes out. Never touches a socket.
///
/// A request keeps the slot that its owner chose until `delivered`, `rejected` or `reset` frees it. HEADERS and DATA go into
/// the output together at once, unless the peer's windows or limit delay them. HTTP2Codec+Receiving.swift handles the peer's
/// frames.
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
    init(authority: String, slots: Int, collectsAPNSIDs: Bool) {
        inflater = HeaderInflater()
        encoder = HPACKEncoder(authority: authority)
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
        precondition(
            notification.token.upperBound <= notification.bytes.count
                && notification.payload.upperBound <= notification.bytes.count,
            "notification \(notification.id) points outside of its bytes")
        guard failure == nil, !isClosing, let stream = StreamID(exactly: nextStream) else { return nil }
        nextStream += 2
        streams.begin(stream, at: slot)
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
        let payload = notification.payload
        let count = min(payload.count, sendWindow.left, initialWindow)
        guard count < payload.count else { return send(notification.bytes, payload, slot, stream, isLast: true) }
        let end = payload.lowerBound + max(0, count)
        if count > 0 { send(notification.bytes, payload.lowerBound..<end, slot, stream, isLast: false) }
        streams[slot].unsent = UnsentBody(bytes: notification.bytes, range: end..<payload.upperBound)
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
    var windowRoom: Int {
        if sending.isEmpty { return sendWindow.left }
        // A peer without a window for new streams gives one to each stream, after its HEADERS.
        if initialWindow == 0 { return 0 }
        return sendWindow.left - sending.reduce(0) { $0 + (unsentBytes(of: $1)) }
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
        batch.removeAll(keepingCapacity: true)
        swap(&batch, &events)
    }
}
