internal import Glibc
internal import JSONBytes

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
        if !card.content.isEmpty {
            let rows = card.content.map { "<dt>\($0.name.escapedHTML)</dt><dd>\($0.value.escapedHTML)</dd>" }
            text += "<dl class=\"content\">\(rows.joined())</dl>"
        }
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

/// The style sheet and the script of the page.
extension PageText {
    static let style = """
        :root{--bg:linear-gradient(160deg,#c9d6ee,#e9dfea 60%,#f3e6dc);--card:#ffffffd9;--ink:#16191d;--soft:#5b6470;\
        --line:#0000001a;--good:#146c40;--bad:#b3261e;--live:#0b57d0;--mark:#0000000f}
        @media(prefers-color-scheme:dark){:root{--bg:linear-gradient(160deg,#131a2a,#221b2c 60%,#2a211d);--card:#22262ed9;\
        --ink:#eceef2;--soft:#a3acb9;--line:#ffffff1f;--good:#5fd39a;--bad:#ff8a80;--live:#8ab4f8;--mark:#ffffff14}}
        *{box-sizing:border-box}html{min-height:100%;background:var(--bg) fixed}
        body{margin:0 auto;padding:20px 14px 40px;max-width:560px;color:var(--ink);\
        font:15px/1.4 system-ui,-apple-system,"Segoe UI",sans-serif}
        header{display:flex;flex-wrap:wrap;gap:10px 14px;align-items:center;margin-bottom:6px}h1{font-size:20px;margin:0}
        form{display:flex;flex-wrap:wrap;gap:6px;flex:1 1 400px}
        input,select,button{font:inherit;color:inherit;background:var(--card);border:1px solid var(--line);\
        border-radius:9px;padding:5px 10px}
        input{flex:1 1 110px;min-width:0}button{cursor:pointer}
        .count{color:var(--soft);font-size:13px;margin:8px 2px}
        article{background:var(--card);border:1px solid var(--line);border-radius:18px;padding:12px 16px;margin:0 0 10px;\
        overflow-wrap:anywhere}
        article.silent,article.other{border-style:dashed;box-shadow:none}
        article.live{border-left:4px solid var(--live)}article.voip{border-left:4px solid var(--good)}
        article.refused .text{opacity:.55}
        .top{display:flex;gap:10px;justify-content:space-between;color:var(--soft);font-size:12px}time{white-space:nowrap}
        .text{display:flex;flex-direction:column;margin:3px 0 7px}.text i{color:var(--soft)}.subtitle{font-weight:500}
        .content{font-size:14px;margin:4px 0 0}.content dd{font-weight:600}
        .marks{display:flex;flex-wrap:wrap;gap:5px;margin:0;font-size:12px}
        .marks span{background:var(--mark);border-radius:99px;padding:1px 9px}
        .marks .verdict{font-weight:600}.good{color:var(--good)}.bad{color:var(--bad)}
        details{margin-top:7px;font-size:12px}summary{cursor:pointer;color:var(--soft)}
        dl{display:grid;grid-template-columns:minmax(90px,auto) 1fr;gap:2px 10px;margin:8px 0}dt{color:var(--soft)}dd{margin:0}
        pre{margin:0;padding:8px 10px;background:var(--mark);border-radius:9px;white-space:pre-wrap;overflow-wrap:anywhere}
        """

    /// Replaces the cards every second by their new state; open details stay open. Without the script the page is complete.
    static let script = """
        async function turn(){try{
        const response=await fetch(location.href,{cache:'no-store'}),\
        next=new DOMParser().parseFromString(await response.text(),'text/html').getElementById('pushes'),\
        cards=document.getElementById('pushes');
        if(next&&next.innerHTML!==turn.last){turn.last=next.innerHTML;
        for(const open of cards.querySelectorAll('details[open]')){
        const same=next.querySelector('#'+open.parentElement.id+' details');if(same)same.open=true}
        cards.replaceWith(next)}
        }catch{}setTimeout(turn,1000)}
        document.getElementById('clear').addEventListener('click',()=>fetch('/api/pushes',{method:'DELETE'}));
        setTimeout(turn,1000);
        """
}

/// The part of a push that a phone shows.
struct LockScreenCard: Sendable {
    enum Kind: String, Sendable, CaseIterable {
        case alert, silent
        case liveActivity = "live activity"
        case voip, other

        /// The note of a card without an alert.
        var note: String {
            switch self {
            case .alert: "An alert without text"
            case .silent: "Silent: the app runs in the background, nothing is shown"
            case .liveActivity: "Live Activity"
            case .voip: "Incoming call: the app wakes and reports it to CallKit"
            case .other: "Nothing is shown"
            }
        }
    }

    var kind: Kind
    var title = ""
    var subtitle = ""
    var body = ""
    /// The state of a Live Activity or a widget: the first members of `content-state`, or of `attributes`.
    var content: [(name: String, value: String)] = []
    /// Marks such as `badge 3`, in the order of display.
    var marks: [String] = []

    /// - Parameter type: the value of `apns-push-type`.
    init(payload bytes: [UInt8], type: String?) {
        let payload = try? JSONValue.parse(bytes)
        let aps = payload?["aps"]
        let alert = aps?["alert"]
        kind = Self.kind(type, hasAlert: alert != nil, isSilent: aps?["content-available"]?.integerValue == 1)
        if let text = alert?.stringValue {
            body = text
        } else if let alert {
            // A text of the app's own language files is known to the phone only; its key is shown.
            (title, subtitle) = (Self.text(alert, "title"), Self.text(alert, "subtitle"))
            body = alert["body"]?.stringValue ?? alert["loc-key"]?.stringValue ?? ""
        }
        if let badge = aps?["badge"]?.integerValue { marks.append("badge \(badge)") }
        if let sound = aps?["sound"], let name = sound.stringValue ?? sound["name"]?.stringValue { marks.append("sound \(name)") }
        if let event = aps?["event"]?.stringValue { marks.append("event \(event)") }
        for key in ["thread-id", "category", "interruption-level"] {
            if let value = aps?[key]?.stringValue { marks.append("\(key) \(value)") }
        }
        for key in ["content-state", "attributes"] where content.isEmpty {
            guard case .object(let members)? = aps?[key] else { continue }
            content = members.prefix(Self.mostMembers).map { ($0.key, Self.text($0.value)) }
            if members.count > Self.mostMembers { content.append(("…", "\(members.count - Self.mostMembers) more")) }
        }
        if payload == nil { marks.append("the payload is not JSON") }
    }

    /// Members of the content that a card shows, and characters of each value.
    private static let (mostMembers, mostCharacters) = (12, 80)

    private static func text(_ value: JSONValue) -> String {
        let text =
            switch value {
            case .string(let text): text
            case .number(let digits): digits
            case .bool(let flag): "\(flag)"
            case .null: "null"
            case .array(let elements): elements.prefix(mostMembers).map(Self.text).joined(separator: ", ")
            case .object(let members):
                members.prefix(mostMembers).map { "\($0.key) \(Self.text($0.value))" }.joined(separator: ", ")
            }
        return text.count > mostCharacters ? text.prefix(mostCharacters - 1) + "…" : text
    }

    private static func kind(_ type: String?, hasAlert: Bool, isSilent: Bool) -> Kind {
        switch type {
        case "liveactivity": .liveActivity
        case "voip", "pushtotalk": .voip
        case "background": .silent
        case nil, "alert": !hasAlert && isSilent ? .silent : .alert
        default: .other
        }
    }

    private static func text(_ alert: JSONValue, _ key: String) -> String {
        alert[key]?.stringValue ?? alert["\(key)-loc-key"]?.stringValue ?? ""
    }
}
