import APNSClient
import APNSSimulator
import Foundation

let credentials = try Credentials.make()
let folder = FileManager.default.temporaryDirectory.appending(path: "first-push").path
_ = try credentials.write(to: folder)
let simulator = try Simulator(.init(credentials: credentials))
