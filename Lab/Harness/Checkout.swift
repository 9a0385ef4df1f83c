/// The checkout that this program was built from.
public enum Checkout {
    /// The absolute path of the folder that contains Package.swift.
    public static let path = #filePath.split(separator: "/", omittingEmptySubsequences: false).dropLast(3).joined(separator: "/")

    /// Returns the content of a file, as UTF-8.
    ///
    /// - Parameter file: the path below the checkout.
    public static func read(_ file: String) -> String { File.read("\(path)/\(file)") }
}
