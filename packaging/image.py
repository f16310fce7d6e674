"""The OCI image, as an archive that `podman load` and `skopeo` read; no daemon builds it.

From scratch: the program, the C library it needs, and the certificate authorities of the machine that builds it. It
runs as an ordinary user and needs no writable root.
"""

import json
import pathlib
import re
import subprocess

from archive import Entry, sha256, tar, timestamp, zstded
from contents import SUMMARY, version

AUTHORITIES = pathlib.Path("/etc/ssl/certs/ca-certificates.crt")
USER = "65532"


def build(programs, target, out):
    layer = tar(_files(programs))
    packed = zstded(layer)
    config = _json({
        "architecture": target.image,
        "os": "linux",
        "created": timestamp(),
        "config": {
            "User": f"{USER}:{USER}",
            "Env": ["PATH=/usr/bin", "HOME=/home/muster", "XDG_STATE_HOME=/state"],
            "Entrypoint": ["/usr/bin/muster"],
            "Cmd": ["serve", "--config-path", "/config"],
            "ExposedPorts": {"8090/tcp": {}},
            "Volumes": {"/config": {}, "/state": {}},
            "Labels": {
                "org.opencontainers.image.title": "muster",
                "org.opencontainers.image.description": SUMMARY,
                "org.opencontainers.image.version": version(),
                "org.opencontainers.image.licenses": "Apache-2.0",
            },
        },
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{sha256(layer)}"]},
        "history": [{"created": timestamp(), "created_by": "scripts/package image"}],
    })
    manifest = _json({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": _descriptor("application/vnd.oci.image.config.v1+json", config),
        "layers": [_descriptor("application/vnd.oci.image.layer.v1.tar+zstd", packed)],
    })
    listed = _descriptor("application/vnd.oci.image.manifest.v1+json", manifest)
    listed["annotations"] = {"org.opencontainers.image.ref.name": version()}
    index = _json({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.index.v1+json",
        "manifests": [listed],
    })
    blobs = [Entry(f"blobs/sha256/{sha256(data)}", data) for data in (packed, config, manifest)]
    layout = Entry("oci-layout", _json({"imageLayoutVersion": "1.0.0"}))
    file = out / f"muster-{version()}-{target.image}.oci.tar"
    file.write_bytes(tar([layout, Entry("index.json", index), *blobs]))
    return [file]


def _files(programs):
    yield Entry("usr/bin/muster", programs.muster, 0o755)
    yield Entry("usr/bin/climax", link="muster")
    yield Entry("etc/passwd", f"muster:x:{USER}:{USER}:muster:/home/muster:/nonexistent\n".encode())
    yield Entry("etc/group", f"muster:x:{USER}:\n".encode())
    yield Entry("etc/nsswitch.conf", b"hosts: files dns\n")
    if AUTHORITIES.exists():
        yield Entry(str(AUTHORITIES).lstrip("/"), AUTHORITIES.read_bytes())
    shown = subprocess.run(["ldd", programs.folder / "muster"], capture_output=True, text=True, check=True).stdout
    for path in sorted(set(re.findall(r"(/\S+\.so\S*)", shown))):
        yield Entry(path.lstrip("/"), pathlib.Path(path).read_bytes(), 0o755)


def _descriptor(kind, data):
    return {"mediaType": kind, "digest": f"sha256:{sha256(data)}", "size": len(data)}


def _json(value):
    return json.dumps(value, separators=(",", ":"), sort_keys=True).encode()
