/// A password. Only `text` reveals it; descriptions and dumps do not.
struct Secret: Sendable, Equatable, CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    let text: String

    init(_ text: String) { self.text = text }

    var description: String { "(secret)" }
    var debugDescription: String { description }
    var customMirror: Mirror { Mirror(self, children: []) }
}
