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
            "Sources/Platform/Sockets/Digests.swift", "Sources/Platform/Sockets/TLSContext.swift",
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
}
