internal import Glibc

/// The HTML of the page with the latest pushes. It loads nothing from other places.
struct PageText {
    var count: Int
    var pushes: [(RecentPush, LockScreenCard)]
    var filter: PushFilter

    var html: String {
        let nonce = String(UInt64.random(in: .min ... .max), radix: 36)
        return """
            <!doctype html><html lang="en"><head><meta charset="utf-8"><title>apns-simulator</title>
            <meta name="viewport" content="width=device-width, initial-scale=1"><meta name="color-scheme" content="light dark">
            <meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'nonce-\(nonce)'; \
            script-src 'nonce-\(nonce)'; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'self'">
            <link rel="icon" href="data:,"><style nonce="\(nonce)">\(Self.style)</style></head><body>
            <header><h1>apns-simulator</h1>\(form)</header>
            <main id="pushes"><p class="count">\(summary)</p>\(pushes.map(card).joined())</main>
            <script nonce="\(nonce)">\(Self.script)</script></body></html>

            """
    }

    private var form: String {
        let options = LockScreenCard.Kind.allCases.map { kind in
            "<option\(kind == filter.kind ? " selected" : "")>\(kind.rawValue)</option>"
        }
        return """
            <form><input type="search" name="q" value="\(filter.text.escapedHTML)" placeholder="Filter" aria-label="Filter">\
            <select name="kind" aria-label="Kind"><option value="">all</option>\(options.joined())</select>\
            <button>Filter</button> <button type="button" id="clear">Clear</button></form>
            """
    }

    private var summary: String {
        count == 0 ? "No push was received yet." : "\(pushes.count) shown, newest first; \(count) received since the start."
    }

    private func card(_ push: RecentPush, _ card: LockScreenCard) -> String {
        let app = push.header("apns-topic") ?? (push.isBroadcast ? "broadcast" : "no topic")
        let isAccepted = push.verdict.status == 200
        var text = ""
        if !card.title.isEmpty { text += "<b>\(card.title.escapedHTML)</b>" }
        if !card.subtitle.isEmpty { text += "<b class=\"subtitle\">\(card.subtitle.escapedHTML)</b>" }
        if !card.body.isEmpty { text += "<span>\(card.body.escapedHTML)</span>" }
        if text.isEmpty { text = "<i>\(card.kind.note.escapedHTML)</i>" }
        let marks = card.kind == .alert ? card.marks : [card.kind.rawValue] + card.marks
        let kind = card.kind == .liveActivity ? "live" : card.kind.rawValue
        return """
            <article class="\(kind)\(isAccepted ? "" : " refused")" id="push-\(push.number)"><div class="top">\
            <span class="app">\(app.escapedHTML)</span><time>\(Self.clock(push.time))</time></div>\
            <div class="text">\(text)</div><p class="marks">\
            <span class="verdict \(isAccepted ? "good" : "bad")">\(push.verdict.label.escapedHTML)</span>\
            \(marks.map { "<span>\($0.escapedHTML)</span>" }.joined())</p>\(details(push))</article>
            """
    }

    private func details(_ push: RecentPush) -> String {
        var rows = [("token", push.token)] + push.headers.map { ($0.name, $0.value) }
        if let token = push.providerToken {
            rows.append(("provider token", String(decoding: token.header, as: UTF8.self)))
            rows.append(("claims", String(decoding: token.claims, as: UTF8.self)))
        }
        let list = rows.map { "<dt>\($0.escapedHTML)</dt><dd>\($1.escapedHTML)</dd>" }.joined()
        let payload = String(decoding: push.payload, as: UTF8.self).escapedHTML
        return """
            <details><summary>Request</summary><dl>\(list)</dl><pre>\(payload)</pre>\
            <p class="count">\(push.payloadLength) bytes</p></details>
            """
    }

    /// Returns the local time, for example 22:50:01.
    private static func clock(_ milliseconds: Int64) -> String {
        var seconds = time_t(milliseconds / 1000)
        var parts = unsafe tm()
        unsafe localtime_r(&seconds, &parts)
        let two = { (number: CInt) in (number < 10 ? "0" : "") + "\(number)" }
        return unsafe "\(two(parts.tm_hour)):\(two(parts.tm_min)):\(two(parts.tm_sec))"
    }
}

extension String {
    /// The text with the characters escaped that have a meaning in HTML; control characters become blanks.
    fileprivate var escapedHTML: String {
        var text = ""
        for scalar in unicodeScalars {
            switch scalar {
            case "&": text += "&amp;"
            case "<": text += "&lt;"
            case ">": text += "&gt;"
            case "\"": text += "&quot;"
            case "'": text += "&#39;"
            case _ where scalar.value < 0x20 || scalar.value == 0x7F: text += " "
            default: text.unicodeScalars.append(scalar)
            }
        }
        return text
    }
}
