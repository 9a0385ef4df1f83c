"""Archives that are equal for equal input: tar, gzip, deb and OCI image layouts."""

import gzip
import hashlib
import io
import json
import os
import shutil
import subprocess
import tarfile


def files_below(root):
    """Returns all folders and files below a folder, as paths relative to it, in a fixed order."""
    found = []
    for folder, folders, files in os.walk(root):
        folders.sort()
        for name in folders + files:
            found.append(os.path.relpath(os.path.join(folder, name), root))
    return sorted(found)


def tar_bytes(root, epoch, prefix="", owned=(), owner=0):
    """Returns a tar archive in which everything belongs to root, except for the paths that belong to `owner`."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for name in files_below(root):
            entry = archive.gettarinfo(os.path.join(root, name), arcname=prefix + name)
            entry.uid = entry.gid = owner if name in owned else 0
            entry.uname = entry.gname = "" if name in owned else "root"
            entry.mtime = epoch
            if entry.isreg():
                with open(os.path.join(root, name), "rb") as file:
                    archive.addfile(entry, file)
            else:
                archive.addfile(entry)
    return buffer.getvalue()


def gzip_bytes(data):
    """Compresses without a time, as gzip -n does."""
    buffer = io.BytesIO()
    with gzip.GzipFile(fileobj=buffer, mode="wb", compresslevel=9, mtime=0) as file:
        file.write(data)
    return buffer.getvalue()


def write(path, data, mode=0o644):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(data if isinstance(data, bytes) else data.encode())
    os.chmod(path, mode)


def copy(source, path, mode=0o644):
    with open(source, "rb") as file:
        data = file.read()
    write(path, data, 0o755 if data.startswith(b"#!") else mode)


def build_deb(root, output, epoch):
    """Builds a package from a tree with DEBIAN/control, and adds md5sums and Installed-Size."""
    sums, size = [], 0
    for name in files_below(root):
        path = os.path.join(root, name)
        if os.path.islink(path):
            continue
        os.chmod(path, os.stat(path).st_mode & ~0o022)
        if name.startswith("DEBIAN") or os.path.isdir(path):
            size += 0 if name.startswith("DEBIAN") else 1
            continue
        with open(path, "rb") as file:
            data = file.read()
        size += (len(data) + 1023) // 1024
        sums.append(f"{hashlib.md5(data).hexdigest()}  {name}\n")
    write(f"{root}/DEBIAN/md5sums", "".join(sums))
    control = f"{root}/DEBIAN/control"
    with open(control) as file:
        text = file.read().replace("Installed-Size: ?", f"Installed-Size: {size}")
    write(control, text)
    environment = dict(os.environ, SOURCE_DATE_EPOCH=str(epoch))
    subprocess.run(
        ["dpkg-deb", "--root-owner-group", "-Zxz", "--build", root, output], check=True, env=environment, stdout=subprocess.DEVNULL)


def write_oci(layout, layers, configuration, reference):
    """Writes an image layout (OCI image specification 1.0) with one gzip layer per tar archive, and the index that `docker load` reads.

    The reference is NAME:TAG."""
    shutil.rmtree(layout, ignore_errors=True)

    def blob(data, media_type, **others):
        digest = hashlib.sha256(data).hexdigest()
        write(f"{layout}/blobs/sha256/{digest}", data)
        return {"mediaType": media_type, "digest": f"sha256:{digest}", "size": len(data), **others}

    def text(value):
        return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()

    kind = "application/vnd.oci.image."
    descriptors = [blob(gzip_bytes(layer), kind + "layer.v1.tar+gzip") for layer in layers]
    diff_ids = ["sha256:" + hashlib.sha256(layer).hexdigest() for layer in layers]
    configuration = dict(configuration, rootfs={"type": "layers", "diff_ids": diff_ids})
    config = blob(text(configuration), kind + "config.v1+json")
    manifest = blob(
        text({"schemaVersion": 2, "mediaType": kind + "manifest.v1+json", "config": config, "layers": descriptors}),
        kind + "manifest.v1+json", annotations={
            "org.opencontainers.image.ref.name": reference.split(":")[1], "io.containerd.image.name": f"docker.io/library/{reference}"},
        platform={key: configuration[key] for key in ["architecture", "os"]})
    write(f"{layout}/oci-layout", text({"imageLayoutVersion": "1.0.0"}))
    write(f"{layout}/index.json", text({"schemaVersion": 2, "mediaType": kind + "index.v1+json", "manifests": [manifest]}))
    path = {each["digest"]: f"blobs/{each['digest'].replace(':', '/')}" for each in [config] + descriptors}
    write(f"{layout}/manifest.json", text([{
        "Config": path[config["digest"]], "RepoTags": [reference], "Layers": [path[each["digest"]] for each in descriptors]}]))
