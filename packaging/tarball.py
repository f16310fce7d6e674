"""The tarball: unpack it anywhere, put `bin` into the PATH. Its folders are those of a prefix such as /usr/local.

There are two with the same contents: with gzip, which everything unpacks, and with xz, which is smaller.
"""

from archive import Entry, gzipped, tar, xzed
from contents import documents, shared_files, version


def name(target):
    return f"muster-{version()}-{target.triple}"


def build(programs, target, out):
    prefix = name(target)
    entries = [
        Entry(f"{prefix}/bin/muster", programs.muster, 0o755),
        Entry(f"{prefix}/bin/climax", link="muster"),
        *(Entry(f"{prefix}/{file}", data) for file, data in documents().items()),
        *shared_files(programs, prefix),
    ]
    archive = tar(entries)
    smaller, common = out / f"{prefix}.tar.xz", out / f"{prefix}.tar.gz"
    smaller.write_bytes(xzed(archive, target.processor))
    common.write_bytes(gzipped(archive))
    return [smaller, common]
