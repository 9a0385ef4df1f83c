import GaplessClient
import Testing

@Suite("The module GaplessClient")
struct ModuleNameTests {
    @Test func `names each type of the library, also beside another type of the same name`() throws {
        struct Push {}
        let push = try GaplessClient.Push(to: GaplessClient.Push.Target.device("ab"), json: Array("{}".utf8))
        #expect(push.target == .device("ab") && Push.self != GaplessClient.Push.self)
        #expect(GaplessClient.APNSClient.self == APNSClient.self)
    }
}
