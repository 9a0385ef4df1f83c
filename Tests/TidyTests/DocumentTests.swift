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
