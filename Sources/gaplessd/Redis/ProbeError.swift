import PushPool

/// The reason why a service cannot be used with these settings.
enum ProbeError: Error, CustomStringConvertible {
    /// It does not respond: the settings may be right.
    case unavailable(String)
    /// It responds but cannot serve now: TLS fails, or its memory is full.
    case failed(String)
    /// It responds and refuses the settings.
    case refused(String)

    var isOurs: Bool {
        if case .refused = self { true } else { false }
    }

    var description: String {
        switch self {
        case .unavailable(let why): "no response: \(why.printable)"
        case .failed(let why): "failed: \(why.printable)"
        case .refused(let why): "refused: \(why.printable)"
        }
    }
}
