"""Archives whose bytes depend on nothing but their contents: sorted names, one time, owner root."""

import dataclasses
import datetime
import functools
import hashlib
import importlib
import io
import lzma
import os
import pathlib
import struct
import subprocess
import sys
import tarfile
import zlib

import tools
from tools import ROOT

# libdeflate: smaller than zlib at its best, and not another version on every machine.
DEFLATE = "deflate==0.9.0"
ZSTD = "zstandard==0.25.0"
# 8 MiB: RFC 8878 asks every decoder for as much. Four times as much saves half a percent.
ZSTD_WINDOW_LOG = 23


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


@functools.cache
def _module(requirement):
    sys.path.append(tools.modules(requirement))
    return importlib.import_module(requirement.partition("==")[0])


def gzipped(data):
    return bytes(_module(DEFLATE).gzip_compress(data, 12))


def zstded(data):
    zstandard = _module(ZSTD)
    parameters = zstandard.ZstdCompressionParameters.from_level(22, source_size=len(data), window_log=ZSTD_WINDOW_LOG)
    return zstandard.ZstdCompressor(compression_params=parameters).compress(data)


def xzed(data, processor=None):
    """Compressed with xz. For programs of x86_64, the addresses of calls are made equal first: 6 % less."""
    filters = [{"id": lzma.FILTER_LZMA2, "preset": 9}]
    if processor == "x86_64":
        filters.insert(0, {"id": lzma.FILTER_X86})
    return lzma.compress(data, check=lzma.CHECK_CRC32, filters=filters)


def zipped(entries):
    """A zip archive in the given order, as wheels want it. `zipfile` cannot write what something else has compressed."""
    out, central = io.BytesIO(), io.BytesIO()
    # 2020-01-01, midnight.
    day, clock = (2020 - 1980) << 9 | 1 << 5 | 1, 0
    for entry in entries:
        name, packed = entry.name.encode(), bytes(_module(DEFLATE).deflate_compress(entry.data, 12))
        needs_version, flags, method = 20, 0x800, 8
        same = struct.pack(
            "<5H3L2H", needs_version, flags, method, clock, day, zlib.crc32(entry.data), len(packed), len(entry.data), len(name), 0
        )
        unix, attributes = 3 << 8 | needs_version, (0o100000 | entry.mode) << 16
        central.write(b"PK\1\2" + struct.pack("<H", unix) + same + struct.pack("<3H2L", 0, 0, 0, attributes, out.tell()) + name)
        out.write(b"PK\3\4" + same + name + packed)
    directory, start = central.getvalue(), out.tell()
    end = struct.pack("<4H2LH", 0, 0, len(entries), len(entries), len(directory), start, 0)
    return out.getvalue() + directory + b"PK\5\6" + end


def sha256(data):
    return hashlib.sha256(data).hexdigest()
