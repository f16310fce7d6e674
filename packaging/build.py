"""Builds the programs for packages: small, the same bytes for the same commit, and for old C libraries.

zig links against the symbols of the C library named here, so that one program runs on every distribution since 2014.
"""

import os
import pathlib
import subprocess
import sys

from archive import ROOT, epoch

GLIBC = "2.17"
ZIG, ZIGBUILD = "ziglang==0.17.0", "cargo-zigbuild==0.24.0"


def build(target, folder):
    """Builds into a target directory; returns the folder with the programs."""
    tools = _tools()
    environment = dict(os.environ)
    environment["PATH"] = f"{tools}{os.pathsep}{environment['PATH']}"
    environment["SOURCE_DATE_EPOCH"] = str(epoch())
    environment["CARGO_ENCODED_RUSTFLAGS"] = "\x1f".join(_flags())
    environment["CARGO_INCREMENTAL"] = "0"
    command = [
        "cargo", "zigbuild", "--locked", "--profile", "dist", "--package", "muster",
        "--target", f"{target}.{GLIBC}", "--target-dir", str(folder),
    ]
    subprocess.run(command, cwd=ROOT, env=environment, check=True)
    return folder / target / "dist"


def _flags():
    """Paths of the machine that builds are replaced: they would be in the texts of panics."""
    home = pathlib.Path(os.environ.get("CARGO_HOME") or pathlib.Path.home() / ".cargo")
    return [f"--remap-path-prefix={home}=/cargo", f"--remap-path-prefix={ROOT}=/muster"]


def _tools():
    """The folder of the linker and its cargo command, installed once."""
    folder = ROOT / "target/packaging-tools"
    if not (folder / "bin/cargo-zigbuild").exists():
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        pip = [folder / "bin/pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, "--only-binary=:all:", ZIG, ZIGBUILD], check=True)
    return folder / "bin"
