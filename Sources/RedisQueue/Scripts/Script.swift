/// A Lua script and the name that EVALSHA knows it by.
package struct Script: Sendable, Equatable {
    package let text: String
    package let sha: String

    init(_ text: String) {
        self.text = text
        sha = sha1Hex(text)
    }

    package static func == (left: Self, right: Self) -> Bool { left.sha == right.sha }
}
