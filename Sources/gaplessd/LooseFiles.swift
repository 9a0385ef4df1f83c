import PushPool

extension Settings {
    /// The key files that an app names in whose settings something is wrong: they are looked at all the same, so that one run
    /// shows everything.
    struct LooseFiles: Sendable, Equatable {
        /// `apps.beta.`; empty at the top level.
        var keyPrefix: String
        /// By their keys, in the order of the README's table.
        var paths: [(key: String, path: String)]
        /// They may be what is wrong in the settings: whether they are the right ones is not told.
        var keyPassword: Secret?
        var pkcs12Password: Secret?

        static let keys = ["apns_cert_path", "apns_key_path", "apns_p12_path", "apns_auth_key_path", "apns_ca_path"]

        static func == (left: Self, right: Self) -> Bool {
            left.keyPrefix == right.keyPrefix && left.keyPassword == right.keyPassword && left.pkcs12Password == right.pkcs12Password
                && left.paths.elementsEqual(right.paths, by: ==)
        }

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
    }
}
