import Harness
import Testing

@Suite("The English")
struct EnglishTests {
    @Test func `finds a mannerism, and nothing in plain text`() {
        #expect(Mannerism.phrases(in: "Sent anew,\nall the   same.") == ["anew", "all the same"])
        #expect(Mannerism.phrases(in: "It fails. Who reads this must guess, for it says nothing.") == [", for it", ". who"])
        #expect(Mannerism.phrases(in: "The session waits for it. Returns what Redis sent.") == [])
    }

    @Test func `splits a file into code and passages`() {
        let text = SwiftText(
            """
            // One.
            // Two.
            let a = "b \\(c("d")) e" /* f */ + #"g"h"# // i
            func `j k`() {}
            """)
        #expect(text.passages.map(\.text) == [" One.\n Two.", "d", "b ~ e", "/* f */", #"g"h"#, " i", "`j k`"])
        #expect(text.passages.map(\.line) == [1, 3, 3, 3, 3, 3, 4])
        let words = String(decoding: text.code, as: UTF8.self).split { !$0.isLetter }
        #expect(words == ["let", "a", "c", "func"])
    }

    @Test func `comments, messages and test names are plain`() {
        let violations = SourceFile.all.filter {
            !$0.path.hasSuffix("TidyTests/Mannerism.swift") && $0.typeName != "EnglishTests"
        }
        .flatMap { file in
            file.swift.passages.flatMap { passage in
                Mannerism.phrases(in: passage.text).map { "\(file.path):\(passage.line): \($0)" }
            }
        }
        Rule.mannerisms.expectNone(violations)
    }

    @Test func `documents, settings files and scripts are plain`() {
        let violations = Document.all.flatMap { document in
            document.paragraphs.flatMap { paragraph in
                Mannerism.phrases(in: paragraph.text).map { "\(document.path):\(paragraph.line): \($0)" }
            }
        }
        Rule.mannerisms.expectNone(violations)
    }

    /// A message is for people: a decision looks at a type. Replies of Redis and of OpenSSL are not ours.
    @Test func `no code looks for a sentence`() {
        let searches = ["contains(\"", "hasPrefix(\"", "hasSuffix(\"", "firstRange(of: \"", "== \"", "case \"", "has(\""]
        var violations: [String] = []
        for file in SourceFile.product {
            for (index, line) in file.lines.enumerated() {
                for search in searches {
                    guard let found = line.firstRange(of: search) else { continue }
                    let words = line[found.upperBound...].prefix { $0 != "\"" }.split(separator: " ")
                    // Redis begins its error replies with a code in capitals.
                    if words.first?.allSatisfy(\.isUppercase) == true { continue }
                    if words.count(where: { $0.allSatisfy(\.isLetter) }) >= 3 {
                        violations.append("\(file.path):\(index + 1): \(words.joined(separator: " "))")
                    }
                }
            }
        }
        Rule.ownSentences.expectNone(violations)
    }
}
