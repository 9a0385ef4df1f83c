/// The meaning of a rejection for the device token.
package enum TokenVerdict: String, Sendable {
    /// 410: the token is no longer valid.
    case dead
    /// Either the token or the environment is wrong.
    case suspect
}
