import PushPool

/// Why a service is of no use with these settings.
enum ProbeError: Error, CustomStringConvertible {
    /// It does not answer: the settings may be right.
    case unavailable(String)
    /// It is there and cannot serve us now: TLS comes to nothing, or its memory is full.
    case failed(String)
    /// It answers, and does not want us.
    case refused(String)

    var isOurs: Bool {
        if case .refused = self { true } else { false }
    }

    var description: String {
        switch self {
        case .unavailable(let why): "no answer: \(why.printable)"
        case .failed(let why): "failed: \(why.printable)"
        case .refused(let why): "refused: \(why.printable)"
        }
    }
}
