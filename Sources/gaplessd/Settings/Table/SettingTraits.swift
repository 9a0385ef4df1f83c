/// The parts of a type that do not depend on its Swift type.
struct SettingTraits: Sendable {
    /// The words after "expected" in a fault.
    var expected: String
    var schema = SettingSchema.text
    /// Whether the value is never shown. `NAME_file` then names a file that contains it.
    var isSecret = false
    /// Whether the file of a secret may be empty.
    var mayBeEmpty = false
    /// Whether the value is the path of a file that is read.
    var namesFile = false
}
