#!/usr/bin/env python3
"""Measures the gateway against direct access, against a minimal gateway (the floor), and against proxies.

    gateway.py [--bin DIR] [--bench DIR] [--rounds N] [--secs S] [--proxies] [--out FILE.json] [--check]

All targets alternate within one run, in rotating order, so that other load on the machine affects them
alike: only ratios are comparable. See README.md.
"""

import argparse
import contextlib
import json
import os
import pathlib
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field

HERE = pathlib.Path(__file__).resolve().parent
TARGET = HERE.parent / "target"
SHARED = HERE.parent.parent / "shared"

CALLERS = (1, 16, 64)
PROXY_CALLERS = (1, 16)
START_LIMIT = 60
STOP_LIMIT = 8
SETTLE_SECONDS = 1
FEW_TOOLS, MANY_TOOLS = 100, 10_000
MIB = 1024 * 1024
MESSAGE = "x" * 32
SEARCHES = {"query": {"query": "watch an invoice"}, "pattern": {"pattern": "*invoice_9*"}}


# Program, what is called, transport of the backend: the highest latency of one caller relative to a direct call,
# and the lowest throughput of 16 callers relative to the floor.
CALL_GOALS = (
    ("climax", "classic", "HTTP", 2.3, 0.75),
    ("climax", "classic", "stdio", 1.8, 0.75),
    ("muster", "call_tool", "HTTP", 2.6, 0.70),
    ("muster", "call_tool", "stdio", 2.0, 0.70),
)
# µs of CPU time per call with 16 callers.
CPU_GOALS = {"HTTP": 60, "stdio": 40}


class Broken(Exception):
    """The measurement is invalid."""


@dataclass
class Side:
    """A way to reach the echo tool."""

    url: str
    pid: int | None = None
    options: list[str] = field(default_factory=list)
    callers: tuple[int, ...] = CALLERS


class Processes(contextlib.ExitStack):
    """Started processes, all ended with their descendants on exit."""

    def start(self, *command):
        process = subprocess.Popen(
            [str(word) for word in command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        self.callback(stop, process)
        return process


def stop(process):
    family = [process.pid, *descendants(process.pid)]
    process.terminate()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(STOP_LIMIT)
    for pid in family:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    process.wait()


def descendants(pid):
    found = []
    with contextlib.suppress(OSError):
        for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
            for child in map(int, (task / "children").read_text().split()):
                found += [child, *descendants(child)]
    return found


def memory(pid):
    """Resident bytes of a gateway and its helpers, which run the same program, without backends."""
    total = {"rss": 0, "pss": 0}
    program = os.stat(f"/proc/{pid}/exe").st_ino
    for each in [pid, *descendants(pid)]:
        with contextlib.suppress(OSError):
            # The floor and its backend are one program.
            backend = b"backend-stdio" in pathlib.Path(f"/proc/{each}/cmdline").read_bytes().split(b"\0")[1:2]
            if os.stat(f"/proc/{each}/exe").st_ino == program and not backend:
                lines = pathlib.Path(f"/proc/{each}/smaps_rollup").read_text().splitlines()
                for key, label in (("rss", "Rss:"), ("pss", "Pss:")):
                    total[key] += next(int(line.split()[1]) for line in lines if line.startswith(label)) * 1024
    return total


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def build(source):
    copy = TARGET / "bench-src"
    copy.mkdir(parents=True, exist_ok=True)
    for file in source.rglob("*"):
        to = copy / file.relative_to(source)
        if file.is_dir():
            to.mkdir(exist_ok=True)
        elif not to.exists() or to.read_bytes() != file.read_bytes():
            shutil.copyfile(file, to)
    # Not part of this workspace: it gets a workspace and a target folder of its own.
    manifest = copy / "Cargo.toml"
    if "[workspace]" not in manifest.read_text():
        manifest.write_text(manifest.read_text() + "\n[workspace]\n")
    env = {key: value for key, value in os.environ.items() if key != "CARGO_TARGET_DIR"}
    subprocess.run(["cargo", "build", "--quiet", "--release"], cwd=copy, env=env, check=True)
    return copy / "target/release/bench"


def run_load(command):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    try:
        result = json.loads(done.stdout.splitlines()[-1])
    except (IndexError, ValueError):
        raise Broken(f"the load client says {done.stderr.strip() or done.stdout!r}") from None
    if result["errors"] or not result["n"]:
        raise Broken(f"{result['errors']} calls failed: {result['first_error']}")
    return result


class Bench:
    """The load client and the backends that go with it."""

    def __init__(self, program, secs):
        self.program, self.secs = program, secs

    def load(self, side, callers=1, secs=None, warm=0.3, options=()):
        secs = secs or self.secs
        command = [self.program, "load", f"--url={side.url}", f"--conc={callers}", f"--secs={secs}", f"--warm={warm}"]
        if side.pid:
            command += [f"--pid={side.pid}", "--exclude=bench"]
        return run_load([*command, *side.options, *options])

    def load_pipe(self, callers):
        command = [self.program, "stdio", f"--conc={callers}", f"--secs={self.secs}", "--warm=0.3", "--settle-ms=0"]
        return run_load([*command, "--", self.program, "backend-stdio"])

    def ready(self, side, process):
        end = time.monotonic() + START_LIMIT
        while True:
            try:
                # Few calls only: idle memory is measured before any load.
                return self.load(side, secs=0.01, warm=0)
            except Broken as e:
                if process.poll() is not None:
                    raise Broken(f"{process.args[0]} ended with status {process.returncode}") from None
                if time.monotonic() > end:
                    raise Broken(f"{process.args[0]} did not become ready: {e}") from None
            time.sleep(0.1)

    def backend(self, processes, tools=10):
        port = free_port()
        process = processes.start(self.program, "backend-http", f"--port={port}", f"--tools={tools}")
        side = Side(f"http://127.0.0.1:{port}/mcp")
        self.ready(side, process)
        return side


def through_call_tool(name):
    arguments = {"name": name, "arguments": {"message": MESSAGE}}
    return ["--tool=call_tool", f"--args={json.dumps(arguments)}", f"--needle={MESSAGE}"]


class Gateways:
    """Starts our programs in front of servers given as in mcp.json."""

    def __init__(self, folder, programs, processes, bench):
        self.folder, self.programs, self.processes, self.bench = folder, programs, processes, bench

    def scratch(self):
        return pathlib.Path(tempfile.mkdtemp(dir=self.folder))

    def launch(self, *command, port, options=()):
        process = self.processes.start(*command)
        side = Side(f"http://127.0.0.1:{port}/mcp", process.pid, list(options))
        self.bench.ready(side, process)
        time.sleep(SETTLE_SECONDS)
        return side

    def floor(self, server):
        port = free_port()
        backend = [f"--url={server['url']}"] if "url" in server else ["--", server["command"], *server["args"]]
        return self.launch(self.bench.program, "gw-min", f"--port={port}", *backend, port=port)

    def climax(self, servers):
        config, port = self.scratch() / "mcp.json", free_port()
        config.write_text(json.dumps({"mcpServers": servers}))
        flags = ["--classic", "--transport", "streamable-http", "--port", port]
        # Names are unprefixed only where there is a single source.
        tool = "echo" if len(servers) == 1 else "x_echo_echo"
        return self.launch(self.programs / "climax", "run", config, *flags, port=port, options=[f"--tool={tool}"])

    def muster(self, servers):
        folder, port = self.scratch(), free_port()
        (folder / "config.yaml").write_text(f"aggregator:\n  port: {port}\n")
        (folder / "mcpservers").mkdir()
        for name, server in servers.items():
            kind = "streamable-http" if "url" in server else "stdio"
            manifest = {
                "apiVersion": "muster.giantswarm.io/v1alpha1",
                "kind": "MCPServer",
                "metadata": {"name": name},
                "spec": {"type": kind, "autoStart": True, **server},
            }
            (folder / "mcpservers" / f"{name}.yaml").write_text(json.dumps(manifest))
        command = [self.programs / "muster", "serve", "--config-path", folder]
        return self.launch(*command, port=port, options=through_call_tool("x_echo_echo"))


def install_proxy():
    venv = TARGET / "bench-proxies"
    if not (venv / "bin/mcp-proxy").exists():
        say("installing mcp-proxy")
        subprocess.run([sys.executable, "-m", "venv", venv], check=True)
        pip = [venv / "bin/pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, "mcp-proxy"], check=True)
    return venv / "bin/mcp-proxy"


def measure_calls(bench, gateways, processes, rounds, proxies):
    backend = bench.backend(processes)
    kinds = {
        "HTTP": {"url": backend.url},
        "stdio": {"command": str(bench.program), "args": ["backend-stdio"]},
    }
    sides = {"direct, HTTP": backend, "direct, stdio": None}
    for kind, server in kinds.items():
        sides[f"floor, {kind}"] = gateways.floor(server)
        sides[f"climax, {kind}"] = gateways.climax({"echo": server})
        sides[f"muster, {kind}"] = gateways.muster({"echo": server})
    if proxies:
        port = free_port()
        command = [install_proxy(), "--port", port, "--", bench.program, "backend-stdio"]
        sides["mcp-proxy (PyPI), stdio"] = gateways.launch(*command, port=port)
        sides["mcp-proxy (PyPI), stdio"].callers = PROXY_CALLERS
    pids = {name: side.pid for name, side in sides.items() if side and side.pid}
    idle = {name: memory(pid) for name, pid in pids.items()}
    names, taken = list(sides), {}
    for number in range(rounds):
        for callers in CALLERS:
            say(f"round {number + 1} of {rounds}, {callers} callers")
            # Rotate, so that no side is always first.
            shift = number % len(names)
            for name in names[shift:] + names[:shift]:
                side = sides[name]
                if side is None:
                    result = bench.load_pipe(callers)
                elif callers in side.callers:
                    result = bench.load(side, callers)
                else:
                    continue
                taken.setdefault((name, callers), []).append(result)
    after = {name: memory(pid) for name, pid in pids.items()}
    return {"taken": taken, "idle": idle, "after": after}


def measure_catalogs(bench, gateways, corpus):
    servers = {"echo": {"command": str(bench.program), "args": ["backend-stdio"]}}
    for file in sorted(corpus.glob("*.json")):
        servers[file.stem] = {"command": sys.executable, "args": [str(HERE / "replay.py"), str(file)]}
    figures = {}
    for name in ("climax", "muster"):
        say(f"{len(servers) - 1} catalogs, {name}")
        side = getattr(gateways, name)(servers)
        # The echo server responds before all catalogs are loaded.
        time.sleep(5 * SETTLE_SECONDS)
        before = memory(side.pid)
        for callers in CALLERS:
            bench.load(side, callers)
        look = ["--list", "--needle=echo"] if name == "climax" else search({"query": "create an issue"})
        listed = bench.load(Side(side.url, side.pid), 16, options=look)
        figures[name] = {"before": before, "after": memory(side.pid), "answer_bytes": listed["answer_bytes"]}
    return figures


def search(arguments):
    return ["--tool=filter_tools", f"--args={json.dumps(arguments)}", "--needle=filtered_count"]


def measure_sizes(bench, gateways, processes, rounds):
    looks = {"tools/list": ("climax", ["--list", "--needle=echo"])}
    looks |= {f"filter_tools, {key}": ("muster", search(value)) for key, value in SEARCHES.items()}
    sides = {}
    for tools in (FEW_TOOLS, MANY_TOOLS):
        servers = {"echo": {"url": bench.backend(processes, tools).url}}
        for program in ("climax", "muster"):
            sides[program, tools] = getattr(gateways, program)(servers)
    taken = {}
    for number in range(rounds):
        for look, (program, options) in looks.items():
            for tools in (FEW_TOOLS, MANY_TOOLS) if number % 2 else (MANY_TOOLS, FEW_TOOLS):
                side = sides[program, tools]
                # Listing every tool takes long: a short measurement would hold too few samples.
                result = bench.load(Side(side.url, side.pid), secs=max(bench.secs, 2), options=options)
                taken.setdefault((look, tools), []).append(result)
    return taken


def p50(results):
    return [result["us"]["p50"] for result in results]


def median_ratio(over, under):
    return statistics.median(a / b for a, b in zip(over, under, strict=True))


def summarise_calls(measured):
    rows = []
    for (name, callers), results in measured["taken"].items():
        row = {"side": name, "callers": callers, "rounds": results}
        row["p50_us"] = statistics.median(p50(results))
        row["per_second"] = statistics.median(result["rps"] for result in results)
        row["p50_vs_direct"] = median_ratio(p50(results), p50(measured["taken"]["direct, HTTP", callers]))
        floor = measured["taken"].get((f"floor, {name.rsplit(', ')[-1]}", callers))
        if name in measured["idle"]:
            row["cpu_us"] = statistics.median(result["gw_cpu_us_per_call"] for result in results)
            rates = [[result["rps"] for result in some] for some in (results, floor)]
            row["throughput_vs_floor"] = median_ratio(*rates)
        rows.append(row)
    return rows


def goals(rows, measured, catalogs, sizes):
    by = {(row["side"], row["callers"]): row for row in rows}

    def goal(label, value, limit, at_least=False, unit="×"):
        met = value >= limit if at_least else value <= limit
        return {"label": label, "value": value, "limit": limit, "at_least": at_least, "unit": unit, "met": met}

    for program, tool, kind, latency, throughput in CALL_GOALS:
        one, many = by[f"{program}, {kind}", 1], by[f"{program}, {kind}", 16]
        label = f"{program} {tool}, {kind}"
        yield goal(f"{label}: p50 of 1 caller / direct HTTP", one["p50_vs_direct"], latency)
        yield goal(f"{label}: calls/s of 16 callers / floor", many["throughput_vs_floor"], throughput, True)
    for kind, cpu in CPU_GOALS.items():
        yield goal(f"climax classic, {kind}: CPU per call, 16 callers", by[f"climax, {kind}", 16]["cpu_us"], cpu, unit=" µs")
    for (name, callers), row in by.items():
        if name.startswith("mcp-proxy"):
            ours = by["climax, stdio", callers]
            ratio = ours["per_second"] / row["per_second"]
            yield goal(f"calls/s of {callers} callers / {name}", ratio, 10, True)
    for name, used in measured["idle"].items():
        if name.startswith(("climax", "muster")):
            yield goal(f"idle memory, {name}", used["rss"] / MIB, 12, unit=" MiB")
    for name, used in (catalogs or {}).items():
        for when in ("before", "after"):
            yield goal(f"memory with the catalogs {when} load, {name}", used[when]["rss"] / MIB, 25, unit=" MiB")
    for look in dict.fromkeys(look for look, _ in sizes):
        few, many = sizes[look, FEW_TOOLS], sizes[look, MANY_TOOLS]
        grown = many[0]["answer_bytes"] / few[0]["answer_bytes"]
        ratio = median_ratio(p50(many), p50(few))
        label = f"{look}: p50 at {MANY_TOOLS:,} tools / {FEW_TOOLS}"
        # A response that holds every tool is judged per byte.
        if grown > 2:
            yield goal(f"{label}, per byte ({ratio:.0f}× for {grown:.0f}× the bytes)", ratio / grown, 5)
        else:
            yield goal(label, ratio, 5)


def print_calls(rows, measured):
    head = ["through", "callers", "calls/s", "p50 µs", "vs direct", "vs floor", "CPU µs", "MiB idle", "MiB after"]
    lines = [head]
    for row in sorted(rows, key=lambda row: (row["side"], row["callers"])):
        ratio = f"{row['throughput_vs_floor']:.0%}" if "throughput_vs_floor" in row else ""
        cpu = f"{row['cpu_us']:.0f}" if "cpu_us" in row else ""
        used = [""] * 2
        if row["side"] in measured["idle"] and row["callers"] == 1:
            used = [f"{measured[when][row['side']]['rss'] / MIB:.1f}" for when in ("idle", "after")]
        cells = [row["side"], str(row["callers"]), f"{row['per_second']:,.0f}", f"{row['p50_us']:.0f}"]
        lines.append([*cells, f"{row['p50_vs_direct']:.2f}×", ratio, cpu, *used])
    print_table(lines)


def print_goals(found):
    lines = [["goal", "value", "limit", "result"]]
    for each in found:
        limit = f"{'≥' if each['at_least'] else '≤'} {each['limit']:g}{each['unit']}"
        value = f"{each['value']:.2f}{each['unit']}"
        lines.append([each["label"], value, limit, "pass" if each["met"] else "FAIL"])
    print_table(lines)


def print_table(lines):
    widths = [max(map(len, column)) for column in zip(*lines)]
    for line in lines:
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip())
    print()


def say(text):
    print(text, file=sys.stderr, flush=True)


def main():
    parser = argparse.ArgumentParser(description="Benchmark of the gateway")
    parser.add_argument("--bin", type=pathlib.Path, default=TARGET / "dist", metavar="DIR", help="climax and muster")
    parser.add_argument("--bench", type=pathlib.Path, default=SHARED / "bench", metavar="DIR", help="the load client")
    parser.add_argument("--corpus", type=pathlib.Path, default=SHARED / "corpus", metavar="DIR", help="tool lists")
    parser.add_argument("--rounds", type=int, default=5, metavar="N")
    parser.add_argument("--secs", type=float, default=1, metavar="S", help="length of each measurement")
    parser.add_argument("--proxies", action="store_true", help="install mcp-proxy from PyPI and compare")
    parser.add_argument("--out", type=pathlib.Path, metavar="FILE", help="write everything as JSON")
    parser.add_argument("--check", action="store_true", help="exit status 1 when a goal fails")
    args = parser.parse_args()
    if not (args.bench / "Cargo.toml").exists():
        sys.exit(f"skipped: no load client in {args.bench}")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))

    load_before = os.getloadavg()
    catalogs = None
    try:
        bench = Bench(build(args.bench), args.secs)
        with tempfile.TemporaryDirectory(prefix="bench-") as folder:

            def with_processes(measure, *rest):
                with Processes() as processes:
                    gateways = Gateways(folder, args.bin.resolve(), processes, bench)
                    return measure(gateways, processes, *rest)

            measured = with_processes(lambda g, p: measure_calls(bench, g, p, args.rounds, args.proxies))
            if args.corpus.is_dir():
                catalogs = with_processes(lambda g, _: measure_catalogs(bench, g, args.corpus))
            else:
                say(f"skipped: memory with catalogs, no tool lists in {args.corpus}")
            say(f"{MANY_TOOLS:,} tools")
            sizes = with_processes(lambda g, p: measure_sizes(bench, g, p, args.rounds))
    except (Broken, OSError, subprocess.CalledProcessError) as e:
        sys.exit(f"broken: {e}")

    rows = summarise_calls(measured)
    found = list(goals(rows, measured, catalogs, sizes))
    print_calls(rows, measured)
    print_goals(found)
    if args.out:
        machine = {"cores": os.cpu_count(), "load_before": load_before, "load_after": os.getloadavg()}
        memories = {"idle": measured["idle"], "after": measured["after"], "catalogs": catalogs}
        large = {f"{look}, {tools} tools": results for (look, tools), results in sizes.items()}
        report = {"machine": machine, "goals": found, "calls": rows, "memory": memories, "sizes": large}
        args.out.parent.mkdir(parents=True, exist_ok=True)
        args.out.write_text(json.dumps(report, indent=1) + "\n")
    if args.check and not all(each["met"] for each in found):
        sys.exit(1)


if __name__ == "__main__":
    main()
