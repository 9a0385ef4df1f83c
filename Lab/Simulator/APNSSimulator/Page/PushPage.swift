internal import HTTP1
internal import JSONBytes
internal import Platform

/// A page with the latest pushes as a phone shows them, and the same as JSON.
///
/// `GET /` is the page, `GET /api/pushes` the JSON; both take `?q=TEXT&kind=KIND`. `DELETE /api/pushes` clears them. A page of
/// another site cannot send DELETE without permission, which the server never gives (Fetch, "CORS-preflight request").
public final class PushPage: Sendable {
    private let server: StatusServer

    public var port: Int { server.port }

    /// Listens at once.
    ///
    /// - Parameter simulator: its configuration must keep recent pushes.
    public init(of simulator: Simulator, host: String, port: Int) throws(SimulatorError) {
        var profile = ServerProfile()
        profile.name = "apns-simulator"
        profile.methods = ["GET", "HEAD", "DELETE"]
        profile.hostRefusal = "The request names another host than this page has.\n"
        profile.thread = "push page"
        let recent = simulator.recent
        do throws(ListenError) {
            server = try StatusServer(host: host, port: port, profile: profile) { PushPage.reply(to: $0, recent) }
        } catch {
            throw SimulatorError("cannot listen at \(host):\(port): \(error)")
        }
    }

    deinit { close() }

    /// Ends every connection.
    public func close() { server.close() }

    private static func reply(to request: HTTPRequestHead, _ recent: RecentPushes) -> StatusReply? {
        let filter = PushFilter(query: request.query)
        switch (request.path, request.method) {
        case ("/api/pushes", "DELETE"):
            recent.clear()
            return .now(StatusResponse(contentType: "application/json", text: "{}\n"))
        case (_, "DELETE"): return nil
        case ("/api/pushes", _):
            let (count, pushes) = selected(recent, filter)
            return .now(StatusResponse(contentType: "application/json", body: PushAPI.body(count: count, pushes)))
        case ("/", _):
            let (count, pushes) = selected(recent, filter)
            let html = PageText(count: count, pushes: pushes, filter: filter).html
            return .now(StatusResponse(contentType: "text/html; charset=utf-8", text: html))
        default: return nil
        }
    }

    private static func selected(
        _ recent: RecentPushes, _ filter: PushFilter
    ) -> (count: Int, pushes: [(RecentPush, LockScreenCard)]) {
        let (count, pushes) = recent.all
        let cards = pushes.map { ($0, LockScreenCard(payload: $0.payload, type: $0.header("apns-push-type"))) }
        return (count, cards.filter { filter.admits($0, $1) })
    }
}

/// The pushes as JSON, for tests.
enum PushAPI {
    static func body(count: Int, _ pushes: [(RecentPush, LockScreenCard)]) -> [UInt8] {
        var json = Array("{\"count\":\(count),\"pushes\":[".utf8)
        for (index, (push, card)) in pushes.enumerated() {
            if index > 0 { json.append(UInt8(ascii: ",")) }
            append(push, card, to: &json)
        }
        json += Array("]}\n".utf8)
        return json
    }

    private static func append(_ push: RecentPush, _ card: LockScreenCard, to json: inout [UInt8]) {
        var reason = ""
        if case .refused(_, let text) = push.verdict { reason = text }
        json += Array("{\"number\":\(push.number),\"time\":\(push.time),\"accepted\":\(push.verdict.isAccepted)".utf8)
        json += Array(",\"status\":\(push.verdict.status),\"broadcast\":\(push.isBroadcast)".utf8)
        let texts = [
            ("verdict", push.verdict.label), ("reason", reason), ("kind", card.kind.rawValue), ("token", push.token),
            ("title", card.title), ("subtitle", card.subtitle), ("body", card.body),
        ]
        for (name, text) in texts {
            json += Array(",\"\(name)\":".utf8)
            json.appendJSONString(text)
        }
        json += Array(",\"marks\":[\(card.marks.map(\.quotedJSON).joined(separator: ","))]".utf8)
        let headers = push.headers.map { "\($0.name.quotedJSON):\($0.value.quotedJSON)" }
        json += Array(",\"headers\":{\(headers.joined(separator: ","))},\"provider_token\":".utf8)
        if let token = push.providerToken {
            json += Array("{\"header\":".utf8) + token.header + Array(",\"claims\":".utf8) + token.claims + Array("}".utf8)
        } else {
            json += Array("null".utf8)
        }
        json += Array(",\"payload_bytes\":\(push.payloadLength),\"payload\":".utf8)
        if (try? JSONValue.parse(push.payload)) != nil {
            json += push.payload
        } else {
            json.appendJSONString(String(decoding: push.payload, as: UTF8.self))
        }
        json += Array("}".utf8)
    }
}

/// Selects pushes by the query of a request: `q`, a text in any case, and `kind`.
struct PushFilter: Sendable, Equatable {
    var text = ""
    var kind: LockScreenCard.Kind?

    init(query: String = "") {
        for (name, value) in FormQuery(query).fields {
            switch name {
            case "q": text = value
            case "kind": kind = LockScreenCard.Kind(rawValue: value)
            default: break
            }
        }
    }

    func admits(_ push: RecentPush, _ card: LockScreenCard) -> Bool {
        if let kind, kind != card.kind { return false }
        if text.isEmpty { return true }
        let texts = [card.title, card.subtitle, card.body, push.token, push.verdict.label]
        let wanted = text.lowercased()
        return (texts + card.marks + push.headers.map(\.value)).contains { $0.lowercased().contains(wanted) }
    }
}

/// The latest pushes, for any thread. Each has about 15 KiB at most.
final class RecentPushes: Sendable {
    private struct State {
        var pushes: [RecentPush] = []
        var count = 0
    }

    private let limit: Int
    private let state = Locked(State())

    init(limit: Int) { self.limit = limit }

    /// The number of pushes since the start, and those that are kept, newest first.
    var all: (count: Int, pushes: [RecentPush]) { state.withLock { ($0.count, $0.pushes.suffix(limit).reversed()) } }

    func add(_ pushes: [RecentPush]) {
        state.withLock { state in
            for push in pushes {
                state.count += 1
                state.pushes.append(push)
                state.pushes[state.pushes.count - 1].number = state.count
            }
            // Half of twice the limit is removed at once, so that a push does not move all others.
            if state.pushes.count >= 2 * limit { state.pushes.removeFirst(state.pushes.count - limit) }
        }
    }

    func clear() { state.withLock { $0.pushes = [] } }
}

/// One of the latest pushes: what the client sent, and the answer.
struct RecentPush: Sendable, Equatable {
    /// The most bytes of a header's value that are kept.
    static let headerBytes = 512

    struct Header: Sendable, Equatable {
        var name: String
        var value: String
    }

    /// From 1, in the order of the answers; unique also after a clear.
    var number = 0
    /// Milliseconds since 1970.
    var time: Int64
    var verdict: Verdict
    /// The device token, or the id of a channel.
    var token: String
    var isBroadcast: Bool
    /// Without `authorization`.
    var headers: [Header]
    /// `nil` for a connection with a client certificate.
    var providerToken: ReadableToken?
    /// At most `Request.keptBodyBytes`.
    var payload: [UInt8]
    var payloadLength: Int

    /// Returns the first value of a header.
    func header(_ name: String) -> String? { headers.first { $0.name == name }?.value }
}

extension RecentPush {
    init(_ request: Request, _ verdict: Verdict, time: Int64) {
        let cut = { (bytes: ArraySlice<UInt8>) in String(decoding: bytes.prefix(RecentPush.headerBytes), as: UTF8.self) }
        self.init(
            time: time, verdict: verdict, token: cut(request.token), isBroadcast: request.kind == .broadcast,
            headers: Request.Field.allCases.compactMap { field in
                guard field != .authorization, let value = request[field] else { return nil }
                return Header(name: "\(field.name)", value: cut(value))
            },
            providerToken: request[.authorization].flatMap { ReadableToken(authorization: $0) }, payload: request.body,
            payloadLength: request.bodyLength)
    }
}

/// The readable parts of a provider token. The signature is not kept: with it, a reader of the page could send pushes.
struct ReadableToken: Sendable, Equatable {
    private static let mostBytes = 1024

    /// JSON texts.
    var header: [UInt8]
    var claims: [UInt8]

    /// Returns `nil` if the value is not `bearer` and a token with two JSON objects.
    init?(authorization value: ArraySlice<UInt8>) {
        let bearer = Array("bearer ".utf8)
        guard value.prefix(bearer.count).elementsEqual(bearer, by: { $0 | 0x20 == $1 | 0x20 }) else { return nil }
        let parts = value.dropFirst(bearer.count).split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
        guard parts.count == 3, let header = Self.object(parts[0]), let claims = Self.object(parts[1]) else { return nil }
        (self.header, self.claims) = (header, claims)
    }

    private static func object(_ part: ArraySlice<UInt8>) -> [UInt8]? {
        guard part.count <= mostBytes, let bytes = Base64.decode(part, as: .url), case .object = try? JSONValue.parse(bytes)
        else { return nil }
        return bytes
    }
}
