/// The page at `/`: it reads `/status.json` every two seconds and draws it. It loads nothing else and changes nothing; for
/// each action it shows the command to copy.
enum StatusPage {
    /// An unpredictable value for one response.
    static func nonce() -> String {
        (0..<2).map { _ in String(UInt64.random(in: .min ... .max), radix: 36) }.joined()
    }

    /// The `Content-Security-Policy`: only the script and the style of the page run.
    static func policy(nonce: String) -> String {
        "default-src 'none'; style-src 'nonce-\(nonce)'; script-src 'nonce-\(nonce)'; connect-src 'self'; img-src data:; "
            + "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    }

    static func html(nonce: String) -> String { html.replacing(#"nonce="""#, with: #"nonce="\#(nonce)""#) }

    static let html = #"""
        <!doctype html>
        <html lang="en">
        <head>
        <meta charset="utf-8">
        <title>gaplessd</title>
        <meta name="viewport" content="width=device-width, initial-scale=1">
        <meta name="color-scheme" content="light dark">
        <link rel="icon" href="data:,">
        <style nonce="">
        :root{--bg:#f5f6f8;--card:#fff;--ink:#171b21;--soft:#657081;--line:#e4e7ec;--track:#eef0f4;--good:#14804a;--bad:#c8322b;
          --warn:#9a5b00;--accent:#2563eb}
        .c0{color:#2563eb}.c1{color:#7c3aed}.c2{color:#0d9488}.c3{color:#d97706}.c4{color:#dc2626}.c5{color:#db2777}
        .c6{color:#65a30d}.c7{color:#64748b}
        @media(prefers-color-scheme:dark){
          :root{--bg:#0f1216;--card:#171b21;--ink:#e7eaef;--soft:#949fae;--line:#272d36;--track:#20262e;--good:#4ac78b;
            --bad:#ff7a70;--warn:#f0b040;--accent:#7aa7ff}
          .c0{color:#7aa7ff}.c1{color:#b794f6}.c2{color:#4fd1c5}.c3{color:#f6ad55}.c4{color:#fc8181}.c5{color:#f687b3}
          .c6{color:#a3d94b}.c7{color:#a0aec0}
        }
        *{box-sizing:border-box}
        body{margin:0;padding:24px 20px 32px;background:var(--bg);color:var(--ink);-webkit-text-size-adjust:100%;
          font:14px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"Noto Sans",sans-serif}
        #page{max-width:1180px;margin:auto;transition:opacity .3s}
        .stale #page{opacity:.45}
        header{display:flex;align-items:center;gap:10px;margin-bottom:16px;flex-wrap:wrap}
        h1{font-size:20px;margin:0 4px 0 0;letter-spacing:-.015em}
        h2{font-size:14px;margin:0 0 14px;font-weight:600;overflow-wrap:anywhere;display:flex;align-items:center;gap:8px;
          flex-wrap:wrap}
        h3{font-size:13px;margin:14px 0 8px;overflow-wrap:anywhere}
        small{color:var(--soft);font-weight:400;font-size:13px}
        em{font:500 1em ui-monospace,"DejaVu Sans Mono",monospace}
        .when{margin-left:auto;color:var(--soft);font-variant-numeric:tabular-nums}
        .pill,.chip{border-radius:99px;font-weight:600;white-space:nowrap;border:1px solid currentColor}
        .pill{padding:2px 11px;font-size:13px}
        .chip{padding:0 8px;font-size:12px;display:inline-block}
        .good{color:var(--good)}.bad{color:var(--bad)}.warn{color:var(--warn)}.soft{color:var(--soft)}
        .problems{margin:0 0 16px;padding:12px 16px;list-style:none;border:1px solid var(--line);
          border-left:4px solid var(--warn);border-radius:10px;background:var(--card);overflow-wrap:anywhere}
        .problems.broken{border-left-color:var(--bad)}
        section{background:var(--card);border:1px solid var(--line);border-radius:12px;padding:18px 20px;margin-bottom:16px}
        .tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(118px,1fr));gap:1px;background:var(--line);
          border:1px solid var(--line);border-radius:10px;overflow:hidden}
        .tile{background:var(--card);padding:10px 14px;display:flex;flex-direction:column;min-width:0}
        .tile span,.tile i{font-size:12px;font-style:normal;color:var(--soft)}
        .tile b{font-size:21px;line-height:1.3;font-weight:600;font-variant-numeric:tabular-nums;letter-spacing:-.02em;
          white-space:nowrap}
        .tile.red b{color:var(--bad)}.tile.blue b{color:var(--accent)}
        .charts{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,260px),1fr));gap:18px 24px;margin:18px 0 4px}
        .charts.two{margin:0 0 18px;grid-template-columns:repeat(auto-fit,minmax(min(100%,380px),1fr))}
        .chart{margin:0;min-width:0}
        figcaption{font-size:12px;color:var(--soft);display:flex;justify-content:space-between;margin-bottom:4px}
        figcaption b{color:var(--ink);font-variant-numeric:tabular-nums}
        .plot{position:relative}
        .plot svg{display:block;width:100%;height:84px;background:var(--track);border-radius:6px}
        .top,.tip{position:absolute;top:2px;font-size:11px;font-variant-numeric:tabular-nums;pointer-events:none}
        .top{right:6px;color:var(--soft)}
        .tip{left:6px;background:var(--card);border:1px solid var(--line);border-radius:4px;padding:0 5px}
        .tip:empty{display:none}
        .axis{display:flex;justify-content:space-between;font-size:11px;color:var(--soft);margin-top:2px}
        path{vector-effect:non-scaling-stroke;stroke-linejoin:round;stroke:none}
        .grid{stroke:var(--line)}.line{fill:none;stroke:currentColor;stroke-width:1.5}.area{fill:currentColor;opacity:.14}
        .stack{fill:currentColor}
        .legend{list-style:none;margin:4px 0 0;padding:0;display:flex;flex-wrap:wrap;gap:2px 14px;font-size:12px;
          color:var(--soft)}
        .legend i{display:inline-block;width:8px;height:8px;border-radius:2px;margin-right:5px;background:currentColor}
        dl{display:flex;flex-wrap:wrap;gap:4px 20px;margin:14px 0 0;font-size:12px}
        dl div{display:flex;gap:6px;min-width:0}
        dt{color:var(--soft)}dd{margin:0;font-variant-numeric:tabular-nums;min-width:0}
        .wide{overflow-x:auto}
        table{border-collapse:collapse;width:100%;font-size:13px}
        th{text-align:left;font-weight:500;font-size:12px;color:var(--soft);padding:0 14px 6px 0;white-space:nowrap}
        td{padding:7px 14px 7px 0;border-top:1px solid var(--line);vertical-align:top;font-variant-numeric:tabular-nums}
        td b{font-weight:600}
        .name{display:block;max-width:300px;overflow:hidden;text-overflow:ellipsis;white-space:nowrap}
        .why{display:block;font-size:12px;color:var(--soft);min-width:180px;max-width:420px}
        .filter{margin-left:auto;font:inherit;font-size:13px;font-weight:400;color:inherit;background:var(--bg);
          border:1px solid var(--line);border-radius:8px;padding:3px 10px;width:190px;max-width:100%}
        .rest{color:var(--soft);font-size:13px;margin:10px 0 0}
        .cut{display:block;max-width:260px;overflow:hidden;text-overflow:ellipsis;white-space:nowrap}
        meter{width:56px;height:8px;vertical-align:middle}
        .letters{display:grid;grid-template-columns:minmax(0,1fr) minmax(0,1.6fr);gap:8px 32px;align-items:start}
        .reasons td{overflow-wrap:anywhere}
        .reasons caption{caption-side:bottom;text-align:left;color:var(--soft);font-size:12px}
        .reasons td:nth-child(2){text-align:right;width:1%;white-space:nowrap;padding-left:8px}
        .reasons td:nth-child(3){width:34%}
        .reasons svg{width:100%;height:8px;display:block;margin-top:6px;color:var(--bad)}rect{fill:currentColor}
        code{font:12px/1.5 ui-monospace,SFMono-Regular,"DejaVu Sans Mono",Menlo,monospace}
        .command{display:inline-block;max-width:100%;padding:1px 7px;border-radius:5px;background:var(--track);cursor:copy;
          user-select:all;overflow-wrap:anywhere}
        .command.copied{outline:2px solid var(--good)}
        details{margin-top:14px}
        summary{cursor:pointer;color:var(--accent);font-size:13px;width:max-content}
        .commands{display:grid;gap:6px;margin-top:10px}
        .commands div{display:grid;grid-template-columns:minmax(150px,220px) minmax(0,1fr);gap:2px 12px}
        .pauses{list-style:none;margin:14px 0 0;padding:10px 14px;border:1px solid var(--warn);border-radius:8px}
        .pauses li{display:flex;flex-wrap:wrap;gap:4px 14px;justify-content:space-between;overflow-wrap:anywhere}
        footer{color:var(--soft);font-size:12px;padding:2px}
        a{color:var(--accent);text-decoration:none}
        a:hover{text-decoration:underline}
        @media(min-width:721px){
          .stacked td{white-space:nowrap}
          .stacked .why{white-space:normal}
        }
        @media(max-width:720px){
          body{padding:14px 10px 24px}
          section{padding:14px;border-radius:10px}
          .when{margin-left:0;width:100%}
          .tiles{grid-template-columns:1fr 1fr}
          .letters,.commands div{grid-template-columns:minmax(0,1fr)}
          .stacked thead{display:none}
          .stacked,.stacked tbody,.stacked tr,.stacked td{display:block;width:100%}
          .stacked tr{border-top:1px solid var(--line);padding:8px 0}
          .stacked td{display:flex;flex-wrap:wrap;gap:2px 10px;border:0;padding:2px 0;overflow-wrap:anywhere}
          .stacked td::before{content:attr(data-label);color:var(--soft);flex:0 0 84px;font-size:12px}
          .stacked .why{flex-basis:100%;min-width:0;max-width:none}
          .name{max-width:100%}
          .filter{margin-left:0;width:100%}
        }
        </style>
        </head>
        <body>
        <div id="page">
        <noscript><section><h2>This page needs JavaScript</h2>The same figures are in <a href="status.json">status.json</a> and
        <a href="metrics">metrics</a>, and in a terminal with <code>gaplessd top</code>.</section></noscript>
        </div>
        <script type="module" nonce="">
        // Texts from the document become text nodes and never markup.
        const space = 'http://www.w3.org/2000/svg', shapes = ['svg', 'path', 'rect']
        const hidden = /[\p{Cc}\xAD\u061C\u180E\u200B\u200E\u200F\u2028-\u202E\u2060-\u206F\uFEFF\uFFF9-\uFFFB]/gu
        const visible = text => String(text).replace(hidden, c => '\\x' + c.codePointAt(0).toString(16).padStart(2, '0'))

        // An element: its tag and classes, then attributes, texts, elements and arrays of them.
        function h(name, ...parts) {
          const [tag, ...classes] = name.split('.')
          const element = shapes.includes(tag) ? document.createElementNS(space, tag) : document.createElement(tag)
          if (classes.length) element.setAttribute('class', classes.join(' '))
          for (const part of parts.flat(Infinity)) {
            if (part === null || part === undefined || part === false) continue
            if (typeof part !== 'object') element.append(visible(part))
            else if (part.constructor !== Object) element.append(part)
            else for (const key in part) element.setAttribute(key, part[key])
          }
          return element
        }

        // Figures as text
        const unknown = value => value === null || value === undefined
        const count = n => Math.round(n).toLocaleString('en')
        const counted = (n, noun) => count(n) + ' ' + noun + (n === 1 ? '' : 's')
        const rate = n => unknown(n) ? '–' : n >= 10 || n === 0 ? count(n) : n.toFixed(1)
        function span(s) {
          s = Math.max(0, Math.floor(s))
          if (s < 60) return s + ' s'
          if (s < 3600) return Math.floor(s / 60) + ' min'
          if (s < 86400) return Math.floor(s / 3600) + ' h ' + Math.floor(s / 60 % 60) + ' min'
          return Math.floor(s / 86400) + ' d ' + Math.floor(s / 3600 % 24) + ' h'
        }
        function seconds(s) {
          if (unknown(s)) return '–'
          if (s >= 60) return span(s)
          if (s >= 10 || s === 0) return Math.round(s) + ' s'
          if (s >= 1) return s.toFixed(1) + ' s'
          return (s * 1000).toFixed(s < .01 ? 1 : 0) + ' ms'
        }
        function time(unix) {
          if (unknown(unix)) return '–'
          const date = new Date(unix * 1000), two = n => String(n).padStart(2, '0')
          const west = date.getTimezoneOffset(), minutes = Math.abs(west)
          return [date.getFullYear(), two(date.getMonth() + 1), two(date.getDate())].join('/') + ' '
            + [date.getHours(), date.getMinutes(), date.getSeconds()].map(two).join(':') + ' '
            + (west > 0 ? '-' : '+') + two(Math.floor(minutes / 60)) + ':' + two(minutes % 60)
        }
        const words = name => name.replaceAll('_', ' ')

        // A chart of what is known, at most the last hour: one point per interval, the latest at the right edge; unknown values
        // are gaps. The axis has 5, 10, 30 or 60 minutes.
        const height = 72
        const x = (series, index) => width - series.length + 1 + index
        let width = 360, interval = 10
        function axis({points, interval, p50, lists}) {
          const known = Math.max(p50.length, ...lists.map(list => list.backlog.length))
          return Math.min(points, [5, 10, 30].map(minutes => minutes * 60 / interval).find(most => known <= most) ?? points)
        }

        // The next of 1, 2 and 5 with zeros.
        function roundedUp(value) {
          if (!(value > 0 && value < 1e18)) return 1
          for (let step = .001; ; step *= 10) for (const factor of [1, 2, 5]) if (step * factor >= value) return step * factor
        }
        const corners = points => points.filter((p, i) => !points[i - 1] || !points[i + 1] || points[i - 1][1] !== p[1]
          || points[i + 1][1] !== p[1])
        const polyline = points => points.map(([x, y], i) => (i ? 'L' : 'M') + x + ' ' + Number(y.toFixed(1))).join('')

        // The runs of known values as points; a single value is as wide as its interval.
        function runs(series, y) {
          const runs = [[]]
          series.forEach((value, i) => unknown(value) ? runs.push([]) : runs.at(-1).push([x(series, i), y(value)]))
          return runs.filter(run => run.length)
            .map(run => run.length > 1 ? corners(run) : [[run[0][0] - 1, run[0][1]], run[0]])
        }

        // `now` is the present figure, which the view shows elsewhere too.
        function chart(title, text, lines, now, stacked) {
          const longest = Math.max(0, ...lines.map(line => line.series.length))
          let sum = Array(longest).fill(0)
          const sums = [sum, ...lines.map(({series}) =>
            sum = sum.map((below, i) => below + Math.max(0, series[i - longest + series.length] ?? 0)))]
          const most = Math.max(0, ...(stacked ? sum : lines.flatMap(line => line.series)))
          const top = roundedUp(most), y = value => height - Math.min(1, Math.max(0, value / top)) * (height - 2)
          const outline = values => corners(values.map((value, i) => [x(values, i), y(value)]))
          const paths = lines.map(({color, series}, i) => {
            if (stacked) {
              const d = polyline([...outline(sums[i + 1]), ...outline(sums[i]).reverse()]) + 'Z'
              return h('path.stack.c' + color, {d})
            }
            const known = runs(series, y)
            const area = known.map(run => polyline(run) + `L${run.at(-1)[0]} ${height}L${run[0][0]} ${height}Z`).join('')
            return [lines.length === 1 && h('path.area.c' + color, {d: area}),
              h('path.line.c' + color, {d: known.map(polyline).join('')})]
          })
          const plot = h('svg', {viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: 'none', role: 'img',
            'aria-label': `${title}, last ${width * interval / 60} minutes`},
            h('path.grid', {d: `M0 0H${width}M0 36H${width}`}), paths)
          const tip = h('span.tip')
          plot.addEventListener('pointerleave', () => tip.textContent = '')
          plot.addEventListener('pointermove', event => {
            const box = plot.getBoundingClientRect(), ago = Math.floor((1 - (event.clientX - box.left) / box.width) * width)
            const values = lines.map(({name, series}) => {
              const value = series[series.length - 1 - ago]
              return unknown(value) ? '' : name + ' ' + text(value)
            }).filter(Boolean)
            tip.textContent = values.length ? `−${Math.round(ago * interval / 60)} min: ` + values.join(', ') : ''
          })
          const minutes = width * interval / 60
          return h('figure.chart',
            h('figcaption', title, !unknown(now) && h('b', now)),
            h('div.plot', h('span.top', most > 0 && text(top)), plot, tip),
            h('div.axis', h('span', `−${minutes} min`), h('span', `−${minutes / 2}`), h('span', 'now')),
            lines.length > 1 && h('ul.legend', lines.map(({name, color}) => h('li', h('i.c' + color), name))))
        }

        // Commands: words as a POSIX shell reads them
        const quoted = word => /^[\w./:=@,+-]+$/.test(word) ? word : "'" + word.replaceAll("'", "'\\''") + "'"
        const shell = (call, ...more) => h('code.command', {tabindex: 0},
          ['gaplessd', call, status.settings, ...more].map(quoted).join(' '))
        const commands = (id, rows) => h('details', {'data-id': id}, h('summary', 'Commands'),
          h('dl.commands', rows.filter(Boolean).map(([purpose, command]) => h('div', h('dt', purpose), h('dd', command)))))
        const place = list => status.lists.length > 1 ? ['--list', list.list] : []

        const table = (columns, rows) => h('div.wide', h('table.stacked',
          h('thead', h('tr', columns.map(name => h('th', name)))),
          h('tbody', rows.map(row => h('tr', row.map((cell, i) => h('td', {'data-label': columns[i]}, cell)))))))

        // The sections
        let status = {}

        function problems() {
          const redis = unknown(status.redis_fault) ? [] : ['the figures of the lists are unknown: ' + status.redis_fault]
          const kind = status.state === 'not_ready' ? 'bad' : 'warn'
          const lines = [...status.faults.map(text => h('li.' + kind, text)), ...redis.map(text => h('li.bad', text)),
            ...status.notes.map(text => h('li.warn', text))]
          return lines.length > 0 && h('ul.problems' + (status.state === 'not_ready' ? '.broken' : ''), lines)
        }

        function listCharts(name, list) {
          const past = status.history.lists.find(list => list.list === name)
          return past && h('div.charts',
            chart('Sent per second', rate, [{name: 'sent', color: 0, series: past.sent_per_second}],
              list && rate(list.sent_per_second)),
            chart('Backlog', n => unknown(n) ? '–' : count(n), [{name: 'backlog', color: 1, series: past.backlog}],
              list && count(list.backlog)),
            chart('Age of the next job', seconds, [{name: 'age', color: 2, series: past.age}],
              list && (unknown(list.age) ? 'unknown' : seconds(list.age))))
        }

        // What a pause concerns: an app, a campaign, or the whole list.
        const scope = ({app, campaign}) => !unknown(app) ? ['app', app] : !unknown(campaign) ? ['campaign', campaign] : []
        const isPaused = list => list.paused.some(pause => scope(pause).length === 0)

        function listSection(list) {
          const tile = (name, value, note, kind) => h('div.tile' + (kind ?? ''), h('span', name), h('b', value), h('i', note))
          const command = (call, ...more) => shell(call, ...more, ...place(list))
          const sentence = ({until, by, reason, ...pause}) => [...scope(pause), ''].join(' ').replace(/ $/, ': ') + 'paused'
            + (unknown(until) ? '' : ' until ' + time(until)) + (unknown(by) ? '' : ' by ' + by)
            + (unknown(reason) ? '' : ': ' + reason)
          const paused = ['app', 'campaign'].map(kind => [list.paused.filter(pause => scope(pause)[0] === kind).length, kind])
            .filter(([n]) => n > 0).map(([n, kind]) => counted(n, kind)).join(', ')
          const pauses = list.paused.map(pause => h('li', h('span', sentence(pause)),
            command('resume', ...(scope(pause).length ? ['--' + scope(pause)[0], scope(pause)[1]] : []))))
          const campaigns = (list.campaigns ?? []).map(it => {
            const share = it.audience > 0 ? Math.round(100 * (1 - it.remaining / it.audience)) : 100
            const figures = [it.state, share + ' %', `${count(it.sent)} of ${count(it.audience)} sent`,
              it.dead + it.expired > 0 && count(it.dead + it.expired) + ' dead ('
                + Object.entries(it.dead_reasons).slice(0, 3).map(([reason, n]) => `${count(n)} ${reason}`).join(', ') + ')',
              it.cancelled > 0 && count(it.cancelled) + ' cancelled', it.state === 'running' && rate(it.rate) + '/s',
              !unknown(it.expected_end) && 'ends ' + time(it.expected_end)]
            return h('li', h('span', `campaign ${it.campaign}: ` + figures.filter(text => text).join(', ')),
              it.state === 'running' && command('pause', '--campaign', it.campaign),
              it.state !== 'ended' && command('cancel', '--campaign', it.campaign))
          })
          return h('section',
            h('h2', 'List ', h('em', list.list), isPaused(list) ? h('span.chip.warn', 'paused')
              : paused && h('span.chip.warn', paused + ' paused')),
            h('div.tiles',
              tile('sent per second', rate(list.sent_per_second), 'of all workers', '.blue'),
              tile('backlog', count(list.backlog), list.asides.length > 0 ? 'with jobs set aside' : 'waiting in the list'),
              tile('age', seconds(list.age), unknown(list.age) ? 'unknown' : 'of the next job'),
              tile('drains in', seconds(list.drain), unknown(list.drain) ? 'nothing leaves' : 'at this rate'),
              tile('in flight', count(list.in_flight), 'not settled yet'),
              tile('delayed', count(list.delayed), 'not due yet'),
              tile('dead', count(list.dead), 'dead letters', list.dead > 0 ? '.red' : ''),
              tile('feedback', count(list.feedback), 'entries')),
            listCharts(list.list, list),
            list.asides.length > 0 && h('p.rest', 'Set aside until their app can take them: '
              + list.asides.slice(0, 8).map(({app, jobs}) => `${app} ${count(jobs)}`).join(', ')
              + (list.aside_apps > 8 ? `, and ${counted(list.aside_apps - 8, 'other app')}` : '')),
            h('dl', Object.entries(list.counters).map(([name, n]) => h('div', h('dt', words(name)), h('dd', count(n))))),
            pauses.length > 0 && h('ul.pauses', pauses),
            campaigns.length > 0 && h('ul.pauses', campaigns),
            commands('list ' + list.list, [
              ['Look at the next jobs', command('peek')],
              list.delayed > 0 && ['Look at delayed jobs', command('peek', '--delayed')],
              !isPaused(list) && ['Stop all claims', command('pause', '--for', '10m', '--reason', 'TEXT')],
              ['Find a push', command('find', '--token', 'TOKEN')],
              ['Remove jobs of an app', command('cancel', '--app', 'APP')],
              list.cancelled > 0 && ['Restore ' + counted(list.cancelled, 'cancelled job'), command('cancel', '--undo')],
              list.feedback > 0 && ['Take feedback entries', command('feedback', 'take')],
            ]))
        }

        const unknownList = name => h('section',
          h('h2', 'List ', h('em', name), h('span.chip.bad', 'unknown')), listCharts(name))

        // Acceptances would hide the other responses: they are the chart of the list.
        function responses() {
          const total = series => series.reduce((sum, value) => sum + (value ?? 0), 0)
          const others = status.history.responses.filter(kind => kind.status !== '200')
            .sort((one, other) => total(other.per_second) - total(one.per_second))
          const lines = others.slice(0, 6)
            .map((kind, i) => ({name: kind.status + ' ' + kind.reason, color: i + 2, series: kind.per_second}))
          const series = status.history.other_responses
            .map((value, i) => others.slice(6).reduce((sum, kind) => sum + (kind.per_second[i] ?? 0), value ?? 0))
          if (total(series) > 0) lines.push({name: 'other', color: 7, series})
          return chart('Responses other than 2xx, per second', rate, lines, null, true)
        }

        // The filter keeps its focus: the element is the same in every view.
        const filter = h('input.filter', {type: 'search', placeholder: 'Filter by name', 'aria-label': 'Filter apps by name'})
        filter.addEventListener('input', () => ask())
        const address = () => filter.value ? 'status.json?app=' + encodeURIComponent(filter.value) : 'status.json'

        // The numbers of all apps by their problems.
        const concerns = {held: 'held', paused: 'paused', no_session: 'without a session', limited: 'limited'}
        const problemsOfApps = counts => Object.entries(concerns).filter(([key]) => counts[key] > 0)
          .map(([key, text]) => count(counts[key]) + ' ' + text).join(', ')

        function appSection(apps) {
          const state = app => app.held
            ? [h('span.chip.bad', 'held: ' + words(app.held)), h('span.why', app.reason)]
            : app.paused ? h('span.chip.warn', 'paused')
            : app.capacity > 0 ? h('span.chip.good', 'open') : h('span.chip.bad', 'no session')
          const isQuiet = name => name === 'none' || name === 'no_jobs'
          const credential = app => {
            if (unknown(app.certificate_expires))
              return unknown(app.token_age) ? 'token, not created yet' : `token, ${span(app.token_age)} old`
            const days = Math.trunc((app.certificate_expires - status.at) / 86400)
            return h('span' + (days < 30 ? '.bad' : ''), `certificate, ${counted(days, 'day')} left`)
          }
          const streams = app => [`${count(app.streams)} of ${count(app.capacity)} `,
            h('meter', {min: 0, max: 100, value: app.capacity > 0 ? Math.round(app.streams / app.capacity * 100) : 0})]
          const {app_counts: counts, apps_selected: selected} = status
          const more = selected - apps.length
          const columns = ['app', 'state', 'bottleneck', 'sessions', 'streams', 'aside', 'round trip', 'p50', 'p99',
            'credential']
          const held = apps.filter(app => app.held).slice(0, 5)
          const running = apps.length > 1 ? apps.filter(app => !app.paused && !app.held).slice(0, 5) : []
          return h('section', h('h2', 'Apps ',
            h('small', counts.total > 1 ? [`${count(counts.total)} of this daemon`, problemsOfApps(counts)]
              .filter(Boolean).join(': ') : 'of this daemon'),
            counts.total > 10 && filter),
            h('div.charts.two',
              chart('Latency from claim to response', seconds, [
                {name: 'p50', color: 0, series: status.history.p50}, {name: 'p99', color: 3, series: status.history.p99}]),
              responses()),
            table(columns, apps.map(app => [
              h('b.name', {title: app.app}, app.app), state(app),
              h(isQuiet(app.bottleneck) ? 'span.soft' : 'span.chip.warn', words(app.bottleneck)),
              app.sessions, streams(app), unknown(app.backlog) ? '–' : count(app.backlog),
              seconds(app.round_trip), seconds(app.p50), seconds(app.p99), credential(app)])),
            more > 0 && h('p.rest', `and ${counted(more, 'more app')}: those with problems are first, then the busiest`),
            filter.value && h('p.rest', `${count(selected)} of ${count(counts.total)} apps have this name`),
            commands('apps', [
              ['Check the credentials', shell('check')],
              ...held.map(app => ['Prove the credential of ' + app.app, shell('check', '--prove')]),
              ...running.map(app => ['Pause ' + app.app, shell('pause', '--app', app.app, '--for', '10m')])]))
        }

        function letters(list) {
          const reasons = Object.entries(list.dead_reasons).sort((one, other) => other[1] - one[1])
          const sum = entries => entries.reduce((sum, [, n]) => sum + n, 0)
          const name = text => text || 'no reason'
          const bar = n => h('svg', {viewBox: '0 0 100 8', preserveAspectRatio: 'none', 'aria-hidden': true},
            h('rect', {width: Math.max(1, n * 100 / Math.max(1, reasons[0][1])), height: 8, rx: 1}))
          const others = sum(reasons.slice(8)), command = (...more) => shell('dead', ...more, ...place(list))
          return [status.lists.length > 1 && h('h3', list.list),
            h('div.letters',
              h('table.reasons', sum(reasons) < list.dead && h('caption', 'of the newest ' + count(sum(reasons))),
                h('tbody', reasons.slice(0, 8)
                  .map(([reason, n]) => h('tr', h('td', name(reason)), h('td', count(n)), h('td', bar(n)))),
                  others > 0 && h('tr', h('td', 'others'), h('td', count(others)), h('td')))),
              table(['at', 'reason', 'ID', 'token'], list.dead_latest.map(letter => [
                time(letter.at), name([letter.status, letter.reason].filter(part => !unknown(part)).join(' ')),
                h('span.cut', unknown(letter.identifier) ? '–' : JSON.stringify(letter.identifier)),
                h('code.cut', letter.token ?? '–')]))),
            commands('dead ' + list.list, [
              ['Show the latest one', command('show', String(list.dead))],
              ...reasons.slice(0, 3).filter(([reason]) => reason).map(([reason]) =>
                [`Send those with ${reason} again`, command('requeue', '--reason', reason, '--rate', '100')])])]
        }

        function workers() {
          const rows = status.lists.flatMap(list => list.live_workers.map(worker => [
            h('b', worker.host ?? 'unknown'), worker.pid ?? 'unknown', list.list, worker.version ?? 'unknown',
            unknown(worker.silent) ? h('span.chip.good', 'alive') : h('span.chip.bad', `silent for ${span(worker.silent)}`),
            unknown(worker.started) ? 'unknown' : time(worker.started), count(worker.in_flight), count(worker.sent)]))
          return rows.length > 0 && h('section', h('h2', 'Workers'),
            table(['host', 'pid', 'list', 'version', 'state', 'since', 'in flight', 'sent'], rows))
        }

        function page() {
          const {process, apps} = status, dead = status.lists.filter(list => list.dead > 0)
          const link = path => h('a', {href: path}, path)
          return [
            h('header', h('h1', 'gaplessd ', h('small', process.version)),
              h('span.pill.' + {ready: 'good', degraded: 'warn', not_ready: 'bad'}[status.state], words(status.state)),
              status.state !== 'not_ready' && status.lists.some(isPaused) && h('span.pill.warn', 'paused'),
              h('span.when', time(status.at))),
            problems(),
            status.lists.length ? status.lists.map(listSection) : status.history.lists.map(list => unknownList(list.list)),
            apps && appSection(apps),
            dead.length > 0 && h('section', h('h2', 'Dead letters'), dead.map(letters)),
            workers(),
            h('footer', `This process: up ${span(status.at - process.started)} · `
              + `${(process.resident_bytes / 1e6).toFixed(1)} MB resident · ${count(process.in_flight)} in flight`
              + (process.log_lines_dropped > 0 ? ` · ${count(process.log_lines_dropped)} log lines dropped` : ''),
              ['metrics', 'status.json', 'readyz', 'healthz'].map(path => [' · ', link(path)]))]
        }

        // Draws the document. Disclosures stay open, and a selected text stays selected.
        function draw(next) {
          status = {lists: [], ...next}
          interval = status.history.interval
          width = axis(status.history)
          const paused = status.state !== 'not_ready' && status.lists.some(isPaused)
          document.title = (paused ? 'paused' : words(status.state)) + ' · gaplessd'
          if (document.getSelection().toString()) return
          const isTyping = document.activeElement === filter
          const open = [...document.querySelectorAll('details[open]')].map(details => details.dataset.id)
          document.getElementById('page').replaceChildren(...page().flat(Infinity).filter(Boolean))
          for (const details of document.querySelectorAll('details')) details.open = open.includes(details.dataset.id)
          if (isTyping) filter.focus()
        }

        async function ask() {
          try {
            const path = address(), response = await fetch(path, {cache: 'no-store'})
            if (!response.ok) throw new Error(response.statusText)
            const next = await response.json()
            // Another version of the daemon has another page.
            if (status.process && status.process.version !== next.process.version) return location.reload()
            // The filter has changed meanwhile: its own answer follows.
            if (path !== address()) return
            draw(next)
            document.body.className = ''
          } catch (error) {
            console.error(error)
            document.body.className = 'stale'
          }
        }

        async function turn() {
          await ask()
          setTimeout(turn, 2000)
        }

        document.addEventListener('click', event => {
          const command = event.target.closest?.('.command')
          if (!command) return
          navigator.clipboard?.writeText(command.textContent).then(() => {
            command.classList.add('copied')
            setTimeout(() => command.classList.remove('copied'), 900)
          }).catch(() => {})
        })
        turn()
        </script>
        </body>
        </html>

        """#
}
