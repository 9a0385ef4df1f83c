"""A plain worker: BLPOP, and aioapns. A push that fails for a reason that passes returns to the list."""

import asyncio
import json
import os

import apns
from redis.asyncio import Redis
from redis.exceptions import RedisError

# Requests in flight.
LIMIT = 200


async def main():
    client = apns.client()
    redis = Redis(unix_socket_path=os.environ["REDIS"])
    places = asyncio.Semaphore(LIMIT)
    tasks = set()

    async def repeat(text):
        while True:
            try:
                return await redis.rpush("q", text)
            except (RedisError, OSError):
                await asyncio.sleep(1)

    async def send(text):
        try:
            response = await client.send_notification(apns.request(json.loads(text)))
            if apns.is_temporary(response.status):
                await repeat(text)
        except Exception:
            await repeat(text)
        finally:
            places.release()

    while True:
        await places.acquire()
        try:
            _, text = await redis.blpop(["q"])
        except (RedisError, OSError):
            places.release()
            await asyncio.sleep(1)
            continue
        task = asyncio.create_task(send(text))
        tasks.add(task)
        task.add_done_callback(tasks.discard)


asyncio.run(main())
