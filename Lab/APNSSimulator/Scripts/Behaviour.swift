/// How the simulator behaves beside the plain rules. Can be changed while it runs; a change reaches connections that are
/// open, unless a line says otherwise.
public struct Behaviour: Sendable, Equatable {
    /// What a new connection hears first.
    public enum Greeting: Sendable, Equatable {
        case settings
        /// Not one byte of HTTP/2, then or later.
        case nothing
        /// Not one byte at all: the TLS handshake is never answered.
        case tarpit
        /// This instead of SETTINGS, and the end.
        case goAway(GoAway)
    }

    /// What a stream above the limit gets.
    public enum OverLimit: String, Sendable, CaseIterable {
        /// RST_STREAM with REFUSED_STREAM.
        case refuse
        /// The same, and a second RST_STREAM with STREAM_CLOSED, since DATA came behind HEADERS.
        case refuseTwice = "refuse-twice"
        /// GOAWAY with code 7 and plain text, and the end.
        case goAway = "goaway"
    }

    /// What becomes of a connection on which nothing was asked for a while.
    public enum IdleFault: String, Sendable, CaseIterable {
        /// GOAWAY with `IdleTimeout` when the time is up.
        case goAway = "goaway"
        /// 400 `IdleTimeout` to the next request, and GOAWAY behind it.
        case badRequest = "400"
        /// 500 `InternalServerError` to whatever is asked from then on, until the client replaces the connection.
        case internalError = "500"
    }

    /// How many new connections are welcome. APNs treats "opening and closing repeatedly" as an attack.
    public struct ConnectLimit: Sendable, Equatable {
        /// So many in any `window` are let in.
        public var count: Int
        public var window: Duration
        /// For so long every new connection is reset once there were more.
        public var block: Duration

        public init(count: Int, window: Duration, block: Duration) {
            self.count = count
            self.window = window
            self.block = block
        }
    }

    /// A credential that APNs does not want, though nothing is wrong with it.
    public struct Refusal: Sendable, Equatable {
        public enum Credential: Sendable, Equatable {
            /// Whatever certificate a client shows.
            case certificate
            /// Provider tokens signed with the key of this id.
            case key(String)
        }

        public var credential: Credential
        /// What each push gets; `nil`, of certificates alone, is a TLS alert in place of a connection, for dials that are new.
        public var reason: Reason?

        public init(_ credential: Credential, _ reason: Reason? = nil) {
            self.credential = credential
            self.reason = reason
        }
    }

    /// A limit that wanders: every `interval` each connection gets another one.
    public struct LimitWalk: Sendable, Equatable {
        public var interval: Duration
        public var bounds: ClosedRange<UInt32>

        public init(interval: Duration, bounds: ClosedRange<UInt32>) {
            self.interval = interval
            self.bounds = bounds
        }
    }

    public var script = Script()
    /// What is known of single device tokens; the first rule whose prefix fits applies, and goes before the script.
    public var devices: [DeviceRule] = []
    /// What single connections answer to every valid push, in the order in which they came, the first being 1: the machine behind
    /// one of them has lost its way. Goes before devices and script; of several that are due, the first applies.
    public var connections: [Script.Turn] = []
    /// Of several that apply, the first.
    public var refusals: [Refusal] = []
    /// For connections that are new.
    public var greeting = Greeting.settings
    /// 0 to 1: the share of new connections that get `greeting`; the others get SETTINGS.
    public var greetingShare = 1.0
    /// MAX_CONCURRENT_STREAMS: at once with a certificate, after the first accepted push with a token.
    public var streamLimit: UInt32 = 1000
    /// MAX_CONCURRENT_STREAMS of a connection without certificate until its first accepted push.
    public var tokenStreamLimit: UInt32 = 1
    /// Replaces `streamLimit` from time to time, at random.
    public var limitWalk: LimitWalk?
    public var overLimit = OverLimit.refuse
    /// The limit falls to 1 after an answer of 4xx but 410, and comes back with the next 200 (seen until 2020).
    public var dropsLimitAfterRejection = false
    /// Every so many requests of a connection it says GOAWAY, and answers what it has seen. 0 is never.
    public var goAwayEvery = 0
    /// Nobody listens on the port: a dial gets ECONNREFUSED.
    public var refusesConnections = false
    public var connectLimit: ConnectLimit?
    /// How long a connection may be without a request; `nil` is for ever.
    public var idleLimit: Duration?
    public var idleFault = IdleFault.goAway
    /// Neither reads nor writes nor accepts: the half-open connection.
    public var isFrozen = false
    /// PINGs get no ACK.
    public var ignoresPings = false
    /// Windows are never enlarged: a client can send 65,535 bytes in all on a connection. For connections that are new.
    public var withholdsWindowUpdates = false
    /// INITIAL_WINDOW_SIZE of the first SETTINGS; `nil` leaves the entry out, which means 65,535. For connections that are new.
    public var initialWindow: UInt32?
    /// Answers come in DATA frames of one byte, header blocks in CONTINUATION frames of one byte.
    public var splitsFrames = false
    /// Bytes in one TLS record, 16,384 at most.
    public var recordBytes = 16384

    public init() {}

    /// Whether a client that shows a certificate gets a TLS alert.
    var refusesHandshakes: Bool { refusals.contains(Refusal(.certificate)) }

    /// What a push gets for the sake of the credential that its connection has shown, valid as that is.
    func refusal(certificate hasCertificate: Bool, key: String?) -> Reason? {
        refusals.first { refusal in
            switch refusal.credential {
            case .certificate: hasCertificate
            case .key(let id): !hasCertificate && id == key
            }
        }?.reason
    }
}
