#!/bin/sh
# Enqueues push jobs with redis-cli. Needs Debian's package redis-tools.
# Usage: REDIS_PORT=6379 QUEUE=apns_queue TOKEN=… push.sh
set -eu
queue=${QUEUE:-apns_queue}
token=${TOKEN:-0a1b2c}
redis() { redis-cli -h "${REDIS_HOST:-127.0.0.1}" -p "${REDIS_PORT:-6379}" "$@"; }

# An alert.
redis RPUSH "$queue" '{"token": "'"$token"'", "identifier": 1, "data": {"aps": {"alert": "Hello"}}}'

# A silent push: content-available without an alert. Its push type is background and its priority is 5.
redis RPUSH "$queue" '{"token": "'"$token"'", "identifier": 2, "data": {"aps": {"content-available": 1}, "sync": true}}'

# The same content for several devices.
redis RPUSH "$queue" '{"tokens": ["'"$token"'", "'"${token}"'00"], "identifier": 3, "data": {"aps": {"alert": "News"}}}'

# An update of a Live Activity, with the token of the activity. The daemon adds the suffix to the topic.
redis RPUSH "$queue" '{"token": "'"$token"'", "identifier": 4, "push_type": "liveactivity", "data":
  {"aps": {"timestamp": '"$(date +%s)"', "event": "update", "content-state": {"score": "2:1"}}}}'

# A campaign: the tokens of its devices, a million or more, go to a key of their own in pipelined commands.
key="{$queue}:audience:$$"
seq 0 $((${AUDIENCE:-1000} - 1)) | while read -r number; do printf 'RPUSH %s %064x\n' "$key" "$number"; done | redis --pipe
redis RPUSH "$queue" '{"tokens_from": "'"$key"'", "identifier": 5, "data": {"aps": {"alert": "To all"}}}'

# Feedback: the tokens that are dead or suspect. LPOP removes what it prints.
redis LPOP "{$queue}:gapless:feedback" 100
