"""Tools from PyPI, pinned and in an environment of their own: every machine makes the same bytes with them."""

import pathlib
import subprocess
import sys
import sysconfig

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDER = ROOT / "target/packaging-tools/{}.{}".format(*sys.version_info)


def installed(*requirements):
    """The folder of the environment, with these requirements."""
    stamp = FOLDER / "installed"
    known = set(stamp.read_text().splitlines()) if stamp.exists() else set()
    if missing := set(requirements) - known:
        if not known:
            subprocess.run([sys.executable, "-m", "venv", "--clear", FOLDER], check=True)
        pip = [FOLDER / "bin/pip", "install", "--quiet", "--disable-pip-version-check", "--only-binary=:all:"]
        subprocess.run([*pip, *sorted(missing)], check=True)
        stamp.write_text("\n".join(sorted(known | missing)))
    return FOLDER


def modules(*requirements):
    """The folder of their Python modules."""
    base = str(installed(*requirements))
    return sysconfig.get_path("platlib", "venv", vars={"base": base, "platbase": base})
