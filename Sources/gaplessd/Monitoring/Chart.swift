import Platform

/// A chart of the last hour as inline SVG. The latest value is at the right edge; unknown values are gaps.
struct Chart {
    struct Line {
        var name: String
        /// The class of its colour, `c0` to `c7`.
        var color: Int
        var series: History.Series
    }

    /// The unit of the values, for the labels.
    enum Unit: String {
        case number = "n"
        case perSecond = "r"
        case seconds = "s"
    }

    static let height = 72.0
    private static let width = Double(History.most)

    var title: String
    var unit: Unit
    var lines: [Line]
    /// Whether the lines are added up, the first at the bottom.
    var isStacked = false

    var html: String {
        let most = lines.flatMap(\.series).isEmpty ? 0 : highest
        let top = Self.roundedUp(most)
        let paths = isStacked ? stack(top) : lines.map { path($0, top: top) }.joined()
        let now = lines.first?.series.last.map { text(Double($0)) } ?? "–"
        let legend =
            lines.count > 1
            ? "<ul class=\"legend\">\(lines.map { "<li class=\"c\($0.color)\">\($0.name.forHTML)</li>" }.joined())</ul>" : ""
        return """
            <figure class="chart" data-unit="\(unit.rawValue)" data-top="\(top)"><figcaption>\(title.forHTML)\
            \(isStacked || lines.count > 1 ? "" : "<b>\(now)</b>")</figcaption><div class="plot">\
            <span class="top">\(most > 0 ? text(top) : "")</span>\
            <svg viewBox="0 0 \(Int(Self.width)) \(Int(Self.height))" preserveAspectRatio="none" role="img" \
            aria-label="\(title.forHTML), last hour"><path class="grid" d="M0 0H\(Int(Self.width))M0 36H\(Int(Self.width))"/>\
            \(paths)</svg><span class="tip" hidden></span></div>\
            <div class="axis"><span>−60 min</span><span>−30</span><span>now</span></div>\(legend)</figure>
            """
    }

    // MARK: Values

    private var highest: Double {
        if !isStacked { return lines.flatMap(\.series).reduce(0) { $1 > Float($0) ? Double($1) : $0 } }
        return sums.last?.max() ?? 0
    }

    /// The sums of the lines up to each of them; unknown values count as nothing.
    private var sums: [[Double]] {
        let count = lines.map(\.series.count).max() ?? 0
        var sum = [Double](repeating: 0, count: count)
        return lines.map { line in
            let missing = count - line.series.count
            for (index, value) in line.series.enumerated() where value > 0 { sum[missing + index] += Double(value) }
            return sum
        }
    }

    /// The next of 1, 2 and 5 with zeros, at least 1 for numbers.
    static func roundedUp(_ value: Double) -> Double {
        guard value > 0, value.isFinite else { return 1 }
        var step = 0.001
        while step < 1e18 {
            for factor in [1.0, 2, 5] where step * factor >= value { return step * factor }
            step *= 10
        }
        return step
    }

    private func text(_ value: Double) -> String {
        if value.isNaN { return "unknown" }
        switch unit {
        case .number: return PageText.count(value)
        case .perSecond: return PageText.rate(value)
        case .seconds: return PageText.seconds(value)
        }
    }

    // MARK: Paths

    private func path(_ line: Line, top: Double) -> String {
        let points = line.series.enumerated().map { index, value in
            (x: Self.width - Double(line.series.count - index) + 1, y: value.isNaN ? nil : Self.y(Double(value), top))
        }
        let stroke = Self.runs(points).map(Self.polyline).joined()
        if stroke.isEmpty { return "" }
        let fill =
            lines.count > 1
            ? ""
            : Self.runs(points).map { run in
                Self.polyline(run) + "L\(Self.short(run[run.count - 1].x)) 72L\(Self.short(run[0].x)) 72Z"
            }.joined()
        return (fill.isEmpty ? "" : "<path class=\"area c\(line.color)\" d=\"\(fill)\"/>")
            + "<path class=\"line c\(line.color)\" data-name=\"\(line.name.forHTML)\" d=\"\(stroke)\"/>"
    }

    private func stack(_ top: Double) -> String {
        var below = [Double](repeating: 0, count: sums.last?.count ?? 0)
        var paths = ""
        for (line, sum) in zip(lines, sums) {
            let xs = sum.indices.map { Self.width - Double(sum.count - $0) + 1 }
            let upper = zip(xs, sum).map { (x: $0, y: Self.y($1, top)) }
            let lower = zip(xs, below).map { (x: $0, y: Self.y($1, top)) }.reversed()
            let outline = Self.simplified(Array(upper)) + Self.simplified(Array(lower))
            if outline.count > 2 {
                paths += "<path class=\"stack c\(line.color)\" d=\"\(Self.polyline(outline))Z\"/>"
            }
            below = sum
        }
        return paths
    }

    private typealias Point = (x: Double, y: Double)

    private static func y(_ value: Double, _ top: Double) -> Double { height - min(1, max(0, value / top)) * (height - 2) }

    /// The runs of known points.
    private static func runs(_ points: [(x: Double, y: Double?)]) -> [[Point]] {
        points.split { $0.y == nil }.map { run in
            let known = run.compactMap { point in point.y.map { (x: point.x, y: $0) } }
            // A single point is as wide as its interval.
            return known.count == 1 ? [(known[0].x - 1, known[0].y), known[0]] : simplified(known)
        }
    }

    /// Leaves out points between two others of the same height.
    private static func simplified(_ points: [Point]) -> [Point] {
        points.indices.filter { index in
            index == 0 || index == points.count - 1
                || short(points[index - 1].y) != short(points[index].y) || short(points[index + 1].y) != short(points[index].y)
        }.map { points[$0] }
    }

    private static func polyline(_ points: [Point]) -> String {
        points.enumerated().map { "\($0 == 0 ? "M" : "L")\(short($1.x)) \(short($1.y))" }.joined()
    }

    private static func short(_ value: Double) -> String {
        let tenths = Int((value * 10).rounded())
        return tenths % 10 == 0 ? "\(tenths / 10)" : "\(tenths / 10).\(abs(tenths % 10))"
    }
}
