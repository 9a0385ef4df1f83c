"""Unpacks an OCI image layout, and prints its configuration as shell variables.
Usage: unpack.py LAYOUT FOLDER"""

import hashlib
import json
import shlex
import sys
import tarfile

layout, folder = sys.argv[1:]


def blob(descriptor):
    path = f"{layout}/blobs/{descriptor['digest'].replace(':', '/')}"
    with open(path, "rb") as file:
        data = file.read()
    assert "sha256:" + hashlib.sha256(data).hexdigest() == descriptor["digest"] and len(data) == descriptor["size"], path
    return path, data


with open(f"{layout}/index.json", encoding="utf-8") as file:
    manifest = json.loads(blob(json.load(file)["manifests"][0])[1])
config = json.loads(blob(manifest["config"])[1])["config"]
for layer in manifest["layers"]:
    with tarfile.open(blob(layer)[0]) as archive:
        archive.extractall(folder)
assert config["Healthcheck"]["Test"][0] == "CMD"
for name, words in [
    ("environment", config["Env"]), ("command", config["Entrypoint"] + config["Cmd"]),
    ("healthcheck", config["Healthcheck"]["Test"][1:]),
]:
    print(f"{name}=({shlex.join(words)})")
print(f"owner={config['User']}")
