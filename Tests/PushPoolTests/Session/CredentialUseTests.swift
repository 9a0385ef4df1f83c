import Testing

@testable import PushPool

@Suite("Which session presents the credential in use")
struct CredentialUseTests {
    private var use = CredentialUse()

    private func present(_ numbers: ClosedRange<UInt64>) -> [UInt64] { numbers.filter { use.isPresent(SessionID($0)) } }

    @Test mutating func `none between the request and its application, then those of the new credential`() {
        #expect(present(1...5) == [1, 2, 3, 4, 5])
        use.request()
        #expect(present(1...5) == [])
        use.begin(after: SessionID(3), isOnTrial: false)
        use.apply()
        #expect(present(1...5) == [4, 5])
    }

    @Test mutating func `none on trial, and those of the new credential once one of them is accepted`() {
        use.begin(after: SessionID(2), isOnTrial: true)
        use.prove(SessionID(1))
        #expect(present(1...5) == [])
        use.prove(SessionID(3))
        #expect(present(1...5) == [3, 4, 5])
        use.adopt()
        #expect(present(1...5) == [3, 4, 5])
    }

    @Test mutating func `after a refusal those of the old credential, also later ones`() {
        use.begin(after: SessionID(2), isOnTrial: true)
        use.prove(SessionID(3))
        // Another session was refused first.
        use.revert(after: SessionID(4))
        #expect(present(1...6) == [1, 2, 5, 6])
        use.begin(after: SessionID(6), isOnTrial: true)
        use.begin(after: SessionID(7), isOnTrial: true)
        use.prove(SessionID(7))
        #expect(present(1...8) == [], "that trial is over")
        use.adopt()
        #expect(present(1...8) == [8])
    }

    @Test mutating func `sessions of the old credential present it as long as they live, although a new one is refused`() {
        for trial in UInt64(0)..<100 {
            // Session 1 stays open; of the others, every second one is on trial.
            use.begin(after: SessionID(2 * trial + 1), isOnTrial: true)
            use.revert(after: SessionID(2 * trial + 2))
            #expect(use.isPresent(SessionID(1)) && !use.isPresent(SessionID(2 * trial + 2)))
            #expect(use.isPresent(SessionID(2 * trial + 3)))
        }
        use.begin(after: SessionID(201), isOnTrial: false)
        #expect(present(1...202) == [202])
    }
}

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
