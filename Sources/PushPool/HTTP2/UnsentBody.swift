/// The rest of a body, as a range of the job's own bytes.
struct UnsentBody {
    let bytes: [UInt8]
    var range: Range<Int>
}
