internal import CFuzzer
import Glibc

/// `gapless-fuzz TARGET [OPTION of libFuzzer…] [CORPUS…]`: passes mutated bytes to one target until one of them breaks a promise.
@main
enum GaplessFuzz {
    private static let target = CommandLine.arguments.dropFirst().first.flatMap { FuzzTarget(rawValue: $0) }

    static func main() {
        guard target != nil else {
            print("Usage: gapless-fuzz TARGET [OPTION of libFuzzer…] [CORPUS…]\nTargets:")
            for target in FuzzTarget.allCases { print("  \(target.rawValue)") }
            exit(64)
        }
        // libFuzzer treats the name of the target as the name of the program.
        var count = CommandLine.argc - 1
        var arguments: UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>? = unsafe CommandLine.unsafeArgv + 1
        exit(
            unsafe LLVMFuzzerRunDriver(&count, &arguments) { bytes, count in
                unsafe GaplessFuzz.run(UnsafeBufferPointer(start: bytes, count: count))
                return 0
            })
    }

    private static func run(_ bytes: UnsafeBufferPointer<UInt8>) {
        do { try target?.run(unsafe Array(bytes)) } catch { fatalError("\(error)") }
    }
}
