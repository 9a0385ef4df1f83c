import Foundation
import Harness
import Testing

@Suite("The documents")
struct DocumentTests {
    @Test func `README.md is short`() {
        let words = Document("README.md").text.split(whereSeparator: \.isWhitespace).count
        #expect(words > 500)
        Rule.readme.expectNone(words > 1300 ? ["README.md: \(words) words"] : [])
    }

    @Test func `every page of docs is linked from its index`() {
        let index = Document("docs/README.md").links
        let pages = SourceFile.files(below: "docs", suffix: ".md").map { $0.dropFirst("docs/".count) }
        #expect(pages.count > 8)
        Rule.documents.expectNone(pages.filter { $0 != "README.md" && !index.contains(String($0)) }.map { "not linked: \($0)" })
    }

    @Test func `every relative link names a file and a heading that exist`() {
        var violations: [String] = []
        var count = 0
        for page in Document.pages {
            for link in page.links where !link.contains("://") {
                count += 1
                let parts = link.split(separator: "#", maxSplits: 1, omittingEmptySubsequences: false)
                let folder = page.path.split(separator: "/").dropLast().map { $0 + "/" }.joined()
                let target = parts[0].isEmpty ? page.path : folder + parts[0]
                if !FileManager.default.fileExists(atPath: "\(Checkout.path)/\(target)") {
                    violations.append("\(page.path): \(link)")
                } else if parts.count > 1, !Document(target).anchors.contains(String(parts[1])) {
                    violations.append("\(page.path): \(link) has no such heading")
                }
            }
        }
        #expect(count > 20)
        Rule.documents.expectNone(violations)
    }

    @Test func `every file that CONTRIBUTING.md names exists`() {
        let named = Document("CONTRIBUTING.md").text.matches(of: /`((?:Sources|Lab|Tests|docs|scripts)\/[^`*…]+)`/).map {
            String($0.1)
        }
        let missing = named.filter { !FileManager.default.fileExists(atPath: "\(Checkout.path)/\($0)") }
        Rule.documents.expectNone((named.count < 14 ? ["only \(named.count) files are named"] : []) + missing)
    }
}

/// A page that users read.
struct Document {
    let path: String
    let text: String

    init(_ path: String) {
        self.path = path
        text = Checkout.read(path)
    }

    static let pages = (topLevel(suffix: ".md") + SourceFile.files(below: "docs", suffix: ".md")).map(Document.init)

    private static func topLevel(suffix: String) -> [String] {
        ((try? FileManager.default.contentsOfDirectory(atPath: Checkout.path)) ?? []).filter { $0.hasSuffix(suffix) }.sorted()
    }

    /// The targets of the links `[text](target)`, outside of fenced examples.
    var links: [String] {
        var isExample = false
        return text.split(separator: "\n").flatMap { line -> [String] in
            if line.hasPrefix("```") { isExample.toggle() }
            return isExample ? [] : line.matches(of: /\]\(([^)\s]+)\)/).map { String($0.1) }
        }
    }

    /// The anchors that GitHub makes of the headings.
    var anchors: Set<String> {
        Set(
            text.split(separator: "\n").filter { $0.hasPrefix("#") }.map { heading in
                heading.drop { $0 == "#" || $0 == " " }.lowercased().filter { $0.isLetter || $0.isNumber || " -_".contains($0) }
                    .replacing(" ", with: "-")
            })
    }
}
