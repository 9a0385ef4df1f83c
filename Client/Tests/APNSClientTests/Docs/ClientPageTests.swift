import Harness
import Testing

@Suite("docs/client.md")
struct ClientPageTests {
    private static let sources = ["QuickStart", "Service", "Simulation", "Observers"].map {
        Checkout.read("Client/Examples/Sources/quick-start/\($0).swift")
    }

    /// The fenced examples, without their fences.
    private static let examples = Checkout.read("docs/client.md").components(between: "```swift\n", and: "```\n")

    @Test func `quotes compiled code`() {
        #expect(Self.examples.count >= 5)
        for example in Self.examples {
            #expect(Self.sources.contains { $0.contains(example) }, "not in Client/Examples:\n\(example)")
        }
    }
}

@Suite("The tutorial")
struct TutorialTests {
    private static let folder = "Client/Sources/APNSClient/APNSClient.docc"
    private static let program = Checkout.read("Client/Examples/Sources/first-push/main.swift")
    private static let steps = Checkout.read("\(folder)/Tutorials/FirstPush.tutorial")
        .matches(of: /file: "([^"]+)"/).map { Checkout.read("\(folder)/Resources/\($0.1)") }

    @Test func `ends with the compiled program, and each step adds to the one before`() {
        #expect(Self.steps.count == 7)
        for (step, next) in zip(Self.steps.dropFirst(), Self.steps.dropFirst(2)) {
            #expect(next.hasPrefix(step) && next.count > step.count)
        }
        #expect(Self.steps.last == Self.program)
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
