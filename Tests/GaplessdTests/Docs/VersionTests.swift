import Harness
import Testing

@testable import gaplessd

@Suite("The version")
struct VersionTests {
    @Test func `the program prints it`() throws {
        #expect(try Call(["--version"]).output == gaplessdVersion + "\n")
    }

    @Test func `the changelog begins with it, the older releases have dates, and the first one is short`() throws {
        let releases = Checkout.read("CHANGELOG.md").split(separator: "\n## ").dropFirst()
        let newest = try #require(releases.first)
        #expect(newest.hasPrefix("\(gaplessdVersion) "))
        for release in releases.dropFirst() { #expect(release.prefixMatch(of: /\d+\.\d+\.\d+ - \d{4}-\d\d-\d\d\n/) != nil) }
        let first = try #require(releases.last)
        #expect(first.hasPrefix("0.1.0 "))
        #expect(first.split(separator: "\n", omittingEmptySubsequences: false).count <= 40)
    }

    @Test func `the README names the package of this version`() {
        let names = Checkout.read("README.md").matches(of: /gaplessd_(\d+\.\d+\.\d+)_amd64\.deb/).map(\.output.1)
        #expect(!names.isEmpty)
        #expect(names.allSatisfy { $0 == gaplessdVersion })
    }
}
