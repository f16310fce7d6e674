#!/usr/bin/env python3
"""Counts the instructions that letting somebody in adds to a call.

    bench/admit.py [--check]

Builds the example `admit` of `muster-auth` and runs it under valgrind's callgrind, twice for each kind of
token with different numbers of requests: the difference, divided by the difference of the numbers, is what one
request costs. Instructions are counted and not time, so the figures are the same on a busy machine. With
`--check` the exit status is 1 when the goal is not met.
"""

import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
# One instruction a cycle at one gigahertz, which every machine of today exceeds.
GOAL = 30_000
KINDS = {
    "nothing": (1000, 11000, "no login is asked for"),
    "own": (1000, 11000, "a token of the gateway, judged before"),
    "signed": (1000, 11000, "a signed token of a trusted issuer, judged before"),
    "first": (100, 300, "a signed token that is new, with its signature (ES256)"),
    "opaque": (100, 300, "a token that only the provider can read, with the question to it"),
}
GOALS = ["own", "signed"]


def count(kind, times, folder):
    argv = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={folder}/out",
            str(ROOT / "target/release/examples/admit"), kind, str(times)]
    ran = subprocess.run(argv, stderr=subprocess.PIPE, text=True)
    found = re.search(r"Collected : (\d+)", ran.stderr)
    if ran.returncode or not found:
        sys.exit(f"{' '.join(argv)} failed:\n{ran.stderr}")
    return int(found[1])


def main():
    subprocess.run(["cargo", "build", "--release", "--locked", "-p", "muster-auth", "--example", "admit"],
                   check=True, cwd=ROOT)
    each = {}
    with tempfile.TemporaryDirectory() as folder:
        for kind, (few, many, what) in KINDS.items():
            each[kind] = (count(kind, many, folder) - count(kind, few, folder)) / (many - few)
            print(f"{each[kind]:12,.0f}  {kind}: {what}", flush=True)
    missed = [kind for kind in GOALS if each[kind] - each["nothing"] > GOAL]
    print(f"goal: at most {GOAL:,} instructions for {' and '.join(GOALS)}: {'missed' if missed else 'met'}")
    return "--check" in sys.argv and bool(missed)


if __name__ == "__main__":
    sys.exit(main())
