import JSONBytes
import PushPool
import RedisQueue

/// From the members of an object to what is right among them.
extension SettingsReader {
    mutating func scope(_ members: [JSONMember], prefix: String) -> SettingsScope {
        var scope = SettingsScope(prefix: prefix)
        for member in members where !member.isComment {
            if scope.present.contains(member.key) {
                fault(prefix + member.key.orQuotes, "is there more than once", "once would be right")
                continue
            }
            scope.note(member.key)
            if let secret = SettingsTable.secretFiles[member.key], mayStand(secret, in: scope) {
                readSecret(secret, from: member, into: &scope)
            } else if let key = SettingsTable.byName[member.key], mayStand(key, in: scope) {
                read(member.value, of: key, into: &scope)
            } else {
                unknown(member.key, in: scope)
            }
        }
        for key in SettingsTable.keys where key.isSecret && scope.present.isSuperset(of: [key.name, key.fileName]) {
            fault(prefix + key.fileName, "is given beside \(key.name)", "one of both would be right")
        }
        return scope
    }

    private func mayStand(_ key: SettingsKey, in scope: SettingsScope) -> Bool {
        scope.prefix.isEmpty || key.isPerApp
    }

    private mutating func unknown(_ name: String, in scope: SettingsScope) {
        let known =
            SettingsTable.keys.filter { mayStand($0, in: scope) }.map(\.name)
            + SettingsTable.secretFiles.filter { mayStand($0.value, in: scope) }.map(\.key)
        if SettingsTable.byName[name] != nil || SettingsTable.secretFiles[name] != nil {
            fault(scope.prefix + name, "is a key of the whole daemon, not of one app", "it would be right at the top level")
        } else if let hint = name.nearest(among: known) {
            let right =
                hint.isLikely ? "did you mean \(hint.name)?" : "the nearest is \(hint.name); a comment's name begins with _ or //"
            fault(scope.prefix + name.orQuotes, "is no known key", right)
        }
    }

    private mutating func read(_ value: JSONValue, of key: SettingsKey, into scope: inout SettingsScope) {
        let name = scope.prefix + key.name
        if let problem = key.kind.problem(with: value) { return fault(name, problem, key.kind.words) }
        switch key.kind {
        case .path:
            if let path = resolve(value.stringValue ?? "", at: name) { scope.accept(key.name, .string(path)) }
        case .netAddress:
            if let address = resolveNetAddress(value.stringValue ?? "", at: name) {
                scope.accept(key.name, .string(address))
            }
        default:
            scope.accept(key.name, value)
        }
        if key.kind == .apnsServer, let server = APNSServer(value.stringValue ?? ""), server.isRetired {
            warn(
                name, "is \"\(value.stringValue ?? "")\", a binary gateway that Apple has switched off",
                "taken as \(server.address.host):\(server.address.port); "
                    + "\"\(value.stringValue?.contains("sandbox") == true ? "sandbox" : "production")\" would be right")
        }
    }

    private mutating func readSecret(_ key: SettingsKey, from member: JSONMember, into scope: inout SettingsScope) {
        let name = scope.prefix + member.key
        if let problem = SettingsKey.Kind.path.problem(with: member.value) {
            return fault(name, problem, SettingsKey.Kind.path.words)
        }
        guard let path = resolve(member.value.stringValue ?? "", at: name) else { return }
        do {
            var bytes = try FileBytes.read(path, atMost: 64 << 10)
            if bytes.last == UInt8(ascii: "\n") { bytes.removeLast() }
            if bytes.last == UInt8(ascii: "\r") { bytes.removeLast() }
            guard let text = String(validating: bytes, as: UTF8.self), key.mayBeEmpty || !text.isEmpty else {
                return fault(name, "\(path) holds no text", "a file with \(key.words) alone in it would be right")
            }
            if key.kind == .proxy, HTTPProxy(url: text) == nil {
                return fault(name, "\(path) holds a string that \(HTTPProxy.lack(in: text))", key.kind.words)
            }
            scope.accept(key.name, .string(text))
        } catch {
            fault(name, "\(path) cannot be read: \(error)", "a readable file with \(key.words) in it would be right")
        }
    }

    private mutating func resolve(_ path: String, at name: String) -> String? {
        do {
            return try file.resolve(path)
        } catch {
            switch error {
            case .unset(let variable):
                fault(
                    name, "names ${\(variable)}, which is not set in the environment", "a variable that is set would be right")
            case .empty(let variable):
                fault(
                    name, "names ${\(variable)}, which is empty in the environment", "a variable that is not empty would be right"
                )
            case .unclosed: fault(name, "has a ${ without its }", "${NAME} would be right")
            }
            return nil
        }
    }

    private mutating func resolveNetAddress(_ text: String, at name: String) -> String? {
        guard case .unix(let path) = QueueSettings.Server(netAddress: text) else { return text }
        return resolve(path, at: name).map { "unix:\($0)" }
    }
}

extension SettingsKey {
    /// What is in the file of a secret.
    fileprivate var words: String { kind == .proxy ? "the proxy's address" : "the password" }
}
