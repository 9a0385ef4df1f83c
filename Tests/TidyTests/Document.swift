import Foundation
import Harness

/// A file that users read: a page, an example of settings, a unit, a script.
struct Document {
    struct Paragraph {
        var line: Int
        var text: String
    }

    let path: String
    let text: String

    init(_ path: String) {
        self.path = path
        text = Checkout.read(path)
    }

    static let pages = (topLevel(suffix: ".md") + SourceFile.files(below: "docs", suffix: ".md")).map(Document.init)

    static let all =
        pages
        + (SourceFile.files(below: "config", suffix: ".json") + SourceFile.files(below: "deploy", suffix: "")
        + SourceFile.files(below: "scripts", suffix: "").filter { !$0.hasSuffix(".patch") } + ["Makefile", ".ci/run"])
        .map(Document.init)

    private static func topLevel(suffix: String) -> [String] {
        ((try? FileManager.default.contentsOfDirectory(atPath: Checkout.path)) ?? []).filter { $0.hasSuffix(suffix) }.sorted()
    }

    /// Consecutive lines of prose. Blank lines, table rows, list items and headings separate them; fenced examples are left out.
    var paragraphs: [Paragraph] {
        var paragraphs: [Paragraph] = []
        var isExample = false
        var isOpen = false
        for (index, line) in text.split(separator: "\n", omittingEmptySubsequences: false).enumerated() {
            if path.hasSuffix(".md"), line.hasPrefix("```") {
                isExample.toggle()
                isOpen = false
                continue
            }
            if isExample { continue }
            let isStart =
                ["|", "- ", "#", "* ", "//"].contains { line.drop { $0 == " " }.hasPrefix($0) } && path.hasSuffix(".md")
            if line.allSatisfy({ $0 == " " }) || isStart { isOpen = false }
            if isOpen {
                paragraphs[paragraphs.count - 1].text += " " + line.drop { $0 == "#" }
            } else if line.contains(where: { $0 != " " }) {
                // Each cell of a table is a sentence of its own.
                paragraphs += line.split(separator: "|").map {
                    Paragraph(line: index + 1, text: $0.drop { $0 == "#" }.description)
                }
                isOpen = !line.hasPrefix("|") && !line.hasPrefix("#")
            }
        }
        return paragraphs
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
