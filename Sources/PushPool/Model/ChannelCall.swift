internal import JSONBytes

/// A call of APNs' channel management API ("Sending channel management requests to APNs"). A session sends it as any
/// notification, and its outcome is `delivered` with a acceptance, or a rejection.
package struct ChannelCall: Sendable, Equatable {
    /// Whether APNs stores messages of a channel for devices that are offline. It cannot be changed later.
    package enum Storage: String, Sendable, CaseIterable {
        case none
        /// The latest message, until its expiration.
        case latest
    }

    package enum Action: Sendable, Equatable {
        case create(Storage)
        case read(String)
        case delete(String)
        /// Lists the ids of all channels of the app in the environment of the server.
        case list
    }

    enum Method { case get, post, delete }

    /// Seconds for which a channel stores its latest message at most ("Setting up broadcast push notifications").
    package static let longestStorage: Int64 = 8 * 3600

    private let bundleID: String
    private let action: Action

    /// - Parameter topic: of the app, with or without a suffix. Returns `nil` if it is no bundle id, which the path contains.
    package init?(_ action: Action, topic: String) {
        bundleID = PushTopic(topic).bundleID
        self.action = action
        if !PushTopic.isBundleID(bundleID.utf8) { return nil }
    }

    var method: Method {
        switch action {
        case .create: .post
        case .read, .list: .get
        case .delete: .delete
        }
    }

    var path: String { "/1/apps/\(bundleID)/\(action == .list ? "all-channels" : "channels")" }

    var channelID: String? {
        switch action {
        case .read(let id), .delete(let id): id
        case .create, .list: nil
        }
    }

    private var body: [UInt8] {
        guard case .create(let storage) = action else { return [] }
        return Array(#"{"message-storage-policy":\#(storage == .latest ? 1 : 0),"push-type":"LiveActivity"}"#.utf8)
    }

    /// The request, with the caller's number.
    package func request(id: UInt64) -> Notification {
        let body = body
        return Notification(id: id, bytes: body, token: 0..<0, payload: 0..<body.count, headers: SharedHeaders(self))
    }

    /// The content of an accepted call.
    package enum Reply: Sendable, Equatable {
        case created(String)
        case found(Storage)
        case deleted
        case list([String])
    }

    /// The reason why there is no reply.
    package enum Failure: Error, Sendable, Equatable, CustomStringConvertible {
        /// APNs refuses the call.
        case rejected(Rejection)
        /// APNs did not get it.
        case notProcessed(String)
        /// APNs may have carried it out, and a repetition may do it again.
        case maybeProcessed(String)
        /// The response is not that of the API.
        case malformed(String)

        /// A clause for the log.
        package var description: String {
            switch self {
            case .rejected(let rejection): rejection.text
            case .notProcessed(let text): "no response: \(text)"
            case .maybeProcessed(let text): "no response: \(text); APNs may have processed the request"
            case .malformed(let text): text
            }
        }

        /// Whether the account has as many channels as Apple admits.
        package var isFull: Bool {
            if case .rejected(let rejection) = self { rejection.reason == "CannotCreateChannelConfig" } else { false }
        }

        /// Whether APNs has no such channel.
        package var isMissing: Bool {
            guard case .rejected(let rejection) = self else { return false }
            return ChannelCall.reasonsOfMissingChannel.contains(rejection.reason)
        }
    }

    /// The reasons of APNs for an id that is no channel of the app.
    package static let reasonsOfMissingChannel: Set<String> = ["ChannelNotRegistered", "BadChannelId"]

    /// Interprets the outcome of this call.
    package func reply(_ outcome: Outcome) throws(Failure) -> Reply {
        switch outcome {
        case .delivered(let acceptance): return try reply(acceptance)
        case .rejected(let rejection): throw .rejected(rejection)
        case .notProcessed(let error): throw .notProcessed(error.text)
        case .maybeProcessed(let error): throw .maybeProcessed(error.text)
        case .timedOut: throw .maybeProcessed("the request timed out")
        case .outdated, .begun: throw .notProcessed("not sent")
        }
    }

    private func reply(_ acceptance: Acceptance?) throws(Failure) -> Reply {
        let json = (acceptance?.body).flatMap { try? JSONValue.parse($0) }
        switch action {
        case .create:
            guard let id = acceptance?.channelID, ChannelCall.isID(id) else {
                throw .malformed("the response has no apns-channel-id")
            }
            return .created(id)
        case .read:
            guard let policy = json?["message-storage-policy"]?.integerValue else {
                throw .malformed("the response has no message-storage-policy")
            }
            return .found(policy == 1 ? .latest : .none)
        case .delete: return .deleted
        case .list:
            guard case .array(let channels)? = json?["channels"] else { throw .malformed("the response has no list of channels") }
            return .list(channels.compactMap(\.stringValue))
        }
    }

    /// Whether a text is a channel id, which goes into a header: base64 of 1 to 1,000 characters. Apple states no limit; its ids
    /// have 24 characters.
    package static func isID(_ text: String) -> Bool {
        (1...1000).contains(text.utf8.count)
            && text.utf8.allSatisfy { byte in
                byte &- 0x30 <= 9 || (byte | 0x20) &- 0x61 <= 25 || [0x2B, 0x2F, 0x3D].contains(byte)
            }
    }
}
