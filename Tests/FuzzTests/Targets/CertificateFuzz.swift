import JSONBytes

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
