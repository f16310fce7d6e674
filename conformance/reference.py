#!/usr/bin/env python3
"""Runs the official suite against a third-party server, directly and through the gateway.

    reference.py CLIMAX [--out DIR]

The server is the conformance server of the Go SDK, which mirrors the suite's own reference server; that one is not in the
suite's package. What passes directly has to pass through the gateway. Needs Go.
"""

import argparse
import contextlib
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

import run
from gateway import classic, free_port
from run import Child, Failure, HERE, REVISIONS

START_LIMIT = 30


# The legacy era needs sessions, in which a server asks its client. The modern era has none.
STATELESS = {"2025-11-25": "false", "2026-07-28": "true"}


@contextlib.contextmanager
def reference(program, revision):
    port = free_port()
    command = [program, "-http", f"127.0.0.1:{port}", f"-stateless={STATELESS[revision]}"]
    with Child(command, stderr=subprocess.DEVNULL) as server:
        url = f"http://127.0.0.1:{port}/mcp"
        end = time.monotonic() + START_LIMIT
        while True:
            if server.poll() is not None or time.monotonic() > end:
                raise Failure("the reference server did not start")
            try:
                urllib.request.urlopen(url, timeout=5)
            except urllib.error.HTTPError:
                break
            except OSError:
                time.sleep(0.1)
        yield url


def failures(url, revision, out):
    """The failed checks of each scored scenario."""
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    results = run.run_suite(url, revision, out)
    scored = [name for name, counts in run.scenarios(revision).items() if counts]
    return {name: run.failed_checks(results.get(name), True) for name in scored}


def compare(climax, program, out):
    good = True
    for revision in REVISIONS:
        with tempfile.TemporaryDirectory() as scratch, reference(program, revision) as url:
            scratch = pathlib.Path(scratch)
            direct = failures(url, revision, out / "direct" / revision)
            with classic(climax, scratch, {"url": url}) as through_url:
                through = failures(through_url, revision, out / "classic" / revision)
        for where, found in (("direct", direct), ("classic", through)):
            failed = sum(bool(checks) for checks in found.values())
            print(f"{revision} {where}: {len(found) - failed} of {len(found)}", flush=True)
        for scenario, checks in through.items():
            for check, why in checks.items():
                known = check in direct[scenario]
                good &= known
                print(f"  {'fails directly too' if known else 'LOST'}: {scenario}: {check}: {why}")
    return good


def main():
    parser = argparse.ArgumentParser(description="Run the MCP conformance suite against a reference server")
    parser.add_argument("climax")
    parser.add_argument("--out", type=pathlib.Path)
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    subprocess.run([HERE / "install.sh"], check=True)
    program = subprocess.run([HERE / "install_reference.sh"], check=True, capture_output=True, text=True).stdout.strip()
    with tempfile.TemporaryDirectory() as scratch:
        good = compare(args.climax, program, args.out or pathlib.Path(scratch))
    print(f"{int(good)} passed, {int(not good)} failed")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
