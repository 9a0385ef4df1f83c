// swift-tools-version: 6.2
import PackageDescription

/// Settings of every target: the checks of Swift 6 and later as errors.
let strict: [SwiftSetting] = [
    .swiftLanguageMode(.v6),
    .enableUpcomingFeature("ExistentialAny"),
    .enableUpcomingFeature("MemberImportVisibility"),
    .enableUpcomingFeature("InternalImportsByDefault"),
    .treatAllWarnings(as: .error),
]

/// The same for a target that marks each unsafe construct with the word `unsafe`.
let memorySafe: [SwiftSetting] = strict + [.strictMemorySafety()]

let argumentParser: Target.Dependency = .product(name: "ArgumentParser", package: "swift-argument-parser")

let package = Package(
    name: "gaplessd",
    products: [
        .executable(name: "gaplessd", targets: ["gaplessd"]),
        .executable(name: "apns-simulator", targets: ["apns-simulator"]),
        .library(name: "GaplessClient", targets: ["GaplessClient"]),
        // The earlier name of the same library.
        .library(name: "APNSClient", targets: ["APNSClient"]),
        .library(name: "APNSSimulator", targets: ["APNSSimulator"]),
        .library(name: "PushPool", targets: ["PushPool"]),
        .library(name: "RedisQueue", targets: ["RedisQueue"]),
    ],
    traits: [
        .default(enabledTraits: []),
        .trait(name: "ServiceLifecycle", description: "Makes APNSClient a Service of swift-service-lifecycle."),
        .trait(name: "Logging", description: "Passes the events of an APNSClient to swift-log."),
        .trait(name: "Metrics", description: "Counts the pushes and sessions of an APNSClient with swift-metrics."),
    ],
    dependencies: [
        .package(url: "https://github.com/apple/swift-argument-parser", from: "1.8.2"),
        .package(url: "https://github.com/apple/swift-collections", from: "1.6.0"),
        // Only with the traits of the client library: SwiftPM does not fetch them otherwise.
        .package(url: "https://github.com/swift-server/swift-service-lifecycle", from: "2.13.0"),
        .package(url: "https://github.com/apple/swift-log", from: "1.6.0"),
        .package(url: "https://github.com/apple/swift-metrics", from: "2.5.0"),
    ],
    targets: [
        // C libraries of Debian, and headers that Swift's Glibc module omits.
        .systemLibrary(name: "CHiredis"),
        .systemLibrary(name: "CNghttp2"),
        .systemLibrary(name: "COpenSSL"),
        .systemLibrary(name: "CLinux"),

        // Modules that know neither APNs nor Redis.
        .target(name: "Platform", dependencies: ["CLinux", "COpenSSL"], swiftSettings: memorySafe),
        .target(name: "JSONBytes", swiftSettings: memorySafe),
        // HTTP/1: heads, responses, a client, and a small server on its own thread that does not know the content.
        .target(name: "HTTP1", dependencies: ["Platform"], swiftSettings: memorySafe),

        // The two sides, which do not know each other, and the daemon that knows both.
        .target(
            name: "PushPool",
            dependencies: [
                "Platform", "HTTP1", "JSONBytes", "CNghttp2", "COpenSSL",
                .product(name: "DequeModule", package: "swift-collections"),
            ],
            swiftSettings: memorySafe),
        // The client library for other programs.
        .target(
            name: "APNSClient",
            dependencies: [
                "JSONBytes", "PushPool", "Platform", .product(name: "DequeModule", package: "swift-collections"),
                .product(name: "HeapModule", package: "swift-collections"),
                .product(
                    name: "ServiceLifecycle", package: "swift-service-lifecycle", condition: .when(traits: ["ServiceLifecycle"])),
                .product(name: "Logging", package: "swift-log", condition: .when(traits: ["Logging"])),
                .product(name: "CoreMetrics", package: "swift-metrics", condition: .when(traits: ["Metrics"])),
            ],
            path: "Client/Sources/APNSClient", swiftSettings: memorySafe),
        // The same library under a name that no type has.
        .target(
            name: "GaplessClient", dependencies: ["APNSClient"], path: "Client/Sources/GaplessClient", swiftSettings: memorySafe),
        .target(
            name: "RedisQueue",
            dependencies: [
                "Platform", "CHiredis", .product(name: "DequeModule", package: "swift-collections"),
            ],
            swiftSettings: memorySafe),
        .executableTarget(
            name: "gaplessd",
            dependencies: [
                "PushPool", "RedisQueue", "HTTP1", "Platform", "JSONBytes", "CLinux",
                argumentParser,
                .product(name: "DequeModule", package: "swift-collections"),
            ],
            swiftSettings: memorySafe),

        // The APNs simulator.
        .target(
            name: "APNSSimulator",
            dependencies: [
                "Platform", "JSONBytes", "HTTP1", "CLinux", "CNghttp2", "COpenSSL",
                .product(name: "HeapModule", package: "swift-collections"),
            ],
            path: "Lab/Simulator/APNSSimulator", swiftSettings: memorySafe),
        .executableTarget(
            name: "apns-simulator", dependencies: ["APNSSimulator", argumentParser], path: "Lab/Simulator/apns-simulator",
            swiftSettings: memorySafe),

        // Processes, Redis servers, simulators and ledgers for demo, bench, chaos and the tests of the daemon.
        .target(
            name: "Harness",
            dependencies: ["APNSSimulator", "CLinux", "Platform", "RedisQueue", "JSONBytes"],
            path: "Lab/Harness", swiftSettings: memorySafe),
        // The rows of the fault table.
        .target(
            name: "Faults", dependencies: ["APNSSimulator", "Platform", "Harness", "RedisQueue"],
            path: "Lab/Faults", swiftSettings: memorySafe),
        .executableTarget(
            name: "gapless-lab",
            dependencies: [
                "Platform", "Harness", "Faults", "RedisQueue", "PushPool", "HTTP1", "JSONBytes",
                "APNSSimulator", argumentParser,
            ],
            path: "Lab/Bench", swiftSettings: memorySafe),

        // The producer in Swift, which a test runs. Users build the package beside it.
        .executableTarget(
            name: "swift-producer", dependencies: ["RedisQueue"], path: "Examples/producers/swift/Sources/push",
            swiftSettings: [.swiftLanguageMode(.v6)]),

        // Reads the checkout: folders, lines and pages.
        .testTarget(name: "TidyTests", dependencies: ["Harness"], swiftSettings: strict),
        .testTarget(name: "PlatformTests", dependencies: ["Platform", "APNSSimulator"], swiftSettings: strict),
        .testTarget(
            name: "HTTP1Tests", dependencies: ["Platform", "HTTP1", "Harness"],
            swiftSettings: strict),
        .testTarget(name: "JSONBytesTests", dependencies: ["JSONBytes", "Harness"], exclude: ["Texts"], swiftSettings: strict),
        .testTarget(
            name: "PushPoolTests", dependencies: ["Platform", "PushPool", "APNSSimulator", "Harness"],
            swiftSettings: strict),
        .testTarget(
            name: "APNSClientTests",
            dependencies: ["APNSClient", "GaplessClient", "APNSSimulator", "Harness", "PushPool", "Platform"],
            path: "Client/Tests/APNSClientTests", swiftSettings: strict),
        .testTarget(
            name: "RedisQueueTests", dependencies: ["Platform", "Harness", "RedisQueue"],
            swiftSettings: strict),
        .testTarget(
            name: "APNSSimulatorTests",
            dependencies: ["APNSSimulator", "Platform", "Harness", "apns-simulator"],
            swiftSettings: strict),
        .testTarget(
            name: "FaultsTests",
            dependencies: ["Platform", "Faults", "Harness", "gaplessd", "apns-simulator"],
            swiftSettings: strict),
        .testTarget(
            name: "GaplessdTests",
            dependencies: [
                "gaplessd", "swift-producer", "APNSSimulator", "Platform", "Harness", "PushPool", "RedisQueue", "JSONBytes",
            ],
            swiftSettings: strict),
        // The daemon with a simulated network, clock and APNs.
        .testTarget(
            name: "SimulationTests",
            dependencies: ["gaplessd", "Harness", "PushPool", "RedisQueue", "Platform"], swiftSettings: strict),
        // Replays the corpus of the fuzz targets. The folder Program is only for the fuzzer itself.
        .testTarget(
            name: "FuzzTests",
            dependencies: [
                "gaplessd", "Platform", "Harness", "JSONBytes", "PushPool", "RedisQueue", "HTTP1",
            ],
            exclude: ["Corpus", "Program"], swiftSettings: strict),
    ]
)

// `make fuzz` sets this variable. A program cannot be linked into another one: the daemon becomes a library without its entry
// point, and the fuzz targets become a program for libFuzzer.
if Context.environment["GAPLESS_FUZZ"] != nil, let daemon = package.targets.first(where: { $0.name == "gaplessd" }) {
    package.products = []
    package.targets.removeAll { $0.isTest || ["gaplessd", "Faults", "gapless-lab", "apns-simulator"].contains($0.name) }
    package.targets += [
        .target(
            name: daemon.name, dependencies: daemon.dependencies, exclude: ["Gaplessd.swift"], swiftSettings: memorySafe),
        .systemLibrary(name: "CFuzzer", path: "Lab/CFuzzer"),
        .executableTarget(
            name: "gapless-fuzz",
            dependencies: [
                "CFuzzer", "gaplessd", "Platform", "JSONBytes", "PushPool", "RedisQueue", "HTTP1",
            ],
            path: "Tests/FuzzTests", exclude: ["Corpus", "CorpusTests.swift"], swiftSettings: memorySafe),
    ]
}
