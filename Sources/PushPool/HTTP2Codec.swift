internal import CNghttp2

/// One `nghttp2_session`, client side: requests and bytes in, events and bytes out. Never touches a socket.
///
/// Made, used and freed on one thread. C points at it, hence a class; callbacks (HTTP2Callbacks.swift) only note what
/// happened. A request lives in the slot its owner named, until `delivered`, `rejected` or `reset` gives that slot back.
final class HTTP2Codec {
    private let session: OpaquePointer
    private let memory = FrameMemory()
    private let authority: FixedBytes
    private let collectsAPNSIDs: Bool

    /// For the callbacks: what happened, oldest first. Behind a pointer, as the slots are: accesses to a class's own
    /// arrays are checked at run time, which took 8 % of the instructions of a push (callgrind).
    let events: UnsafeMutablePointer<[HTTP2Event]>
    let slots: SlotTable
    /// The slot whose header block is being read; header fields come one by one and between them nothing else (RFC 9113, 4.3).
    var headerSlot = -1
    /// nghttp2's own words about the latest fault.
    var fault = ""
    /// Bytes handed out so far.
    private(set) var handedOut: UInt64 = 0
    /// The peer's first bytes, as long as they may be a GOAWAY.
    private var firstFrame: FirstFrame? = FirstFrame()

    private var bearer: FixedBytes?
    /// Header lists by the identity of their `SharedHeaders`.
    private var headerSets: [ObjectIdentifier: HeaderSet] = [:]
    private var latestSet: HeaderSet?
    /// Whether these names are in the HPACK table: from then on their values stay out of it (apns.md 2.1).
    private var isExpirationKnown = false
    private var isAPNSIDKnown = false
    private var isCollapseIDKnown = false

    /// Receive window of the connection, bytes. Error bodies eat it: 65,535 last for 1,300 `Unregistered`.
    static let receiveWindow: Int32 = 1 << 20
    /// Header lists kept. A daemon sends few combinations of topic, type and priority; one that sends many starts anew.
    static let mostHeaderSets = 64

    /// Submits our preface and SETTINGS.
    ///
    /// - Parameters:
    ///   - authority: `host`, or `host:port` where the port is not 443.
    ///   - slots: how many requests may be open at a time.
    ///   - collectsAPNSIDs: whether `delivered` carries an id.
    init(authority: String, slots: Int, collectsAPNSIDs: Bool) throws(HTTP2Error) {
        session = try HTTP2Codec.makeSession(memory)
        self.slots = SlotTable(capacity: slots)
        events = .allocate(capacity: 1)
        events.initialize(to: [])
        self.authority = FixedBytes(authority)
        self.collectsAPNSIDs = collectsAPNSIDs
        nghttp2_session_set_user_data(session, Unmanaged.passUnretained(self).toOpaque())
        var settings = [nghttp2_settings_entry(settings_id: Int32(NGHTTP2_SETTINGS_ENABLE_PUSH.rawValue), value: 0)]
        nghttp2_submit_settings(session, UInt8(NGHTTP2_FLAG_NONE.rawValue), &settings, settings.count)
        nghttp2_session_set_local_window_size(session, UInt8(NGHTTP2_FLAG_NONE.rawValue), 0, HTTP2Codec.receiveWindow)
    }

    deinit {
        // Frees queued frames; those point into the slots, so the slots go last.
        nghttp2_session_set_user_data(session, nil)
        nghttp2_session_del(session)
        slots.deallocate()
        events.deinitialize(count: 1)
        events.deallocate()
    }

    private static func makeSession(_ memory: FrameMemory) throws(HTTP2Error) -> OpaquePointer {
        var options: OpaquePointer?
        guard nghttp2_option_new(&options) == 0 else { throw HTTP2Error(text: "no memory") }
        defer { nghttp2_option_del(options) }
        // Until the first SETTINGS nghttp2 would assume 100 streams (apns.md 7.1).
        nghttp2_option_set_peer_max_concurrent_streams(options, 1)
        // Saves 8 % of the instructions of a push; `:status` is checked in the callbacks instead.
        nghttp2_option_set_no_http_messaging(options, 1)
        nghttp2_option_set_no_closed_streams(options, 1)
        nghttp2_option_set_max_reserved_remote_streams(options, 0)
        var session: OpaquePointer?
        var callbacks = memory.callbacks
        let status = withCallbacks { nghttp2_session_client_new3(&session, $0, nil, options, &callbacks) }
        guard status == 0, let session else { throw HTTP2Error(text: "no memory") }
        return session
    }

    // MARK: Requests

    /// The bearer of all requests from now on, without the word "bearer"; `nil` with a certificate.
    func setToken(_ token: [UInt8]?) {
        bearer = token.map { FixedBytes(Array("bearer ".utf8) + $0) }
        headerSets.removeAll()
        latestSet = nil
    }

    /// Begins a request in a slot that is free. `nil` if HTTP/2 opens no more streams.
    func submit(_ notification: Notification, slot: Int) -> StreamID? {
        slots.prepare(slot)
        let set = headerSet(for: notification.headers)
        slots[slot].begin(notification, headers: set)
        if !set.isBroadcast {
            let (path, pathCount) = slots[slot].writePath(notification.token)
            set.setPath(path, count: pathCount)
        }
        var count = set.constantCount
        if let expiration = notification.expiration {
            let (start, length) = slots[slot].write(expiration)
            count = set.setVariable("apns-expiration", start, count: length, isIndexed: !isExpirationKnown, at: count)
            isExpirationKnown = true
        }
        if let apnsID = notification.apnsID {
            let (start, length) = slots[slot].write(apnsID)
            let name: StaticString = set.isBroadcast ? "apns-request-id" : "apns-id"
            count = set.setVariable(name, start, count: length, isIndexed: !isAPNSIDKnown, at: count)
            isAPNSIDKnown = true
        }
        if let collapseID = notification.collapseID {
            let (start, length) = slots[slot].write(collapseID)
            count = set.setVariable("apns-collapse-id", start, count: length, isIndexed: !isCollapseIDKnown, at: count)
            isCollapseIDKnown = true
        }
        var body = nghttp2_data_provider()
        body.source.ptr = UnsafeMutableRawPointer(bitPattern: slot + 1)
        body.read_callback = HTTP2Codec.readBody
        let handle = UnsafeMutableRawPointer(bitPattern: slot + 1)
        let stream = nghttp2_submit_request(session, nil, set.fields, count, &body, handle)
        guard stream > 0 else {
            slots[slot].finish()
            return nil
        }
        slots[slot].stream = stream
        return stream
    }

    private func headerSet(for shared: SharedHeaders) -> HeaderSet {
        if let latestSet, latestSet.shared === shared { return latestSet }
        let identity = ObjectIdentifier(shared)
        if let known = headerSets[identity] {
            latestSet = known
            return known
        }
        if headerSets.count >= HTTP2Codec.mostHeaderSets { headerSets.removeAll() }
        let set = HeaderSet(shared, authority: authority, bearer: bearer)
        headerSets[identity] = set
        latestSet = set
        return set
    }

    /// RST_STREAM with CANCEL. A `reset` for its slot follows, when that has left.
    func cancel(_ stream: StreamID) {
        nghttp2_submit_rst_stream(session, UInt8(NGHTTP2_FLAG_NONE.rawValue), stream, NGHTTP2_CANCEL.rawValue)
    }

    func ping(_ number: UInt64) {
        withUnsafeBytes(of: number.bigEndian) { bytes in
            _ = nghttp2_submit_ping(
                session, UInt8(NGHTTP2_FLAG_NONE.rawValue), bytes.baseAddress?.assumingMemoryBound(to: UInt8.self))
        }
    }

    /// GOAWAY with NO_ERROR: good manners before the connection is closed.
    func sayGoodbye() {
        nghttp2_session_terminate_session(session, NGHTTP2_NO_ERROR.rawValue)
    }

    /// Whether any byte of this slot's HEADERS is among the first `written` of the output.
    func isWritten(slot: Int, written: UInt64) -> Bool {
        slots.contains(slot) && slots[slot].headersAt < written
    }

    // MARK: Bytes

    /// Takes in bytes from the peer; what they meant comes with `takeEvents`.
    func receive(_ bytes: Span<UInt8>) throws(HTTP2Error) {
        if firstFrame != nil { firstFrame?.append(bytes) }
        if let goAway = firstFrame?.goAway { events.pointee.append(goAway) }
        if firstFrame?.isDecided == true { firstFrame = nil }
        let consumed = bytes.withUnsafeBufferPointer { nghttp2_session_mem_recv(session, $0.baseAddress, $0.count) }
        if consumed < 0 { throw HTTP2Error(text: describe(consumed)) }
    }

    /// Appends frames that want to go out until at least `most` bytes are in `buffer`; whether there may be more.
    func takeOutput(into buffer: inout OutBuffer, most: Int) throws(HTTP2Error) -> Bool {
        while buffer.count < most {
            var start: UnsafePointer<UInt8>?
            let count = nghttp2_session_mem_send(session, &start)
            if count < 0 { throw HTTP2Error(text: describe(count)) }
            if count == 0 { return false }
            buffer.append(UnsafeBufferPointer(start: start, count: count).span)
            handedOut += UInt64(count)
        }
        return true
    }

    /// HTTP/2 is over: one side broke the protocol, and nothing will be read or written any more.
    var isOver: Bool { nghttp2_session_want_read(session) == 0 && nghttp2_session_want_write(session) == 0 }

    /// Moves what has happened since the last call to `batch`, whose former content goes.
    func takeEvents(into batch: inout [HTTP2Event]) {
        batch.removeAll(keepingCapacity: true)
        swap(&batch, &events.pointee)
    }

    var isCollecting: Bool { collectsAPNSIDs }

    private func describe(_ code: Int) -> String {
        let text = String(cString: nghttp2_strerror(CInt(clamping: code)))
        return fault.isEmpty ? "HTTP/2: \(text)" : "HTTP/2: \(text): \(fault)"
    }
}
