import Harness
import Testing

@testable import gaplessd

@Suite("The app of a topic")
struct AppRoutesTests {
    private let topics = ["com.a", "com.b", "com.c"]

    /// An app's own topic goes before one that its certificate covers, and an app of the settings before a removed one.
    private func best(_ topic: String, _ apps: [AppRoutes.App]) -> Int? {
        for isRemoved in [false, true] {
            let present = apps.indices.filter { apps[$0].isRemoved == isRemoved }
            if let own = present.first(where: { apps[$0].topic == topic }) { return own }
            if let certified = present.first(where: { apps[$0].certified.contains(topic) }) { return certified }
        }
        return nil
    }

    @Test func `after any changes, each topic belongs to the best of its apps`() {
        let seed = UInt64.random(in: 0..<1 << 32)
        var random = SeededGenerator(seed: seed)
        for _ in 0..<50 {
            var (apps, routes) = ([AppRoutes.App](), AppRoutes())
            for _ in 0..<40 {
                let index = Int.random(in: 0...min(apps.count, 5), using: &random)
                let app = AppRoutes.App(
                    name: "app\(index)", topic: Bool.random(using: &random) ? topics.randomElement(using: &random) : nil,
                    certified: topics.filter { _ in Bool.random(using: &random) },
                    isRemoved: Int.random(in: 0..<4, using: &random) == 0)
                if index == apps.count { apps.append(app) } else { apps[index] = app }
                routes.set(app, at: index)
                for topic in topics {
                    #expect(routes.app(name: nil, topic: topic) == best(topic, apps), "seed \(seed)")
                }
            }
        }
    }
}
