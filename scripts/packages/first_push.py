"""Runs the three commands of the README's first push in a folder that has the packages and redis-server installed, in a network of its own
without a way out, and prints the seconds until the page of the simulator shows the push. Usage: unshare --net python3 first_push.py ROOT"""

import fcntl
import os
import signal
import socket
import struct
import subprocess
import sys
import time
import urllib.request

# Seconds, on a busy machine.
PATIENCE = 60


def commands():
    with open("README.md") as file:
        lines = file.read().split("<!-- a test runs these lines -->\n```sh\n")[1].split("```")[0].splitlines()
    if len(lines) != 3:
        sys.exit(f"first_push: {len(lines)} commands in the README")
    return lines


def wait_for(what, condition):
    deadline = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > deadline:
            sys.exit(f"first_push: timeout: {what}")
        time.sleep(0.05)


def redis_listens():
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", 6379)) == 0


def page_shows_push():
    try:
        with urllib.request.urlopen("http://127.0.0.1:8097/api/pushes") as response:
            return b"Hello from my own queue" in response.read()
    except OSError:
        return False


def main():
    root = sys.argv[1]
    up_and_running = 0x41
    with socket.socket() as any_socket:
        fcntl.ioctl(any_socket, 0x8914, struct.pack("16sH14x", b"lo", up_and_running))  # SIOCSIFFLAGS
    lines = commands()
    started = []

    def start(*words):
        started.append(subprocess.Popen(
            ["chroot", root, *words], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True))

    try:
        start("redis-server", "--save", "", "--dir", "/tmp")
        wait_for("Redis listens", redis_listens)
        begin = time.monotonic()
        start("sh", "-c", "\n".join(["cd /tmp", *lines, "wait"]))
        wait_for("the page shows the push", page_shows_push)
        print(f"   {len(lines)} commands, {time.monotonic() - begin:.1f} s until the page shows the push")
    finally:
        for process in reversed(started):
            os.killpg(process.pid, signal.SIGTERM)
            process.wait()


main()
