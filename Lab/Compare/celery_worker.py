"""A Celery application with the advice of its documentation for tasks that must not be lost: acks_late ("Should I use retry or
acks_late?"), reject_on_worker_lost, a visibility timeout, and a high prefetch multiplier for short tasks ("Prefetch Limits")."""

import asyncio
import os
import sys

from celery import Celery

app = Celery("push", broker=f"redis+socket://{os.environ['REDIS']}")
app.conf.update(
    task_acks_late=True, task_reject_on_worker_lost=True, task_ignore_result=True, worker_prefetch_multiplier=int(os.environ.get("PREFETCH", "4")),
    broker_connection_retry_on_startup=True, broker_connection_max_retries=None,
    # The default is an hour, after which the tasks of a killed worker are delivered again. Here the best case.
    broker_transport_options={"visibility_timeout": 10},
)
state = {}


async def send_all(jobs):
    import apns

    if "client" not in state:
        state["client"] = apns.client()
    responses = await asyncio.gather(*[state["client"].send_notification(apns.request(job)) for job in jobs])
    return [job for job, response in zip(jobs, responses) if apns.is_temporary(response.status)]


@app.task(bind=True, max_retries=3, autoretry_for=(Exception,), retry_backoff=True)
def push(self, jobs):
    """Sends a group of pushes in one loop of the process."""
    if "loop" not in state:
        state["loop"] = asyncio.new_event_loop()
    again = state["loop"].run_until_complete(send_all(jobs))
    if again:
        push.delay(again)


if __name__ == "__main__":
    # celery_worker.py GROUP < JOBS: enqueues a task for each group of jobs.
    import json

    jobs = [json.loads(line) for line in sys.stdin]
    size = int(sys.argv[1])
    with app.connection_or_acquire() as connection, app.amqp.Producer(connection) as producer:
        for start in range(0, len(jobs), size):
            app.send_task("celery_worker.push", [jobs[start : start + size]], producer=producer)
