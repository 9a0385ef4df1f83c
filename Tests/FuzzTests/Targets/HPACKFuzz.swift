@testable import PushPool

/// The header blocks of one connection, read by `HeaderInflater` as usual, and by nghttp2 alone.
enum HPACKFuzz {
    /// Each block follows a byte with its length, and another with the place at which it is cut.
    static func run(_ bytes: [UInt8]) throws {
        var input = FuzzInput(bytes)
        let collectsAPNSID = input.byte() & 1 == 0
        var usual = HeaderInflater()
        var reference = HeaderInflater()
        while !input.isEmpty {
            let (length, cut) = (Int(input.byte()), Int(input.byte()))
            let block = input.bytes(length)
            let empty = IncomingResponse(collectsAPNSID: collectsAPNSID)
            let (response, error) = inflate([block], &usual, empty)
            // nghttp2 reads every block that comes in parts.
            let (expected, expectedError) = inflate([Array(block.prefix(cut)), Array(block.dropFirst(cut))], &reference, empty)
            try BrokenPromise.unless(error == expectedError, "\(block): \(describe(error)), not \(describe(expectedError))")
            try BrokenPromise.unless(response.status == expected.status, "\(block): status \(response.status)")
            try BrokenPromise.unless(response.apnsID == expected.apnsID, "\(block): id \(response.apnsID ?? "")")
            // A date is read at two moments.
            let later = abs((response.retryAfter ?? -1000) - (expected.retryAfter ?? -1000))
            try BrokenPromise.unless(later <= 1, "\(block): retry-after differs by \(later)")
            if error != nil { return }
        }
    }

    private static func describe(_ error: HTTP2Error?) -> String { error.map { $0.text } ?? "no error" }

    private static func inflate(
        _ pieces: [[UInt8]], _ inflater: inout HeaderInflater, _ empty: IncomingResponse
    ) -> (IncomingResponse, HTTP2Error?) {
        var response = empty
        response.beginBlock()
        do throws(HTTP2Error) {
            for (number, piece) in pieces.enumerated() {
                try inflater.inflate(piece.span, isLast: number == pieces.count - 1, into: &response)
            }
        } catch {
            return (response, error)
        }
        return (response, nil)
    }
}
