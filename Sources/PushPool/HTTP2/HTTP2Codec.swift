/// The client side of one HTTP/2 connection: requests and bytes in, events and bytes out. Never touches a socket.
///
/// A request lives in the slot its owner named, until `delivered`, `rejected` or `reset` gives that slot back. It goes
/// into the output at once, HEADERS and DATA together, unless the peer's windows or its limit hold it back.
/// What the peer says is in HTTP2Codec+Receiving.swift.
struct HTTP2Codec: ~Copyable {
    var out = OutBuffer()
    var reader = HTTP2FrameReader()
    var inflater: HeaderInflater
    var encoder: HPACKEncoder
    var streams: StreamTable
    /// What happened, oldest first.
    var events: [HTTP2Event] = []

    /// Requests of which nothing has been sent, oldest first.
    var waiting: [WaitingRequest] = []
    /// Streams with a rest of their body, oldest first. One may have been closed since.
    var sending: [StreamID] = []
    var sendWindow = FlowWindow()
    /// SETTINGS_INITIAL_WINDOW_SIZE of the peer.
    var initialWindow = FlowWindow.initial
    var receiveWindow = ReceiveWindow(size: HTTP2Codec.receiveWindowBytes)
    /// MAX_CONCURRENT_STREAMS; none may be opened before the peer's first SETTINGS, which are no limit if they name none.
    var peerLimit = 0
    var hasSettings = false

    /// 32 bits: beyond the last stream id it does not overflow.
    private var nextStream: UInt32 = 1
    /// The highest stream of which HEADERS have been sent: those above are idle (RFC 9113, 5.1.1).
    private(set) var lastOpened: StreamID = 0
    /// No more requests: GOAWAY came, or was said.
    var isClosing = false
    /// What the peer broke.
    var failure: HTTP2Error?
    /// The stream whose header block is being read, and whether that ends it.
    var block: (stream: StreamID, endsStream: Bool) = (0, false)
    /// ACKs since the output was last empty.
    var acknowledgements = 0

    /// Receive window of the connection. Error bodies eat it: 65,535 bytes last for 1,300 `Unregistered`.
    static let receiveWindowBytes = 1 << 20
    /// PINGs and SETTINGS that may want their ACK before a peer that reads none of them is thrown out.
    static let mostAcknowledgements = 10_000

    /// Says our preface and SETTINGS.
    ///
    /// - Parameters:
    ///   - authority: `host`, or `host:port` where the port is not 443.
    ///   - slots: how many requests may be open at a time.
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

    /// The bearer of all requests from now on, without the word "bearer"; `nil` with a certificate.
    mutating func setToken(_ token: [UInt8]?) { encoder.setToken(token) }

    /// Begins a request in a slot that is free. `nil` if HTTP/2 opens no more streams.
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

    /// A request whose body the connection's window has no room for waits as a whole: until then it is certainly not sent.
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
        out.data(stream, bytes.span.extracting(range), isLast: isLast)
        sendWindow.spend(range.count)
        streams[slot].credit -= range.count
    }

    /// Sends what a window, a limit or SETTINGS may have made room for.
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
        }
        sending = rest
    }

    /// RST_STREAM with CANCEL. A `reset` for its slot follows.
    mutating func cancel(_ stream: StreamID) {
        guard let slot = streams.slot(of: stream) else { return }
        abort(slot, .cancel)
    }

    /// Ends a stream from our side, with a word to the peer if it knows of it.
    mutating func abort(_ slot: Int, _ code: HTTP2ErrorCode) {
        let stream = streams[slot].stream
        if streams[slot].isSent { out.resetStream(stream, code) } else { waiting.removeAll { $0.stream == stream } }
        close(slot, reset: code.rawValue)
    }

    /// The stream is closed without a complete answer.
    mutating func close(_ slot: Int, reset code: UInt32) {
        let (stream, wasSent) = (streams[slot].stream, streams[slot].isSent)
        events.append(.reset(slot: slot, stream: stream, code: code, wasSent: wasSent))
        streams.end(slot)
    }

    // MARK: The connection

    mutating func ping(_ number: UInt64) {
        if failure == nil { out.ping(number, []) }
    }

    /// GOAWAY with NO_ERROR: good manners before the connection is closed.
    mutating func sayGoodbye() {
        if failure == nil && !isClosing { out.goAway(.noError) }
        isClosing = true
    }

    /// HTTP/2 is over: the peer broke it, and nothing will be read or written any more but the GOAWAY that says so.
    var isOver: Bool { failure != nil }

    /// What the peer broke, for the log.
    var fault: String { failure.map { "HTTP/2: \($0.text)" } ?? "" }

    /// Whether any byte of this slot's HEADERS has left the output.
    func isWritten(slot: Int) -> Bool {
        streams.indices.contains(slot) && streams[slot].headersAt < out.written
    }

    /// Moves what has happened since the last call to `batch`, whose former content goes.
    mutating func takeEvents(into batch: inout [HTTP2Event]) {
        batch.removeAll(keepingCapacity: true)
        swap(&batch, &events)
    }
}
