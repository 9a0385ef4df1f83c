import Foundation
import Harness
import Testing

@Suite("The fuzz targets")
struct CorpusTests {
    /// The corpus of a target: examples, and findings of `make fuzz`.
    private static func corpus(of target: FuzzTarget) -> [(name: String, bytes: [UInt8])] {
        let folder = "\(Checkout.path)/Tests/FuzzTests/Corpus/\(target.rawValue)"
        let names = (try? FileManager.default.contentsOfDirectory(atPath: folder)) ?? []
        return names.sorted().map { ($0, File.bytes(of: "\(folder)/\($0)", from: 0)) }
    }

    @Test(arguments: FuzzTarget.allCases) func `keep their promises with every file of the corpus`(target: FuzzTarget) {
        let corpus = Self.corpus(of: target)
        #expect(!corpus.isEmpty)
        for file in corpus {
            #expect(throws: Never.self, "\(target.rawValue)/\(file.name)") { try target.run(file.bytes) }
        }
    }

    @Test(arguments: FuzzTarget.allCases) func `keep their promises with changed files of the corpus`(target: FuzzTarget) {
        let seed = UInt64.random(in: 0...UInt64.max)
        print("CorpusTests \(target.rawValue): seed \(seed)")
        var random = SeededGenerator(seed: seed)
        let corpus = Self.corpus(of: target).map(\.bytes)
        for _ in 0..<300 {
            var bytes = corpus.randomElement(using: &random) ?? []
            for _ in 0...Int.random(in: 0...3, using: &random) {
                Self.change(&bytes, corpus.randomElement(using: &random) ?? [], &random)
            }
            #expect(throws: Never.self, "seed \(seed): \(bytes)") { try target.run(bytes) }
        }
    }

    private static func change(_ bytes: inout [UInt8], _ other: [UInt8], _ random: inout SeededGenerator) {
        let start = Int.random(in: 0...bytes.count, using: &random)
        let end = min(bytes.count, start + Int.random(in: 0...12, using: &random))
        switch Int.random(in: 0..<5, using: &random) {
        case 0: bytes.removeSubrange(start..<end)
        case 1: bytes.insert(contentsOf: Array(bytes[start..<end]), at: 0)
        case 2: bytes.replaceSubrange(start..<end, with: (start..<end).map { _ in UInt8.random(in: 0...255, using: &random) })
        case 3: bytes.replaceSubrange(start..<end, with: other.prefix(Int.random(in: 0...100, using: &random)))
        default: if start < end { bytes[start] ^= 1 << UInt8.random(in: 0...7, using: &random) }
        }
    }
}
