"""The settings files of the package: the minimal one that a first installation copies to /etc/gaplessd, and the explained one, from the
tables of docs/settings.md, in which a comment key explains every key."""

import json
import re

from . import manual

# The keys that are set. All others keep their defaults.
VALUES = {
    "apns_server": "production",
    "apns_auth_key_path": "AuthKey_ABCDE12345.p8",
    "apns_auth_key_id": "ABCDE12345",
    "apns_team_id": "TEAM123456",
    "apns_topic": "com.example.app",
    "redis_queue_key": "apns_queue",
    "log_format": "journal",
    "log_redact": True,
    "metrics_listen": "127.0.0.1:9464",
}


def minimal():
    """Returns the settings of a first installation. No upgrade writes them again."""
    comment = "Comments are keys that start with _. gaplessd-settings(5) and /usr/share/doc/gaplessd/settings.json explain each key."
    return json.dumps({"_": comment, **VALUES}, indent=4) + "\n"


def explained(page):
    lines = page.split("\n")
    start = next(i for i, line in enumerate(lines) if line.startswith("<!-- settings:"))
    end = lines.index("<!-- end of settings -->")
    members, rows, left = [], [], dict(VALUES)
    members.append(
        '"_": "Keys that start with _ or // are comments. See gaplessd-settings(5). Test with: gaplessd check /etc/gaplessd/settings.json"')
    for index in range(start, end):
        if lines[index].startswith("## "):
            members.append(f'\n    "// {lines[index][3:]}": ""')
        for row in manual.rows_of(lines[index : index + 1]) if not lines[index + 1].startswith("|---") else []:
            keys = re.findall(r"`(\w+)`", row[0])
            members.append(f'"_ {", ".join(keys)}": {json.dumps(manual.plain(row[1]) + ": " + manual.plain(row[2]), ensure_ascii=False)}')
            rows += keys
            members += [f'"{key}": {json.dumps(left.pop(key))}' for key in keys if key in left]
    if left or len(rows) < 50:
        raise SystemExit(f"docs/settings.md has {len(rows)} keys, without {sorted(left)}")
    return "{\n    " + ",\n    ".join(members).replace("    \n    ", "\n    ") + "\n}\n"
