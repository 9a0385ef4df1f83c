// How the daemon learns the pauses: scripts read them from Redis, and the replies to claims, heartbeats and registrations bring
// them.

extension QueuePause {
    /// Reads the flat array of the scripts: field, milliseconds that are left (-1: no end) and record of each pause, sorted by
    /// app. `nil` for another form.
    static func read(_ items: ArraySlice<RedisReply>) -> [QueuePause]? {
        var pauses: [QueuePause] = []
        var rest = items
        while let field = rest.popFirst() {
            guard let field = field.text, let left = rest.popFirst()?.integer, let record = rest.popFirst()?.bytes else {
                return nil
            }
            if left == sideList || left == ofSlots { continue }
            pauses.append(
                QueuePause(
                    Scope(field: field), left: left < 0 ? nil : .milliseconds(min(left, 1 << 52)),
                    record: record))
        }
        return pauses.sorted { $0.scope.field < $1.scope.field }
    }

    /// In the flat array, the number in place of the time that is left that marks a side list: app, this number and the number of
    /// its jobs.
    private static let sideList: Int64 = -2

    /// The same for an app with slots: app, this number and the milliseconds until one of them has something to do.
    private static let ofSlots: Int64 = -3

    /// Returns the numbers of jobs in the side lists that an item of `split` names, by app.
    static func sideLists(_ item: RedisReply) -> [String: Int] { numbers(item, marked: sideList) }

    /// Returns the time until a slot has something to do, by app.
    static func slots(_ item: RedisReply) -> [String: Duration] {
        numbers(item, marked: ofSlots).mapValues { .milliseconds(min($0, 3_600_000)) }
    }

    private static func numbers(_ item: RedisReply, marked wanted: Int64) -> [String: Int] {
        var rest = item.items?.dropFirst() ?? []
        var lists: [String: Int] = [:]
        while let app = rest.popFirst()?.text, let mark = rest.popFirst()?.integer, let count = rest.popFirst()?.text {
            if mark == wanted { lists[app] = max(0, Int(count) ?? 0) }
        }
        return lists
    }

    /// Reads an item that is a number, or while something is paused an array of the number and the pauses.
    static func split(_ item: RedisReply) -> (number: Int64, pauses: [QueuePause])? {
        if let number = item.integer { return (number, []) }
        guard let items = item.items, let number = items.first?.integer, let pauses = read(items.dropFirst()) else { return nil }
        return (number, pauses)
    }
}

extension Lua {
    /// The pauses in force by Redis' clock, as a flat array: a place for a number, then field, milliseconds that are left (-1: no
    /// end) and record of each; `nil` when there is none. The second result tells whether the whole list is paused. With
    /// `cleans`, pauses that have ended are removed. Needs `clock`. `QueuePause.split` reads it.
    static let pauses = """
        -- In pieces: Lua cannot unpack 8,000 fields at once.
        local function values(key, fields)
          local all = {}
          for first = 1, #fields, 1000 do
            local part = redis.call('HMGET', key, unpack(fields, first, math.min(first + 999, #fields)))
            for i = 1, #part do all[first + i - 1] = part[i] end
          end
          return all
        end
        local function pauses(key, cleans)
          local fields = redis.call('HKEYS', key)
          if #fields == 0 then return nil, false end
          local records, now, out, whole = values(key, fields), clock(), {0}, false
          for i, field in ipairs(fields) do
            local ends = tonumber(string.match(records[i], '^{"until": (%d+),')) or 0
            if ends == 0 or ends > now then
              out[#out + 1] = field
              out[#out + 1] = ends == 0 and -1 or math.ceil(ends - now)
              out[#out + 1] = records[i]
              whole = whole or field == ''
            elseif cleans then
              redis.call('HDEL', key, field)
            end
          end
          if #out == 1 then return nil, false end
          return out, whole
        end
        -- The number, or with pauses the array with the number in front.
        local function with(paused, number)
          if not paused then return number end
          paused[1] = number
          return paused
        end

        """

    /// Adds the side lists to what `pauses` has returned: the app, -2 and the number of jobs of each; and the apps with slots:
    /// the app, -3 and the ms until one of them has something to do. Needs `pauses` and `clock`. `QueuePause.sideLists` and
    /// `QueuePause.slots` read it.
    static let asides = """
        local function asides(key, out)
          local apps = redis.call('HKEYS', key)
          if #apps == 0 then return out end
          out = out or {0}
          for i, count in ipairs(values(key, apps)) do
            local isOfSlots = string.sub(apps[i], 1, 1) == '\\1'
            out[#out + 1] = isOfSlots and string.sub(apps[i], 2) or apps[i]
            out[#out + 1] = isOfSlots and -3 or -2
            out[#out + 1] = isOfSlots and string.format('%.0f', math.max(0, (tonumber(count) or 0) - clock())) or count
          end
          return out
        end

        """
}
