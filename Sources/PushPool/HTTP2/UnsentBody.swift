/// The unsent part of a body, as a range of the job's bytes.
struct UnsentBody {
    let bytes: [UInt8]
    var range: Range<Int>
}
