"""Archives whose bytes depend on nothing but their contents: sorted names, one time, owner root."""

import dataclasses
import datetime
import gzip
import hashlib
import io
import lzma
import os
import pathlib
import subprocess
import tarfile
import zipfile

ROOT = pathlib.Path(__file__).resolve().parent.parent


def epoch():
    """The time of every file: SOURCE_DATE_EPOCH, or that of the commit."""
    given = os.environ.get("SOURCE_DATE_EPOCH")
    if given:
        return int(given)
    shown = subprocess.run(["git", "log", "-1", "--format=%ct"], cwd=ROOT, capture_output=True, text=True, check=True)
    return int(shown.stdout)


def timestamp():
    return datetime.datetime.fromtimestamp(epoch(), datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


@dataclasses.dataclass
class Entry:
    """A file or a symbolic link of an archive."""

    name: str
    data: bytes = b""
    mode: int = 0o644
    link: str | None = None


def tar(entries):
    """An uncompressed tar archive with the directories above its entries."""
    out = io.BytesIO()
    time = epoch()
    seen = set()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for entry in sorted(entries, key=lambda one: one.name):
            for parent in reversed(pathlib.PurePosixPath(entry.name).parents):
                name = str(parent)
                if name not in (".", "./", "/") and name not in seen:
                    seen.add(name)
                    archive.addfile(_info(name, time, tarfile.DIRTYPE, 0o755))
            if entry.link is not None:
                info = _info(entry.name, time, tarfile.SYMTYPE, 0o777)
                info.linkname = entry.link
                archive.addfile(info)
            else:
                info = _info(entry.name, time, tarfile.REGTYPE, entry.mode)
                info.size = len(entry.data)
                archive.addfile(info, io.BytesIO(entry.data))
    return out.getvalue()


def _info(name, time, kind, mode):
    info = tarfile.TarInfo(name)
    info.mtime, info.type, info.mode = time, kind, mode
    info.uname = info.gname = "root"
    return info


def gzipped(data):
    return gzip.compress(data, compresslevel=9, mtime=0)


def xzed(data):
    return lzma.compress(data, preset=6)


def zipped(entries):
    """A zip archive in the given order, as wheels want it."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for entry in entries:
            info = zipfile.ZipInfo(entry.name, date_time=(2020, 1, 1, 0, 0, 0))
            info.external_attr = (0o100000 | entry.mode) << 16
            info.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(info, entry.data)
    return out.getvalue()


def sha256(data):
    return hashlib.sha256(data).hexdigest()
