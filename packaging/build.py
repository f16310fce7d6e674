"""Builds the programs for packages: small, the same bytes for the same commit, and for old C libraries.

For Linux with glibc, zig links against the symbols of an old version, so that one program runs on every distribution
since 2014. Other targets are built by cargo on their own system.
"""

import os
import pathlib
import subprocess

import tools
from archive import ROOT, epoch

GLIBC = (2, 17)
ZIG, ZIGBUILD = "ziglang==0.17.0", "cargo-zigbuild==0.24.0"


def build(target, folder):
    """Builds into a target directory; returns the folder with the programs."""
    environment = dict(os.environ)
    environment["SOURCE_DATE_EPOCH"] = str(epoch())
    environment["CARGO_ENCODED_RUSTFLAGS"] = "\x1f".join(_flags())
    environment["CARGO_INCREMENTAL"] = "0"
    command, triple = "build", target.triple
    if _with_zig(target):
        environment["PATH"] = f"{tools.installed(ZIG, ZIGBUILD) / 'bin'}{os.pathsep}{environment['PATH']}"
        command, triple = "zigbuild", "{}.{}.{}".format(triple, *GLIBC)
    options = ["--locked", "--profile", "dist", "--package", "muster", "--target", triple, "--target-dir", str(folder)]
    subprocess.run(["cargo", command, *options], cwd=ROOT, env=environment, check=True)
    return folder / target.triple / "dist"


def problems(programs, target):
    """What is wrong with built programs."""
    if _with_zig(target) and programs.glibc > GLIBC:
        yield "the programs need glibc {}.{}".format(*programs.glibc) + ", packages promise {}.{}".format(*GLIBC)
    for path in (ROOT, _cargo_home()):
        if os.fsencode(path) in programs.muster:
            yield f"the programs contain {path}, so that they differ with the folder they are built in"


def _with_zig(target):
    return target.triple.endswith("-linux-gnu")


def _flags():
    """Paths of the machine that builds are replaced: they would be in the texts of panics."""
    return [f"--remap-path-prefix={_cargo_home()}=/cargo", f"--remap-path-prefix={ROOT}=/muster"]


def _cargo_home():
    return pathlib.Path(os.environ.get("CARGO_HOME") or pathlib.Path.home() / ".cargo")
