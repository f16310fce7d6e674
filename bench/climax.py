#!/usr/bin/env python3
"""Measures our climax against the original CLImax and against bare process spawning.

    climax.py --climax PATH [--rounds N] [--out FILE.json] [--check]

All sides take turns within one run, in changing order, so that the load of the machine hits them
alike: only the ratios mean something. See README.md.
"""

import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass

HERE = pathlib.Path(__file__).resolve().parent
TARGET = HERE.parent / "target"

# A round of calls is made of short blocks that alternate, since the load changes within a round too.
CALL_BLOCKS = 8
CALL_BLOCK = 50
SLOW_CALL_BLOCK = 5
SEARCH_BLOCK = 100
SLOW_SEARCH_BLOCK = 5
MANY_TOOLS = 10_000
# The original needs many seconds to load that many tools.
MANY_TOOLS_ROUNDS = 3
SETTLE_SECONDS = 0.2

CALL_CONFIG = """\
name: bench
command: "true"
tools:
  - name: nothing
    description: Do nothing
"""
CALL = {"name": "climax_call", "arguments": {"tool_name": "nothing", "args": {}}}
CALL_ANSWER = "(no output)"

FEW = {"name": "climax_search", "arguments": {"query": "quokka"}}
MANY = {"name": "climax_search", "arguments": {"query": "resource"}}


@dataclass
class Goal:
    """The goal of the ratio, or of our own figure where there is no ratio."""

    limit: float
    at_least: bool

    def met(self, value):
        return value >= self.limit if self.at_least else value <= self.limit

    def __str__(self):
        return f"{'≥' if self.at_least else '≤'} {self.limit:g}"


@dataclass
class Measure:
    key: str
    label: str
    unit: str
    divide: tuple[str, str] | None = None
    goal: Goal | None = None


MEASURES = [
    Measure("start_cpu", "start, initialize, exit: CPU", "ms", ("original", "ours"), Goal(50, True)),
    Measure("start_wall", "start to initialize answer", "ms", ("original", "ours")),
    Measure("call", "climax_call of `true`, p50", "ms", ("ours", "bare"), Goal(1.3, False)),
    Measure("call_fast", "the same, fastest tenth (p10)", "ms", ("ours", "bare")),
    Measure("call_pipes", "the same, p50, against a spawn with pipes", "ms", ("ours", "pipes")),
    Measure("rss", "idle memory, resident", "MB", None, Goal(12, False)),
    Measure("pss", "idle memory, proportional share", "MB"),
    Measure("rss_used", "memory after the calls, resident", "MB"),
    Measure("many_first", "10,000 tools: start to first search", "ms", ("original", "ours"), Goal(20, True)),
    Measure("many_few", "10,000 tools: search, few match, p50", "ms", ("original", "ours"), Goal(20, True)),
    Measure("many_many", "10,000 tools: search, all match, p50", "ms", ("original", "ours"), Goal(20, True)),
]


class Broken(Exception):
    """The measurement is invalid."""


class Server:
    """A stdio MCP server, initialized."""

    def __init__(self, command):
        self.next_id = 1
        self.command = command
        env = {k: v for k, v in os.environ.items() if not k.startswith("CLIMAX_")}
        self.began = time.perf_counter()
        self.process = subprocess.Popen(
            command,
            bufsize=0,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=env,
        )
        self.request(
            "initialize",
            {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}},
        )
        self.initialized_after = time.perf_counter() - self.began
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def send(self, message):
        self.process.stdin.write(json.dumps(message).encode() + b"\n")

    def request(self, method, params):
        request_id, self.next_id = self.next_id, self.next_id + 1
        self.send({"jsonrpc": "2.0", "id": request_id, "method": method, "params": params})
        line = b""
        while not line.endswith(b"\n"):
            chunk = os.read(self.process.stdout.fileno(), 1 << 16)
            if not chunk:
                raise Broken(f"{self.command[0]} closed its output")
            line += chunk
        answer = json.loads(line)
        if answer.get("id") != request_id or "result" not in answer:
            raise Broken(f"{self.command[0]} answered {line[:500]!r}")
        return answer["result"]

    def text(self, params):
        return self.request("tools/call", params)["content"][0]["text"]

    def time_calls(self, loop, count, params, expected):
        """Milliseconds of each call, taken by a compiled client."""
        first, self.next_id = self.next_id, self.next_id + count
        members = f'"method":"tools/call","params":{json.dumps(params, separators=(",", ":"))}'
        pipes = (self.process.stdin.fileno(), self.process.stdout.fileno())
        argv = [loop, *map(str, pipes), str(first), str(count), members, expected]
        return milliseconds(subprocess.run(argv, pass_fds=pipes, capture_output=True, text=True))

    def memory(self):
        """Resident and, where available, proportional set size of process and children, in MB."""
        pids = [self.process.pid]
        for pid in pids:
            for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
                pids += map(int, (task / "children").read_text().split())
        memory = {"rss": sum(megabytes(f"/proc/{pid}/status", "VmRSS:") for pid in pids)}
        try:
            memory["pss"] = sum(megabytes(f"/proc/{pid}/smaps_rollup", "Pss:") for pid in pids)
        except OSError:
            pass
        return memory

    def close(self):
        """CPU milliseconds of the whole life of the process and of the children it waited for."""
        self.process.stdin.close()
        _, status, usage = os.wait4(self.process.pid, 0)
        self.process.stdout.close()
        self.process.returncode = os.waitstatus_to_exitcode(status)
        if self.process.returncode != 0:
            raise Broken(f"{self.command[0]} ended with status {self.process.returncode}")
        return (usage.ru_utime + usage.ru_stime) * 1000


def megabytes(path, key):
    for line in pathlib.Path(path).read_text().splitlines():
        if line.startswith(key):
            return int(line.split()[1]) * 1024 / 1e6
    raise Broken(f"no {key} in {path}")


def milliseconds(done):
    if done.returncode != 0:
        raise Broken(done.stderr.strip() or f"{done.args[0]} ended with status {done.returncode}")
    return [int(line) / 1e6 for line in done.stdout.split()]


def compile_loop(name):
    source, program = HERE / f"{name}.c", TARGET / "bench" / name
    program.parent.mkdir(parents=True, exist_ok=True)
    if not program.exists() or program.stat().st_mtime < source.stat().st_mtime:
        subprocess.run(["cc", "-O2", "-o", program, source], check=True)
    return program


def install_original():
    venv, pins = TARGET / "bench-venv", HERE / "original-constraints.txt"
    stamp = venv / "installed"
    if not stamp.exists() or stamp.read_text() != pins.read_text():
        say("installing the original")
        shutil.rmtree(venv, ignore_errors=True)
        subprocess.run([sys.executable, "-m", "venv", venv], check=True)
        pip = [venv / "bin/pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, "-c", pins, "climax-mcp"], check=True)
        stamp.write_text(pins.read_text())
    return venv / "bin/climax"


def many_tools():
    """A config with 10,000 tools: `resource` occurs in all of them, `quokka` in three."""
    verbs = ["create", "delete", "list", "update", "describe", "restart", "archive", "export", "tag", "scale"]
    lines = ["name: many", "command: echo", "description: Many tools", "category: cloud", "tags: [a, b]", "tools:"]
    for i in range(MANY_TOOLS):
        verb, kind = verbs[i % len(verbs)], f"kind{i // len(verbs)}"
        rare = " near the quokka" if i % (MANY_TOOLS // 3) == 100 else ""
        lines += [
            f"  - name: {verb}_{kind}",
            f"    description: {verb.capitalize()} a resource of {kind} in the chosen region{rare}",
            f"    command: {kind} {verb}",
            "    args:",
            "      - {name: id, required: true, positional: true, description: Identifier}",
            "      - {name: region, flag: --region, enum: [north, south], default: north}",
            "      - {name: force, type: boolean, flag: --force, description: Do not ask}",
        ]
    return "\n".join(lines) + "\n"


def turns(sides, round_number):
    """The sides in rotating order, so that none is always first."""
    names = list(sides)
    shift = round_number % len(names)
    return names[shift:] + names[:shift]


def measure_start(sides, config, rounds, record):
    for round_number in range(-1, rounds):
        for name in turns(sides, round_number):
            server = Server([*sides[name], config])
            time.sleep(SETTLE_SECONDS)
            memory = server.memory()
            cpu = server.close()
            # The first round only warms caches.
            if round_number >= 0:
                record("start_wall", name, server.initialized_after * 1000)
                record("start_cpu", name, cpu)
                for key, value in memory.items():
                    record(key, name, value)


def measure_calls(sides, config, rounds, record):
    spawn_loop, call_loop = compile_loop("spawn_loop"), compile_loop("call_loop")
    servers = {name: Server([*command, config]) for name, command in sides.items()}

    def bare(how):
        argv = [spawn_loop, how, str(CALL_BLOCK), "true"]
        return milliseconds(subprocess.run(argv, capture_output=True, text=True))

    def calls(name):
        count = SLOW_CALL_BLOCK if name == "original" else CALL_BLOCK
        return servers[name].time_calls(call_loop, count, CALL, CALL_ANSWER)

    for round_number in range(-1, rounds):
        took = {name: [] for name in [*servers, "bare", "pipes"]}
        for block in range(CALL_BLOCKS):
            for name in turns(took, round_number + block):
                took[name] += calls(name) if name in servers else bare(name)
        # The first round only warms up.
        if round_number >= 0:
            for name, values in took.items():
                record("call", name, statistics.median(values))
                record("call_fast", name, statistics.quantiles(values, n=10)[0])
                record("call_pipes", name, statistics.median(values))
    for name, server in servers.items():
        record("rss_used", name, server.memory()["rss"])
        server.close()


def measure_many_tools(sides, config, rounds, record):
    call_loop = compile_loop("call_loop")
    for round_number in range(rounds):
        texts = {}
        for name in turns(sides, round_number):
            say(f"  {name}")
            server = Server([*sides[name], config])
            few = server.text(FEW)
            record("many_first", name, (time.perf_counter() - server.began) * 1000)
            texts[name] = [json.loads(few), json.loads(server.text(MANY))]
            count = SLOW_SEARCH_BLOCK if name == "original" else SEARCH_BLOCK
            for key, query in (("many_few", FEW), ("many_many", MANY)):
                record(key, name, statistics.median(server.time_calls(call_loop, count, query, "resource")))
            server.close()
        if texts["ours"] != texts["original"]:
            raise Broken("the sides find different tools")
        if [len(found["results"]) for found in texts["ours"]] != [3, 10]:
            raise Broken("the searches find other tools than they should")


def summarise(measure, samples):
    """Medians per side, the median of the rounds' ratios, and whether the goal is met."""
    medians = {name: statistics.median(values) for name, values in samples.items()}
    ratio = None
    if measure.divide:
        over, under = (samples[name] for name in measure.divide)
        ratio = statistics.median(a / b for a, b in zip(over, under, strict=True))
    judged = medians["ours"] if ratio is None else ratio
    return {
        "measure": measure.key,
        "label": measure.label,
        "unit": measure.unit,
        "medians": medians,
        "ratio": ratio,
        "ratio_of": measure.divide,
        "goal": measure.goal and str(measure.goal),
        "met": measure.goal and measure.goal.met(judged),
        "rounds": samples,
    }


def table(rows):
    head = ["measure", "unit", "ours", "original", "bare", "ratio", "goal", ""]
    lines = [head]
    for row in rows:
        floor = "pipes" if row["measure"] == "call_pipes" else "bare"
        side = {name: figure(value) for name, value in row["medians"].items()}
        ratio = f"{row['ratio']:.2f}× {'/'.join(row['ratio_of'])}" if row["ratio"] else ""
        met = {None: "", True: "met", False: "NOT MET"}[row["met"]]
        figures = [side["ours"], side["original"], side.get(floor, "")]
        lines.append([row["label"], row["unit"], *figures, ratio, row["goal"] or "", met])
    widths = [max(map(len, column)) for column in zip(*lines)]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip() for line in lines)


def figure(value):
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def say(text):
    print(text, file=sys.stderr, flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--climax", required=True, type=pathlib.Path, metavar="PATH", help="our program")
    parser.add_argument("--original", type=pathlib.Path, metavar="PATH", help="instead of installing it")
    parser.add_argument("--rounds", type=int, default=11, metavar="N")
    parser.add_argument("--out", type=pathlib.Path, metavar="FILE", help="write everything as JSON")
    parser.add_argument("--check", action="store_true", help="exit status 1 when a goal is not met")
    args = parser.parse_args()

    original = args.original or install_original()
    sides = {"ours": [args.climax.resolve(), "run"], "original": [original, "run"]}
    samples = {}

    def record(measure, side, value):
        samples.setdefault(measure, {}).setdefault(side, []).append(value)

    load_before = os.getloadavg()
    try:
        with tempfile.TemporaryDirectory(prefix="bench-") as folder:
            small, large = pathlib.Path(folder, "small.yaml"), pathlib.Path(folder, "large.yaml")
            small.write_text(CALL_CONFIG)
            large.write_text(many_tools())
            say("start and idle memory")
            measure_start(sides, small, args.rounds, record)
            say("calls")
            measure_calls(sides, small, args.rounds, record)
            say("10,000 tools")
            measure_many_tools(sides, large, min(args.rounds, MANY_TOOLS_ROUNDS), record)
    except (Broken, OSError, subprocess.CalledProcessError) as e:
        sys.exit(f"broken: {e}")

    rows = [summarise(measure, samples[measure.key]) for measure in MEASURES if measure.key in samples]
    print(table(rows))
    if args.out:
        machine = {"cores": os.cpu_count(), "load_before": load_before, "load_after": os.getloadavg()}
        args.out.write_text(json.dumps({"machine": machine, "measures": rows}, indent=1) + "\n")
    if args.check and any(row["met"] is False for row in rows):
        sys.exit(1)


if __name__ == "__main__":
    main()
