/// A call of gaplessd for the operator to copy.
struct ShellCommand {
    var text: String

    /// - Parameters:
    ///   - call: `pause`, `dead` and so on.
    ///   - file: the settings.
    init(_ call: String, _ file: String, _ arguments: String...) {
        text = (["gaplessd", call, file] + arguments).map(Self.quoted).joined(separator: " ")
    }

    /// The word as a POSIX shell reads it.
    static func quoted(_ word: String) -> String {
        let isPlain = word.utf8.allSatisfy { byte in
            (0x30...0x39).contains(byte) || (0x41...0x5A).contains(byte) || (0x61...0x7A).contains(byte)
                || "_-./:=@,+".utf8.contains(byte)
        }
        if isPlain && !word.isEmpty { return word }
        return "'" + word.replacing("'", with: "'\\''") + "'"
    }

    var html: String { "<code class=\"command\" tabindex=\"0\">\(text.forHTML)</code>" }
}
