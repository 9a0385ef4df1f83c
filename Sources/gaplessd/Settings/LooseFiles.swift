import PushPool

extension Settings {
    /// The key files that an app names in whose settings something is wrong: they are looked at all the same, so that one run
    /// shows everything.
    struct LooseFiles: Sendable, Equatable {
        struct File: Sendable, Equatable {
            /// `apns_ca_path`
            var key: String
            /// Where it stands: `apps.beta.apns_ca_path`, or without the app where that inherits it.
            var place: String
            var path: String
        }

        /// `nil` is the top level.
        var app: String?
        /// In the order of the README's table.
        var files: [File]
        /// They may be what is wrong in the settings: whether they are the right ones is not told.
        var keyPassword: Secret?
        var pkcs12Password: Secret?

        static let keys = ["apns_cert_path", "apns_key_path", "apns_p12_path", "apns_auth_key_path", "apns_ca_path"]

        /// What is wrong with one of them by itself, if anything.
        func fault(of bytes: [UInt8], at key: String) -> String? {
            let error =
                switch key {
                case "apns_cert_path", "apns_ca_path": Credential.fault(ofCertificates: bytes)
                case "apns_key_path": Credential.fault(ofKey: bytes, passphrase: keyPassword?.text)
                case "apns_p12_path": Credential.fault(ofPKCS12: bytes, password: pkcs12Password?.text ?? "")
                case "apns_auth_key_path": Credential.fault(ofSigningKey: bytes)
                default: CredentialError?.none
                }
            return error?.part == .password ? nil : error?.description
        }

        /// What the certificate in one of them says.
        ///
        /// - Parameter contents: by keys; what could be read.
        func certificate(in contents: [String: [UInt8]], at key: String) -> CertificateFacts? {
            guard let bytes = contents[key] else { return nil }
            return switch key {
            case "apns_cert_path":
                Credential.facts(
                    ofCertificates: bytes, keyPEM: contents["apns_key_path"] ?? bytes, passphrase: keyPassword?.text)
            case "apns_p12_path": Credential.facts(ofPKCS12: bytes, password: pkcs12Password?.text ?? "")
            default: nil
            }
        }
    }
}
