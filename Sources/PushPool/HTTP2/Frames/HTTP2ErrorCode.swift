/// RFC 9113, 7.
enum HTTP2ErrorCode: UInt32 {
    case noError = 0
    case protocolError = 1
    case flowControlError = 3
    case frameSizeError = 6
    case refusedStream = 7
    case cancel = 8
    case compressionError = 9
    case enhanceYourCalm = 11
}
