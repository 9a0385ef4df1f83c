import Harness
import Testing

@Suite("docs/client.md")
struct ClientPageTests {
    private static let sources = ["QuickStart", "Service", "Simulation"].map {
        Checkout.read("Examples/client/Sources/quick-start/\($0).swift")
    }

    /// The fenced examples, without their fences.
    private static let examples = Checkout.read("docs/client.md").components(between: "```swift\n", and: "```\n")

    @Test func `quotes compiled code`() {
        #expect(Self.examples.count >= 5)
        for example in Self.examples {
            #expect(Self.sources.contains { $0.contains(example) }, "not in Examples/client:\n\(example)")
        }
    }
}

extension String {
    /// Returns the texts between each opening and its closing.
    fileprivate func components(between opening: String, and closing: String) -> [String] {
        split(separator: opening, omittingEmptySubsequences: false).dropFirst().compactMap { part in
            part.firstRange(of: closing).map { String(part[..<$0.lowerBound]) }
        }
    }
}
