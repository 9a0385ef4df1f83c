"""Checks the files of the packages: settings and schemas agree, programs are stripped, and no file names the folder of the build.
Usage: content.py FOLDER, with the files of both packages below it."""

import glob
import gzip
import json
import os
import subprocess
import sys

FILES = os.path.abspath(sys.argv[1])
SHARE = f"{FILES}/usr/share"
EXPECTED = [
    "usr/share/gaplessd/settings.json", "usr/share/doc/gaplessd/settings.json", "lib/systemd/system/gaplessd.service", "usr/bin/gaplessd", "usr/bin/apns-simulator",
    "usr/share/gaplessd/monitoring/alerts.yml", "usr/share/gaplessd/monitoring/dashboard.json",
    "usr/share/doc/gaplessd/copyright", "usr/share/doc/gaplessd/changelog.gz",
    "usr/share/doc/gaplessd/examples/producers/push.py",
    "usr/share/man/man1/apns-simulator.1.gz", "usr/share/man/man5/gaplessd-settings.5.gz",
    "usr/share/man/man5/gaplessd-job.5.gz", "usr/share/man/man8/gaplessd.8.gz",
]
faults = []


def expect(condition, fault):
    if not condition:
        faults.append(fault)


def unique(pairs):
    keys = [key for key, _ in pairs]
    expect(len(keys) == len(set(keys)), f"duplicate keys: {sorted(key for key in set(keys) if keys.count(key) > 1)}")
    return dict(pairs)


for path in EXPECTED:
    expect(os.path.isfile(f"{FILES}/{path}"), f"{path} is missing")

# An upgrade would ask about a changed file in /etc.
expect(not glob.glob(f"{FILES}/etc/gaplessd/*"), "the package contains settings in /etc/gaplessd")
with open(f"{SHARE}/doc/gaplessd/settings.json", encoding="utf-8") as file:
    settings = json.load(file, object_pairs_hook=unique)
with open(f"{SHARE}/gaplessd/settings.json", encoding="utf-8") as file:
    minimal = json.load(file, object_pairs_hook=unique)
minimal.pop("_")
expect(minimal == {key: value for key, value in settings.items() if not key.startswith(("_", "//"))}, "the two settings files differ")
schemas = {}
for kind in ["settings", "job"]:
    with open(f"{SHARE}/gaplessd/schemas/{kind}.json", encoding="utf-8") as file:
        schemas[kind] = json.load(file, object_pairs_hook=unique)
explained = " ".join(key for key in settings if key.startswith("_ ")).replace(",", " ").split()
for key in schemas["settings"]["properties"]:
    expect(key in explained or key.endswith(("_file", "_env", "_password")) or key in " ".join(
        value for value in settings.values() if isinstance(value, str)), f"settings.json does not explain {key}")
try:
    import jsonschema

    for schema in schemas.values():
        jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.Draft202012Validator(schemas["settings"]).validate(settings)
except ImportError:
    print("Skipped: the schemas are not validated without Python's jsonschema")

calls = json.loads(subprocess.run(
    [f"{FILES}/usr/bin/gaplessd", "--experimental-dump-help"], check=True, stdout=subprocess.PIPE).stdout)["command"]["subcommands"]
for call in calls:
    expect(call["commandName"] == "help" or os.path.isfile(f"{SHARE}/man/man8/gaplessd-{call['commandName']}.8.gz"),
           f"{call['commandName']} has no man page")

checkout = os.getcwd().encode()
for path in glob.glob(f"{FILES}/**", recursive=True, include_hidden=True):
    if os.path.islink(path) or not os.path.isfile(path):
        continue
    with open(path, "rb") as file:
        data = file.read()
    if path.endswith(".gz"):
        data = gzip.decompress(data)
    expect(checkout not in data, f"{path} names the folder of the build")
    if data.startswith(b"\x7fELF"):
        sections = subprocess.run(["readelf", "--section-headers", "--wide", path], check=True, stdout=subprocess.PIPE).stdout
        expect(b".symtab" not in sections and b".debug_info" not in sections, f"{path} is not stripped")

if faults:
    sys.exit("\n".join(faults))
print(f"   {len(calls)} calls, {len(explained)} settings")
