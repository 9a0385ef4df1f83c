import Foundation
import Harness
import Testing

@Suite("The tree")
struct LayoutTests {
    /// The files that own objects of a C library. Nothing else may import its module.
    private static let owners: [String: Set<String>] = [
        "CNghttp2": [
            "Sources/PushPool/HTTP2/HeaderInflater.swift", "Lab/Simulator/APNSSimulator/Server/HTTP2Server.swift",
            "Lab/Simulator/APNSSimulator/Server/Inbox.swift",
        ],
        "CHiredis": ["Sources/RedisQueue/Connection/ReplyReader.swift"],
        "COpenSSL": [
            "Sources/Platform/Digests.swift", "Sources/Platform/Sockets/TLSContext.swift",
            "Sources/Platform/Sockets/TLSStream.swift", "Sources/PushPool/Credentials/Certificate.swift",
            "Sources/PushPool/Credentials/PrivateKey.swift", "Sources/PushPool/Credentials/SigningKey.swift",
            "Sources/PushPool/Credentials/TokenSeal.swift",
            "Lab/Simulator/APNSSimulator/Credentials/CertificateMaker.swift",
            "Lab/Simulator/APNSSimulator/Credentials/SigningKey.swift",
        ],
    ]

    @Test func `C libraries are imported by their owners only`() {
        var violations: [String] = []
        for file in SourceFile.product + SourceFile.lab {
            for line in String(decoding: file.swift.code, as: UTF8.self).split(separator: "\n") where line.contains("import C") {
                let module = String(line.split(separator: " ").last ?? "")
                guard let files = Self.owners[module], !files.contains(file.path) else { continue }
                violations.append("\(file.path) imports \(module)")
            }
        }
        Rule.ownersOfC.expectNone(violations)
    }

    @Test func `no line is too long`() {
        let violations = SourceFile.all.flatMap { file in
            file.lines.enumerated().filter { $0.element.count > 130 }.map { "\(file.path):\($0.offset + 1)" }
        }
        Rule.lineLength.expectNone(violations)
    }

    /// SwiftPM refuses a graph of packages in which two targets have the same name.
    @Test func `no target has the name of a module that other packages are known to have`() {
        let taken: Set<String> = [
            "Algorithms", "AsyncAlgorithms", "AsyncHTTPClient", "Atomics", "BasicContainers", "BitCollections", "Clocks",
            "Collections", "Crypto", "DequeModule", "Foundation", "GRDB", "HashTreeCollections", "HeapModule", "HTTPTypes",
            "Hummingbird", "Logging", "Metrics", "NIOCore", "Numerics", "OrderedCollections", "ServiceLifecycle", "SystemPackage",
            "Tracing", "APNS", "APNSCore",
        ]
        let targets = Checkout.read("Package.swift").matches(of: /(?:arget|Library)\(\s*name: "([^"]+)"/).map { String($0.1) }
        #expect(targets.count > 15)
        #expect(targets.filter(taken.contains) == [])
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

    @Test func `a file is searched without its comments, literals and names in backticks`() {
        let text = SwiftText(
            """
            // One.
            // Two.
            let a = "b \\(c("d")) e" /* f */ + #"g"h"# // i
            func `j k`() {}
            """)
        let words = String(decoding: text.code, as: UTF8.self).split { !$0.isLetter }
        #expect(words == ["let", "a", "c", "func"])
    }
}

@Suite("The tests")
struct TestHygieneTests {
    @Test func `no test waits for time to pass`() {
        let calls = ["usleep(", "Thread.sleep", "Task.sleep", "nanosleep(", " sleep("]
        let endlessWait = /waitUntil.*\{\s*(?:return )?false\s*\}/
        var violations: [String] = []
        for file in SourceFile.tests {
            let code = String(decoding: file.swift.code, as: UTF8.self)
            for (index, line) in code.split(separator: "\n", omittingEmptySubsequences: false).enumerated() {
                violations += calls.filter { line.contains($0) }.map { "\(file.path):\(index + 1): \($0)" }
            }
            violations += code.matches(of: endlessWait).map { "\(file.path): \($0.0)" }
        }
        Rule.sleeping.expectNone(violations)
    }
}

/// A rule of the tree.
enum Rule: String {
    case folderOrder = "a file names types of its own or lower folders"
    case ownersOfC = "only owners of C objects import C modules"
    case lineLength = "a line has at most 130 characters"
    case ownSentences = "no code matches a sentence of ours"
    case sleeping = "no test sleeps"
    case readme = "README.md has at most 1,300 words"
    case documents = "every page is linked and every link resolves"

    /// Fails for every violation. A violation begins with its path.
    func expectNone(_ violations: [String]) {
        #expect(violations.isEmpty, "\(violations.count) violations of \"\(rawValue)\":\n\(violations.joined(separator: "\n"))")
    }
}
