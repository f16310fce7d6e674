"""The tarball: unpack it anywhere, put `muster` and `climax` into the PATH."""

from archive import gzipped, tar
from contents import tree, version


def build(programs, target, out):
    name = f"muster-{version()}-{target}"
    file = out / f"{name}.tar.gz"
    file.write_bytes(gzipped(tar(tree(programs, name))))
    return [file]
