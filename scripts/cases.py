#!/usr/bin/env python3
"""Runs the recorded CLImax cases and compares the failures with the checked-in exceptions.

    cases.py RUN_CASES CLIMAX

Fails when a case fails that is not an exception, and when an exception passes.
"""
import pathlib
import subprocess
import sys

EXCEPTIONS = pathlib.Path(__file__).with_name("case-exceptions.txt")


def exceptions():
    lines = EXCEPTIONS.read_text(encoding="utf-8").splitlines()
    return {line.split(":", 1)[0] for line in lines if line and not line.startswith("#")}


def main():
    runner, climax = sys.argv[1:]
    done = subprocess.run([sys.executable, runner, climax, "run"], stdout=subprocess.PIPE, text=True)
    print(done.stdout, end="")
    verdicts = [line.split() for line in done.stdout.splitlines()]
    failed = {words[1] for words in verdicts if words[:1] == ["FAIL"]}
    passed = {words[1] for words in verdicts if words[:1] == ["PASS"]}
    excepted = exceptions()
    unexpected, stale = sorted(failed - excepted), sorted(passed & excepted)
    for name in unexpected:
        print(f"unexpected failure: {name}")
    for name in stale:
        print(f"listed as an exception, but passes: {name}")
    good = bool(passed) and not unexpected and not stale
    print(f"{len(passed)} passed, {len(unexpected)} failed, {len(failed & excepted)} skipped")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
