"""The tarball: unpack it anywhere, put `bin` into the PATH. Its folders are those of a prefix such as /usr/local."""

from archive import Entry, gzipped, tar
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
    file = out / f"{prefix}.tar.gz"
    file.write_bytes(gzipped(tar(entries)))
    return [file]
