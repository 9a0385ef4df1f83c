// swift-tools-version: 6.2
import PackageDescription

let package = Package(
    name: "push",
    dependencies: [.package(name: "gaplessd", path: "../../..")],
    targets: [.executableTarget(name: "push", dependencies: [.product(name: "RedisQueue", package: "gaplessd")])]
)
