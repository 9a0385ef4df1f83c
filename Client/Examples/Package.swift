// swift-tools-version: 6.2
import PackageDescription

let client: Target.Dependency = .product(name: "APNSClient", package: "gaplessd")

let package = Package(
    name: "client-example",
    platforms: [.macOS(.v15)],
    dependencies: [
        // In your package: .package(url: "https://…/gaplessd", from: "…", traits: […])
        .package(name: "gaplessd", path: "../..", traits: ["ServiceLifecycle", "Logging", "Metrics"]),
        .package(url: "https://github.com/apple/swift-collections", from: "1.6.0"),
        .package(url: "https://github.com/swift-server/swift-service-lifecycle", from: "2.13.0"),
        .package(url: "https://github.com/apple/swift-log", from: "1.6.0"),
        .package(url: "https://github.com/apple/swift-metrics", from: "2.5.0"),
        // Stands in for pointfreeco/swift-clocks, with its module and its public names.
        .package(path: "names/swift-clocks"),
    ],
    targets: [
        .executableTarget(
            name: "quick-start",
            dependencies: [
                .product(name: "GaplessClient", package: "gaplessd"), .product(name: "APNSSimulator", package: "gaplessd"),
                .product(name: "Logging", package: "swift-log"),
                .product(name: "Metrics", package: "swift-metrics"), .product(name: "MetricsTestKit", package: "swift-metrics"),
                .product(name: "ServiceLifecycle", package: "swift-service-lifecycle"),
            ]),
        // The program of the tutorial.
        .executableTarget(
            name: "first-push", dependencies: [client, .product(name: "APNSSimulator", package: "gaplessd")]),
        .executableTarget(
            name: "client-load",
            dependencies: [
                client, .product(name: "Collections", package: "swift-collections"),
                .product(name: "Clocks", package: "swift-clocks"),
            ]),
    ]
)
