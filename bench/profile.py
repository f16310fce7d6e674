#!/usr/bin/env python3
"""Counts the instructions of a call through the gateway, by crate and by function.

    bench/profile.py [--bin DIR] [--program muster|climax] [--callers N] [--calls-for SECONDS] [--functions N]

Instructions are counted by valgrind's callgrind, so that a busy machine does not change them much: two versions of the
program can be compared where their times cannot. The backend is connected by HTTP, because the launcher of local servers
does not run below valgrind. System calls are not counted. Needs the load client of gateway.py.
"""

import argparse
import collections
import pathlib
import re
import subprocess
import sys
import tempfile
import time

import gateway

# The crates of a call; a function of two (a generic one) belongs to the first that its name contains.
CRATES = (
    "muster_[a-z_]+|muster|serde_json|hyper_util|hyper|http_body_util|httparse|http|tokio_util|tokio|mio|"
    "tracing[a-z_]*|jsonschema[a-z_]*|memchr|bytes|jiff|indexmap|rpds|std|core|alloc"
)
ROW = re.compile(r"\s*([\d,]+) \(\s*[\d.]+%\)\s+(.*)")


class Counted(gateway.Processes):
    """Starts the gateway below valgrind, which counts nothing at first."""

    def __init__(self, programs, out):
        super().__init__()
        self.programs, self.out = programs, out

    def start(self, *command):
        program, *rest = command
        if pathlib.Path(program).parent == self.programs:
            # `climax` executes `muster`, and valgrind does not follow it.
            name = [self.programs / "muster", *(["climax"] if pathlib.Path(program).name == "climax" else [])]
            counting = ["--tool=callgrind", "--instr-atstart=no", f"--callgrind-out-file={self.out}"]
            return super().start("valgrind", *counting, *name, *rest)
        return super().start(*command)


def control(pid, *options):
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    subprocess.run(["callgrind_control", *options, str(pid)], **quiet, check=True)


def count(bench, args, folder):
    """The number of calls that were counted, and the instructions of each function."""
    out = pathlib.Path(folder) / "callgrind.out"
    with Counted(args.bin, out) as processes:
        backend = bench.backend(processes)
        gateways = gateway.Gateways(folder, args.bin, processes, bench)
        side = getattr(gateways, args.program)({"echo": {"url": backend.url}})
        # The first calls fill caches and pools.
        bench.load(side, args.callers, secs=1, warm=0)
        control(side.pid, "-i", "on")
        calls = bench.load(side, args.callers, secs=args.calls_for, warm=0)["n"]
        control(side.pid, "-i", "off")
        control(side.pid, "-d")
        time.sleep(1)
    annotate = ["callgrind_annotate", "--threshold=100", f"{out}.1"]
    shown = subprocess.run(annotate, capture_output=True, text=True, check=True).stdout
    functions = collections.Counter()
    for row in map(ROW.match, shown.splitlines()):
        if row and "PROGRAM TOTALS" not in row[2]:
            functions[row[2].split(" [")[0].removeprefix("???:")] += int(row[1].replace(",", ""))
    return calls, functions


def crate(function):
    if "malloc" in function or "arena" in function:
        return "malloc, free"
    if "/string/" in function:
        return "memcpy, memcmp"
    found = re.search(rf"\b({CRATES})::", function)
    return found[1] if found else "other"


def main():
    parser = argparse.ArgumentParser(description="Instructions of a call")
    programs, client = gateway.TARGET / "dist", gateway.SHARED / "bench"
    parser.add_argument("--bin", type=pathlib.Path, default=programs, metavar="DIR", help="climax and muster")
    parser.add_argument("--bench", type=pathlib.Path, default=client, metavar="DIR", help="the load client")
    parser.add_argument("--program", choices=("muster", "climax"), default="muster")
    parser.add_argument("--callers", type=int, default=4, metavar="N")
    parser.add_argument("--calls-for", type=float, default=5, metavar="SECONDS", help="how long calls are counted")
    parser.add_argument("--functions", type=int, default=20, metavar="N", help="how many functions are shown")
    args = parser.parse_args()
    if not (args.bench / "Cargo.toml").exists():
        sys.exit(f"skipped: no load client in {args.bench}")
    args.bin = args.bin.resolve()
    try:
        bench = gateway.Bench(gateway.build(args.bench), args.calls_for)
        with tempfile.TemporaryDirectory(prefix="bench-") as folder:
            calls, functions = count(bench, args, folder)
    except (gateway.Broken, OSError, subprocess.CalledProcessError) as e:
        sys.exit(f"broken: {e}")
    crates = collections.Counter()
    for function, instructions in functions.items():
        crates[crate(function)] += instructions
    total = functions.total()
    print(f"{total / calls:,.0f} instructions a call, in {calls} calls\n")
    for title, counter, most in (("crate", crates, None), ("function", functions, args.functions)):
        print(f"{'a call':>9}  share  {title}")
        for name, instructions in counter.most_common(most):
            if instructions / total >= 0.001:
                print(f"{instructions / calls:9,.0f} {instructions / total:6.1%}  {name[:110]}")
        print()


if __name__ == "__main__":
    main()
