extension Push {
    /// The receiver of a push.
    public enum Target: Sendable, Equatable {
        /// A device token in hexadecimal digits.
        case device(String)
        /// The id of a broadcast channel, in base64.
        case channel(String)

        /// A device token as the system passes it to an app.
        public static func device(_ token: some Sequence<UInt8>) -> Target {
            let digits = Array("0123456789abcdef".utf8)
            var text: [UInt8] = []
            for byte in token { text += [digits[Int(byte >> 4)], digits[Int(byte & 15)]] }
            return .device(String(decoding: text, as: UTF8.self))
        }

        /// Returns the text, if it can be sent.
        func checked() throws(APNSError) -> String {
            switch self {
            case .device(let token):
                let isHex = token.utf8.allSatisfy { $0 &- 0x30 <= 9 || ($0 | 0x20) &- 0x61 <= 5 }
                guard isHex, (1...1000).contains(token.utf8.count) else {
                    throw .invalid("the device token is not 1 to 1000 hexadecimal digits")
                }
                return token
            case .channel(let id):
                let isBase64 = id.utf8.allSatisfy { byte in
                    byte &- 0x30 <= 9 || (byte | 0x20) &- 0x61 <= 25 || Array("+/=".utf8).contains(byte)
                }
                guard isBase64, (1...1024).contains(id.utf8.count) else {
                    throw .invalid("the channel is not 1 to 1024 characters of base64")
                }
                return id
            }
        }
    }

    /// The value of `apns-push-type`.
    public struct Kind: Sendable, Hashable, RawRepresentable {
        public let rawValue: String

        public init(rawValue: String) { self.rawValue = rawValue }

        public static let alert = Kind(rawValue: "alert")
        public static let background = Kind(rawValue: "background")
        public static let voip = Kind(rawValue: "voip")
        public static let complication = Kind(rawValue: "complication")
        public static let fileProvider = Kind(rawValue: "fileprovider")
        public static let location = Kind(rawValue: "location")
        public static let liveActivity = Kind(rawValue: "liveactivity")
        public static let pushToTalk = Kind(rawValue: "pushtotalk")
        public static let widgets = Kind(rawValue: "widgets")
        public static let controls = Kind(rawValue: "controls")
        public static let mdm = Kind(rawValue: "mdm")
    }

    /// The value of `apns-priority`.
    public enum Priority: Int, Sendable {
        /// At once. Not allowed for a background push.
        case immediate = 10
        /// At a time that suits the power of the device.
        case considerate = 5
        /// Power has precedence, and the device is not woken.
        case lowest = 1
    }

    /// The value of `apns-expiration`.
    public enum Expiration: Sendable, Equatable {
        /// APNs tries once and stores nothing.
        case once
        /// Seconds since 1970. A push that could not be sent until then fails as expired.
        case at(unixSeconds: Int64)
        /// From the moment at which the push is sent.
        case after(Duration)
    }
}
