#!/usr/bin/env python3
"""Measures workflow runs against the same calls made one by one.

    workflow.py [--bin DIR] [--rounds N] [--out FILE.json] [--check]

A workflow of ten steps that do nothing takes turns with ten direct calls of the same tool, by the same
client at the same gateway, so that the load of the machine hits both alike: the ratio means something,
the times by themselves little. Then a gateway with 1,000 workflows starts, and lists them.
"""

import argparse
import json
import os
import pathlib
import socket
import statistics
import subprocess
import sys
import tempfile
import time

TARGET = pathlib.Path(__file__).resolve().parent.parent / "target"
sys.path.insert(0, str(TARGET.parent / "scripts"))

from kill_cycles import START_LIMIT, Client, connected, free_port, wait_for  # noqa: E402

STEPS, MANY = 10, 1000
# The goals: a run costs at most twice its calls; many are read and listed in milliseconds.
MOST_RATIO, MOST_LOAD_MS, MOST_LIST_MS = 2.0, 500, 20
TOOL = "core_workflow_available"


class Broken(Exception):
    """The measurement is invalid."""


class Gateway:
    def __init__(self, muster, folder, workflows):
        self.port = free_port()
        (folder / "workflows").mkdir()
        # No CLI tools: only the measured tool.
        (folder / "clis").mkdir()
        (folder / "config.yaml").write_text(f"aggregator:\n  port: {self.port}\n")
        for name, spec in workflows.items():
            (folder / f"workflows/{name}.yaml").write_text(json.dumps({"kind": "Workflow", "spec": spec}))
        self.began = time.perf_counter()
        self.process = subprocess.Popen(
            [muster, "serve", "--config-path", str(folder), "--silent"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        wait_for(START_LIMIT, lambda: connected(self.port) is not None, "the gateway did not start")
        self.up = time.perf_counter()
        self.client = Client(self.port)
        self.client.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.client.initialize()

    def call(self, tool, arguments):
        params = {"name": "call_tool", "arguments": {"name": tool, "arguments": arguments, "max_tokens": 10**8}}
        _, answer = self.client.request("tools/call", params)
        inner = json.loads(answer["result"]["content"][0]["text"])
        if inner["isError"]:
            raise Broken(f"{tool}: {inner}")
        return inner["content"][0]["text"]

    def close(self):
        self.client.close()
        self.process.kill()
        self.process.wait()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def plan(steps, store=False):
    each = [{"id": f"s{n}", "tool": TOOL, "args": {"name": "plain"}, "store": store} for n in range(steps)]
    return {"description": "Does nothing, in steps", "steps": each}


def timed(work):
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def runs(muster, rounds):
    """Seconds for a run of ten steps and for ten calls, alternating."""
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        workflows = {"ten": plan(STEPS), "plain": plan(1)}
        with Gateway(muster, pathlib.Path(folder), workflows) as gateway:

            def run():
                answer = json.loads(gateway.call("workflow_ten", {}))
                if len(answer["steps"]) != STEPS:
                    raise Broken(f"not a run: {answer}")

            def calls():
                for _ in range(STEPS):
                    gateway.call(TOOL, {"name": "plain"})

            for warm in (run, calls) * 5:
                warm()
            taken = {"run": [], "calls": []}
            for n in range(rounds):
                order = (("run", run), ("calls", calls))
                for name, work in order if n % 2 else reversed(order):
                    taken[name].append(timed(work))
            return taken


def many(muster, rounds):
    """Milliseconds that a start takes longer with many workflows, and that listing them takes."""
    loads, lists = [], []
    for _ in range(max(rounds // 40, 3)):
        with tempfile.TemporaryDirectory(prefix="bench-") as folder:
            with Gateway(muster, pathlib.Path(folder), {"plain": plan(1)}) as few:
                base = few.up - few.began
        with tempfile.TemporaryDirectory(prefix="bench-") as folder:
            workflows = {f"flow-{n:04}": plan(STEPS) for n in range(MANY)}
            workflows["plain"] = plan(1)
            with Gateway(muster, pathlib.Path(folder), workflows) as gateway:
                loads.append((gateway.up - gateway.began - base) * 1000)
                for _ in range(5):
                    lists.append(timed(lambda: listed(gateway)) * 1000)
    return loads, lists


def listed(gateway):
    found = json.loads(gateway.call("core_workflow_list", {}))["workflows"]
    if len(found) != MANY + 1 or not all(each["available"] for each in found):
        raise Broken(f"{len(found)} workflows are listed")


def main():
    parser = argparse.ArgumentParser(description="Workflows against the calls they stand for")
    parser.add_argument("--bin", type=pathlib.Path, default=TARGET / "dist", metavar="DIR")
    parser.add_argument("--rounds", type=int, default=200, metavar="N")
    parser.add_argument("--out", type=pathlib.Path, metavar="FILE.json")
    parser.add_argument("--check", action="store_true", help="an unmet goal is exit status 1")
    args = parser.parse_args()
    muster = str((args.bin / "muster").resolve())
    load_before = os.getloadavg()[0]
    taken = runs(muster, args.rounds)
    ratios = [run / calls for run, calls in zip(taken["run"], taken["calls"])]
    loads, lists = many(muster, args.rounds)
    figures = {
        "run_ms": statistics.median(taken["run"]) * 1000,
        "calls_ms": statistics.median(taken["calls"]) * 1000,
        "ratio": statistics.median(ratios),
        "load_ms": statistics.median(loads),
        "list_ms": statistics.median(lists),
    }
    goals = {"ratio": MOST_RATIO, "load_ms": MOST_LOAD_MS, "list_ms": MOST_LIST_MS}
    for name, value in figures.items():
        goal = f"   goal: at most {goals[name]}" if name in goals else ""
        print(f"{name:10} {value:8.2f}{goal}")
    print(f"load average {load_before:.1f} before, {os.getloadavg()[0]:.1f} after")
    if args.out:
        args.out.parent.mkdir(parents=True, exist_ok=True)
        rounds = {"runs": taken, "loads_ms": loads, "lists_ms": lists}
        args.out.write_text(json.dumps({"figures": figures, "goals": goals, "rounds": rounds}, indent=1))
    unmet = [name for name, most in goals.items() if figures[name] > most]
    if unmet:
        print(f"unmet: {', '.join(unmet)}")
    sys.exit(1 if unmet and args.check else 0)


if __name__ == "__main__":
    main()
