internal import HTTP1
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
