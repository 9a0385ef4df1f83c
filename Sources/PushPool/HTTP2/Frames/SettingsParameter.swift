/// The parameters of SETTINGS that mean something to a client (RFC 9113, 6.5.2).
enum SettingsParameter: UInt16 {
    case headerTableSize = 1
    case enablePush = 2
    case maxConcurrentStreams = 3
    case initialWindowSize = 4
    case maxFrameSize = 5
}
