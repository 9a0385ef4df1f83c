import Testing

@testable import PushPool

struct SessionTokensTests {
    @Test func `an ended session is known until many others have ended`() {
        var tokens = SessionTokens()
        tokens.uses(1, SessionID(1))
        tokens.uses(2, SessionID(2))
        tokens.end(of: SessionID(1))
        tokens.end(of: SessionID(3))
        for number in 10..<UInt64(10 + SessionTokens.mostEnded - 1) {
            tokens.uses(3, SessionID(number))
            tokens.end(of: SessionID(number))
        }
        #expect(tokens[SessionID(1)] == 1)
        tokens.end(of: SessionID(2))
        #expect(tokens[SessionID(1)] == nil)
        #expect(tokens[SessionID(2)] == 2)
        #expect(tokens[SessionID(3)] == nil)
    }
}
