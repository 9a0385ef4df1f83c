import JSONBytes
import Platform
@testable import PushPool

/// PEM texts, and DER between the lines of a PEM text.
enum CertificateFuzz {
    static func run(_ bytes: [UInt8]) throws {
        var input = FuzzInput(bytes)
        let choice = input.byte()
        let body = Array(input.rest)
        switch choice % 5 {
        case 0: try read(certificates: body)
        case 1: try read(certificates: pem("CERTIFICATE", body))
        case 2: read(key: body)
        case 3: read(key: pem("PRIVATE KEY", body))
        default: _ = Certificate.topics(inExtension: body)
        }
    }

    private static func read(certificates pem: [UInt8]) throws {
        guard let certificates = try? Certificate.all(pem: pem) else { return }
        for certificate in certificates {
            let facts = certificate.facts
            for now in [Int64(0), 1_700_000_000, 253_402_300_799] {
                _ = facts.daysLeft(now: now)
                _ = facts.faultOfDates(now: now)
            }
            _ = facts.defaultTopic
            _ = try? certificate.pem()
        }
        _ = Credential.facts(ofCertificates: pem, keyPEM: pem, passphrase: nil)
    }

    /// Without a passphrase: the bytes could ask for billions of iterations.
    private static func read(key pem: [UInt8]) {
        _ = Credential.fault(ofKey: pem, passphrase: nil)
        _ = Credential.fault(ofSigningKey: pem)
    }

    private static func pem(_ title: String, _ der: [UInt8]) -> [UInt8] {
        var text = Array("-----BEGIN \(title)-----\n".utf8)
        let base64 = Base64.encode(der)
        for start in stride(from: 0, to: base64.count, by: 64) {
            text += base64[start..<min(start + 64, base64.count)] + [UInt8(ascii: "\n")]
        }
        return text + Array("-----END \(title)-----\n".utf8)
    }
}

/// PKCS#12 files, without and with a password.
enum PKCS12Fuzz {
    static func run(_ bytes: [UInt8]) {
        if hasLargeCount(bytes) { return }
        for password in ["", "secret"] {
            _ = Credential.fault(ofPKCS12: bytes, password: password)
            _ = Credential.facts(ofPKCS12: bytes, password: password)
        }
    }

    /// Whether an iteration count may have more than 16 bits, which would take hours. It is the integer behind the salt, an octet
    /// string.
    private static func hasLargeCount(_ bytes: [UInt8]) -> Bool {
        bytes.indices.dropLast(4).contains { place in
            let next = place + 2 + Int(bytes[place + 1])
            guard bytes[place] == 4, next + 1 < bytes.count, bytes[next] == 2 else { return false }
            return bytes[next + 1] > 2
        }
    }
}

/// The file that stores a provider token for other processes.
enum TokenFuzz {
    static func run(_ bytes: [UInt8]) throws {
        guard let saved = SavedToken(text: bytes) else { return }
        try BrokenPromise.unless(SavedToken(text: saved.text) == saved, "the file is written as another one")
        for unixTime in [Int64(0), 1_700_000_000, 253_402_300_799] {
            let moment = Moment(now: .now, unixTime: unixTime)
            guard let schedule = TokenSchedule(saved, at: moment) else { continue }
            let token = ProviderToken(bytes: saved.bytes, issuedAt: saved.issuedAt, generation: 1, mintedAt: moment.now)
            _ = schedule.isDue(forNewSession: true, now: moment.now)
            _ = schedule.mayRenew(now: moment.now)
            _ = schedule.saved(token, at: moment)
        }
    }
}
