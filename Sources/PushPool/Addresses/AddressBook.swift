import Clocks
internal import Sockets

/// Which of a host's addresses the next dial goes to. One for all sessions of a pool.
///
/// Apple spreads load by DNS, and records can point at dead hosts (jchambers/pushy#1044): so sessions spread over distinct
/// addresses, and one that failed is left alone for a while as long as there is another.
struct AddressBook: Sendable {
    static let badFor: Duration = .seconds(60)

    private var badUntil: [SocketAddress: Instant] = [:]
    private var sessions: [SocketAddress: Int] = [:]

    /// Chooses among `candidates`, and counts a session on the one it returns until `release`.
    ///
    /// The good ones first, of these the least used, of these any.
    mutating func choose(
        from candidates: [SocketAddress], now: Instant, using generator: inout some RandomNumberGenerator
    ) -> SocketAddress? {
        badUntil = badUntil.filter { $0.value > now }
        let best = candidates.shuffled(using: &generator).min { left, right in
            let isLeftBad = badUntil[left] != nil
            let isRightBad = badUntil[right] != nil
            if isLeftBad != isRightBad { return isRightBad }
            return sessions[left, default: 0] < sessions[right, default: 0]
        }
        if let best { sessions[best, default: 0] += 1 }
        return best
    }

    /// The session on this address is gone, or never came to be.
    mutating func release(_ address: SocketAddress) {
        guard let count = sessions[address] else { return }
        sessions[address] = count > 1 ? count - 1 : nil
    }

    /// No session came of this address.
    mutating func failed(_ address: SocketAddress, now: Instant) {
        badUntil[address] = now + AddressBook.badFor
        release(address)
    }
}
