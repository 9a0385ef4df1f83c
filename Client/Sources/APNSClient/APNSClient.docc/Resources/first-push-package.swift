// swift-tools-version: 6.2
import PackageDescription

let package = Package(
    name: "first-push",
    dependencies: [.package(url: "https://…/gaplessd", from: "0.2.0")],
    targets: [
        .executableTarget(
            name: "first-push",
            dependencies: [
                .product(name: "APNSClient", package: "gaplessd"),
                .product(name: "APNSSimulator", package: "gaplessd"),
            ])
    ]
)
