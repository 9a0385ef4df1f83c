# Enqueues push jobs. Needs Debian's package ruby-redis, or: gem install redis
# Usage: REDIS_PORT=6379 QUEUE=apns_queue TOKEN=… ruby push.rb
require "json"
require "redis"

queue = ENV.fetch("QUEUE", "apns_queue")
token = ENV.fetch("TOKEN", "0a1b2c")
server = Redis.new(host: ENV.fetch("REDIS_HOST", "127.0.0.1"), port: Integer(ENV.fetch("REDIS_PORT", "6379")))
enqueue = ->(job) { server.rpush(queue, JSON.generate(job)) }

# An alert.
enqueue.({token: token, identifier: 1, data: {aps: {alert: "Hello"}}})

# A silent push: content-available without an alert. Its push type is background and its priority is 5.
enqueue.({token: token, identifier: 2, data: {aps: {"content-available": 1}, sync: true}})

# The same content for several devices.
enqueue.({tokens: [token, token + "00"], identifier: 3, data: {aps: {alert: "News"}}})

# An update of a Live Activity, with the token of the activity. The daemon adds the suffix to the topic.
state = {timestamp: Time.now.to_i, event: "update", "content-state": {score: "2:1"}}
enqueue.({token: token, identifier: 4, push_type: "liveactivity", data: {aps: state}})

# A campaign: the tokens of its devices, a million or more, go to a key of their own in pipelined commands.
key = "{#{queue}}:audience:#{Process.pid}"
(0...Integer(ENV.fetch("AUDIENCE", "1000"))).each_slice(10_000) do |numbers|
  server.pipelined { |pipeline| numbers.each { |number| pipeline.rpush(key, format("%064x", number)) } }
end
enqueue.({tokens_from: key, identifier: 5, data: {aps: {alert: "To all"}}})

# Feedback: the tokens that are dead or suspect. LPOP removes what it returns.
(server.call("LPOP", "{#{queue}}:gapless:feedback", 100) || []).each do |entry|
  feedback = JSON.parse(entry)
  puts feedback.values_at("verdict", "token", "reason").join(" ")
end
