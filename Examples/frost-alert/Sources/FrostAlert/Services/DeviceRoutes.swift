internal import Foundation
internal import Hummingbird
internal import NIOCore

/// The requests of the app: `POST /register`, `/add_location` and `/remove_location`.
struct DeviceRoutes: Sendable {
    /// Bytes of a body; valid ones have a few hundred.
    private static let mostBytes = 16 << 10

    let devices: DeviceTable

    func router() -> Router<BasicRequestContext> {
        let router = Router()
        router.post("register") { request, _ in
            let token = try DeviceRequest.registration(try await body(of: request))
            try await devices.register(token, at: .now)
            return HTTPResponse.Status.created
        }
        router.post("add_location") { request, _ in
            let (token, location) = try DeviceRequest.addition(try await body(of: request))
            try await devices.add(location, to: token, at: .now)
            return HTTPResponse.Status.created
        }
        router.post("remove_location") { request, _ in
            let (token, place) = try DeviceRequest.removal(try await body(of: request))
            try await devices.remove(place, from: token)
            return HTTPResponse.Status.created
        }
        return router
    }

    private func body(of request: Request) async throws -> Data {
        do {
            return Data(try await request.body.collect(upTo: Self.mostBytes).readableBytesView)
        } catch is NIOTooManyBytesError {
            throw HTTPError(.contentTooLarge)
        }
    }
}

/// A body that is not valid is the fault of the client.
extension DeviceRequest.Fault: HTTPResponseError {
    var status: HTTPResponse.Status { .badRequest }

    func response(from request: Request, context: some RequestContext) throws -> Response {
        Response(status: status, body: ResponseBody(byteBuffer: ByteBuffer(string: text + "\n")))
    }
}
