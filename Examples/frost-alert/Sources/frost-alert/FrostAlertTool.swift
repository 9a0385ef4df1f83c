import Foundation
import FrostAlert
import Logging

/// `frost-alert SETTINGS.json` runs the server in the foreground.
@main
struct FrostAlertTool {
    static func main() async {
        guard CommandLine.arguments.count == 2 else { fail("usage: frost-alert SETTINGS.json", 64) }
        let file = URL(filePath: CommandLine.arguments[1])
        do {
            try await FrostServer(try Settings(file: file), logger: Logger(label: "frost-alert")).run()
        } catch let fault as Settings.Fault {
            fail("\(file.path): \(fault)", 78)
        } catch {
            fail("\(error)", 1)
        }
    }

    private static func fail(_ message: String, _ status: Int32) -> Never {
        FileHandle.standardError.write(Data("\(message)\n".utf8))
        exit(status)
    }
}
