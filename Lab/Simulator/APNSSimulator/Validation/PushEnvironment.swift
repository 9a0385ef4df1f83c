/// The simulated environment of APNs.
public enum PushEnvironment: String, Sendable, CaseIterable {
    case production, sandbox
}
