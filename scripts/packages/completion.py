"""Types the beginning of a call and a tab into interactive shells on a pseudoterminal, and checks that each shell completes it.
Usage: completion.py FOLDER, with the files of the packages below it. A shell that is missing is skipped with a line."""

import fcntl
import os
import pty
import select
import shutil
import signal
import struct
import sys
import tempfile
import termios
import time

FILES = os.path.abspath(sys.argv[1])
SHARE = f"{FILES}/usr/share"
# Each shell, and the line that prepares it.
SHELLS = {
    "bash": (["bash", "--norc", "--noprofile", "-i"],
             "bind 'set enable-bracketed-paste off'; "
             + "; ".join(f". '{SHARE}/bash-completion/completions/{name}'" for name in ["gaplessd", "apns-simulator"])),
    "zsh": (["zsh", "-f", "-i"], f"fpath=('{SHARE}/zsh/vendor-completions' $fpath); autoload -Uz compinit; compinit -D -u"),
    "fish": (["fish", "--no-config", "--interactive"],
             "; ".join(f"source '{SHARE}/fish/vendor_completions.d/{name}.fish'" for name in ["gaplessd", "apns-simulator"])),
}
# The text before the tab, and the text that the shell adds.
CASES = [
    ("gaplessd enq", "ueue"), ("gaplessd check --eff", "ective"), ("gaplessd check setti", "ngs.json"),
    ("gaplessd dead settings.json req", "ueue"), ("gaplessd feedback settings.json ta", "ke"),
    ("gaplessd schema se", "ttings"), ("apns-simulator serve --cred", "entials"),
]
SECONDS = 60


def read_until(master, text):
    """Returns whether the shell prints the text."""
    seen, end = b"", time.monotonic() + SECONDS
    while text.encode() not in seen:
        try:
            ready = select.select([master], [], [], max(0, end - time.monotonic()))[0]
            data = os.read(master, 4096) if ready else b""
        except OSError:  # The shell ended.
            data = b""
        if not data:
            print(seen.decode(errors="replace"), file=sys.stderr)
            return False
        seen += data
        # fish asks a terminal for its attributes and waits for the response.
        if b"\x1b[c" in data or b"\x1b[0c" in data:
            os.write(master, b"\x1b[?62c")
    return True


def complete(shell, typed, added):
    command, preparation = SHELLS[shell]
    with tempfile.TemporaryDirectory() as home:
        with open(f"{home}/settings.json", "w"):
            pass
        environment = {"HOME": home, "PATH": f"{FILES}/usr/bin:/usr/bin:/bin", "TERM": "dumb", "LC_ALL": "C.UTF-8", "PS1": "$ "}
        process, master = pty.fork()
        if process == 0:
            os.chdir(home)
            os.execvpe(command[0], command, environment)
        try:
            # No line of the test is wrapped.
            fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 1000, 0, 0))
            # The quotes keep the echo of this line apart from its output.
            os.write(master, f"{preparation}; echo rea''dy\n".encode())
            if not read_until(master, "ready"):
                return False
            os.write(master, typed.encode() + b"\t")
            return read_until(master, typed + added)
        finally:
            os.kill(process, signal.SIGKILL)
            os.waitpid(process, 0)
            os.close(master)


failed = False
for shell in SHELLS:
    if not shutil.which(shell):
        print(f"Skipped: {shell} is missing")
        continue
    for typed, added in CASES:
        if not complete(shell, typed, added):
            print(f"{shell} does not complete '{typed}' with '{added}'", file=sys.stderr)
            failed = True
sys.exit(failed)
