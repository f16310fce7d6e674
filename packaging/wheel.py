"""The Python wheel `muster-mcp`: the programs as scripts, without Python code, so that `uvx` and `pip` install them."""

import base64
import hashlib

from archive import Entry, zipped
from contents import SUMMARY, documents, shared_files, version

DISTRIBUTION = "muster_mcp"


def build(programs, target, out):
    tag = "py3-none-" + target.wheel.format(glibc="{}_{}".format(*programs.glibc))
    stem = f"{DISTRIBUTION}-{version()}"
    info, scripts, data = f"{stem}.dist-info", f"{stem}.data/scripts", f"{stem}.data/data"
    texts = documents()
    metadata = (
        f"Metadata-Version: 2.4\nName: muster-mcp\nVersion: {version()}\nSummary: {SUMMARY}\n"
        "License-Expression: Apache-2.0\nLicense-File: LICENSE\nRequires-Python: >=3.8\n"
        "Keywords: mcp,ai,agents,cli,gateway\nDescription-Content-Type: text/markdown\n\n"
    ).encode() + texts["README.md"]
    described = f"Wheel-Version: 1.0\nGenerator: muster packaging\nRoot-Is-Purelib: false\nTag: {tag}\n"
    entries = [
        Entry(f"{scripts}/muster", programs.muster, 0o755),
        # A wheel cannot contain links: the launcher starts the `muster` beside it.
        Entry(f"{scripts}/climax", programs.climax, 0o755),
        *shared_files(programs, data),
        Entry(f"{info}/licenses/LICENSE", texts["LICENSE"]),
        Entry(f"{info}/METADATA", metadata),
        Entry(f"{info}/WHEEL", described.encode()),
    ]
    rows = [f"{one.name},sha256={_digest(one.data)},{len(one.data)}" for one in entries]
    rows.append(f"{info}/RECORD,,")
    entries.append(Entry(f"{info}/RECORD", ("\n".join(rows) + "\n").encode()))
    file = out / f"{stem}-{tag}.whl"
    file.write_bytes(zipped(entries))
    return [file]


def _digest(data):
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
