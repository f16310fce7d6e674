"""The program by itself, under the name that `muster self-update` downloads."""

from contents import version


def build(programs, target, out):
    file = out / f"muster_{version()}_{target.system}_{target.processor}"
    file.write_bytes(programs.muster)
    return [file]
