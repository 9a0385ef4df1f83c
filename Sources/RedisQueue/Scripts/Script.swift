internal import Platform

/// A Lua script and its name for EVALSHA.
package struct Script: Sendable, Equatable {
    package let text: String
    package let sha: String

    init(_ text: String) {
        self.text = text
        sha = SHA1.hexadecimal(of: text)
    }

    package static func == (left: Self, right: Self) -> Bool { left.sha == right.sha }
}
