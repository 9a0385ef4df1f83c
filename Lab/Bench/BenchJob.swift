import Harness
import RedisQueue

/// The jobs of the benchmarks.
enum BenchJob {
    static let fixedToken = deviceToken(1)

    static func payload(_ bytes: Int) -> String {
        let start = #"{"aps":{"alert":{"title":"Bench","body":""#
        let end = #""},"sound":"default"}}"#
        return start + String(repeating: "x", count: bytes - start.utf8.count - end.utf8.count) + end
    }

    static func text(_ number: Int, bodyBytes: Int = 200) -> String {
        #"{"token":"\#(deviceToken(number))","identifier":\#(number),"data":\#(payload(bodyBytes))}"#
    }
}
