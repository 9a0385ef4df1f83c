/// Which part of Apple's service is simulated.
public enum PushEnvironment: String, Sendable, CaseIterable {
    case production, sandbox
}
