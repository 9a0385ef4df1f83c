#!/usr/bin/env python3
"""Enqueues push jobs. Needs Debian's package python3-redis, or: pip install redis

Usage: REDIS_PORT=6379 QUEUE=apns_queue TOKEN=… push.py
"""
import json
import os
import time

import redis

queue = os.environ.get("QUEUE", "apns_queue")
token = os.environ.get("TOKEN", "0a1b2c")
server = redis.Redis(
    host=os.environ.get("REDIS_HOST", "127.0.0.1"), port=int(os.environ.get("REDIS_PORT", "6379")))


def enqueue(**job):
    server.rpush(queue, json.dumps(job))


# An alert.
enqueue(token=token, identifier=1, data={"aps": {"alert": "Hello"}})

# A silent push: content-available without an alert. Its push type is background and its priority is 5.
enqueue(token=token, identifier=2, data={"aps": {"content-available": 1}, "sync": True})

# The same content for several devices.
enqueue(tokens=[token, token + "00"], identifier=3, data={"aps": {"alert": "News"}})

# An update of a Live Activity, with the token of the activity. The daemon adds the suffix to the topic.
state = {"timestamp": int(time.time()), "event": "update", "content-state": {"score": "2:1"}}
enqueue(token=token, identifier=4, push_type="liveactivity", data={"aps": state})

# A campaign: the tokens of its devices, a million or more, go to a key of their own in pipelined commands.
audience = ("%064x" % number for number in range(int(os.environ.get("AUDIENCE", "1000"))))
key = "{%s}:audience:%d" % (queue, os.getpid())
pipeline = server.pipeline(transaction=False)
for number, device in enumerate(audience, 1):
    pipeline.rpush(key, device)
    if number % 10000 == 0:
        pipeline.execute()
pipeline.execute()
enqueue(tokens_from=key, identifier=5, data={"aps": {"alert": "To all"}})

# Feedback: the tokens that are dead or suspect. LPOP removes what it returns.
for entry in server.lpop("{%s}:gapless:feedback" % queue, 100) or []:
    feedback = json.loads(entry)
    print(feedback["verdict"], feedback["token"], feedback["reason"])
