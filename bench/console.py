#!/usr/bin/env python3
"""Measures what the console, the metrics and the history cost.

    bench/console.py [--bin DIR] [--bench DIR] [--only PART,...] [--calls N] [--rounds N] [--secs S] [--out FILE.json] [--check]

`pages`: 50 servers with 10,000 tools (one process answers for all of them), 100,000 recorded calls of all of them; each page
and its JSON form is fetched several times, and the median time to its first byte and its size count. Metrics: the same
gateway after calls of 1,000 tools of 20 servers. `cost`: two gateways in turn, one without a history that nobody watches, one
with a history whose metrics are scraped each second and whose console is open; needs the load client of gateway.py.
`memory`: a gateway without servers, before and after its pages were opened.
"""

import argparse
import concurrent.futures
import contextlib
import http.client
import json
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from gateway import SHARED, Bench, Broken, Side, build, through_call_tool

ROOT = pathlib.Path(__file__).resolve().parent.parent
SERVERS, TOOLS_EACH = 50, 200
CALLED_SERVERS, CALLED_TOOLS = 20, 1_000
THREADS = 8
# How long a gateway may take to list the tools of all servers.
READY_SECONDS = 120
# The callers of the throughput, how often metrics are scraped, and how often an open page of the console is fetched again.
CALLERS, SCRAPE_SECONDS, REFRESH_SECONDS = 16, 1, 3
MAX_FIRST_BYTE_MS, MAX_PAGE_BYTES = 150, 200_000
MAX_SCRAPE_MS = 20
MIN_THROUGHPUT = 0.95
MAX_IDLE_MIB = 12
PAGES = (
    "", "/servers", "/servers/s7", "/servers/-/new", "/servers/-/import", "/tools", "/tools/x_s7_tool_9", "/calls",
    "/calls?status=error", "/calls?tool=x_s7_tool_9", "/calls/LAST", "/workflows", "/workflows/-/new", "/workflows/report",
    "/runs/RUN", "/services", "/services/s7", "/events", "/policies",
    "/policies?tool=x_s7_tool_9&user=ann%40example.com", "/people", "/settings",
    # The first search has the gateway embed its tools, in the background.
    "/tools?q=watch+an+invoice",
)


WORKFLOW = {"description": "Ten steps", "steps": [{"id": f"s{n}", "tool": "core_service_list"} for n in range(10)]}


class Backend(BaseHTTPRequestHandler):
    """Many MCP servers behind one port, told apart by their paths."""

    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.reply(405, b"")

    def do_POST(self):
        message = json.loads(self.rfile.read(int(self.headers["content-length"])))
        method = message.get("method")
        if "id" not in message:
            return self.reply(202, b"")
        if method == "initialize":
            result = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
                      "serverInfo": {"name": "many", "version": "1"}}
        elif method == "tools/list":
            schema = {"type": "object", "required": ["subject"],
                      "properties": {"subject": {"type": "string", "description": "What it is about"}}}
            result = {"tools": [{"name": f"tool_{n}", "description": f"Watch an invoice or a report, number {n}",
                                 "inputSchema": schema} for n in range(TOOLS_EACH)]}
        else:
            result = {"content": [{"type": "text", "text": "done"}]}
        self.reply(200, json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}).encode())

    def reply(self, status, body):
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


class Gateway:
    """A gateway that every process on this machine may use as an operator."""

    def __init__(self, program, config, servers=()):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="muster-bench-"))
        (self.folder / "config.yaml").write_text("aggregator: {port: 0}\nclis: {bundled: none}\n" + config)
        (self.folder / "mcpservers").mkdir()
        for name, server in servers:
            text = json.dumps({"name": name, "autoStart": True, **server})
            (self.folder / f"mcpservers/{name}.yaml").write_text(text)
        (self.folder / "workflows").mkdir()
        (self.folder / "workflows/report.yaml").write_text(json.dumps(WORKFLOW))
        env = dict(os.environ, HOME=str(self.folder), MUSTER_ACCESS="open", MUSTER_STATE_PATH=str(self.folder / "state"))
        env.pop("XDG_STATE_HOME", None)
        command = [program, "serve", "--config-path", self.folder]
        self.log = (self.folder / "log").open("w+")
        self.child = subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL, stderr=self.log)
        deadline = time.monotonic() + 60
        while True:
            found = re.search(r"listening on http://[^:]+:(\d+)/mcp", (self.folder / "log").read_text())
            if found:
                break
            if self.child.poll() is not None or time.monotonic() > deadline:
                raise Broken(f"the gateway did not start: {(self.folder / 'log').read_text()}")
            time.sleep(0.02)
        self.port = int(found[1])

    def connection(self):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)

    def call(self, connection, tool, arguments):
        params = {"name": "call_tool", "arguments": {"name": tool, "arguments": arguments}, "_meta": {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": {"name": "bench", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {},
        }}
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
        headers = {"content-type": "application/json", "accept": "application/json, text/event-stream",
                   "mcp-protocol-version": "2026-07-28", "mcp-method": "tools/call", "mcp-name": "call_tool"}
        connection.request("POST", "/mcp", body, headers)
        answer = connection.getresponse()
        text = answer.read()
        if answer.status != 200:
            raise Broken(f"{tool}: {answer.status} {text[:300]}")
        return text

    def get(self, path):
        """The time to the first byte in milliseconds, and the body."""
        connection = self.connection()
        connection.connect()
        began = time.perf_counter()
        connection.request("GET", path, headers={"accept": "text/html"})
        answer = connection.getresponse()
        elapsed = (time.perf_counter() - began) * 1e3
        body = answer.read()
        connection.close()
        if answer.status != 200:
            raise Broken(f"{path}: {answer.status} {body[:300]}")
        return elapsed, body

    def cpu(self):
        fields = pathlib.Path(f"/proc/{self.child.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def resident_mib(self):
        status = pathlib.Path(f"/proc/{self.child.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+)", status)[1]) / 1024

    def stop(self):
        self.child.terminate()
        self.child.wait(20)
        self.log.close()
        shutil.rmtree(self.folder, ignore_errors=True)


def fill(gateway, tools, count, arguments):
    """Calls tools in turn, from several threads."""
    def work(at):
        connection = gateway.connection()
        for number in range(at, count, THREADS):
            gateway.call(connection, tools[number % len(tools)], arguments)

    with concurrent.futures.ThreadPoolExecutor(THREADS) as pool:
        # The failure of a thread is one of the benchmark.
        for done in [pool.submit(work, at) for at in range(THREADS)]:
            done.result()


def pages(program, backend, calls):
    kind = "streamable-http"
    servers = [(f"s{n}", {"type": kind, "url": f"http://127.0.0.1:{backend}/s{n}"}) for n in range(SERVERS)]
    gateway = Gateway(program, "history: {maxSize: 256}\nmetrics: {loopback: true}\n", servers)
    try:
        deadline = time.monotonic() + READY_SECONDS
        while True:
            _, body = gateway.get("/console/tools?format=json")
            total = json.loads(body).get("total", 0)
            if total >= SERVERS * TOOLS_EACH:
                break
            if time.monotonic() > deadline:
                raise Broken(f"{total} of {SERVERS * TOOLS_EACH} tools are there after {READY_SECONDS} s")
            time.sleep(0.2)
        each = CALLED_TOOLS // CALLED_SERVERS
        called = [f"x_s{server}_tool_{tool}" for server in range(CALLED_SERVERS) for tool in range(each)]
        fill(gateway, called, CALLED_TOOLS, {"subject": "x"})
        scrapes = [gateway.get("/metrics") for _ in range(21)]
        lines = scrapes[-1][1].decode().splitlines()
        metrics = {
            "ms": statistics.median(elapsed for elapsed, _ in scrapes),
            "bytes": len(scrapes[-1][1]),
            "series": sum(not line.startswith("#") for line in lines),
        }
        # A call without its argument is recorded like others, and needs no backend.
        tools = [f"x_s{server}_tool_{tool}" for tool in range(TOOLS_EACH) for server in range(SERVERS)]
        fill(gateway, tools, calls - CALLED_TOOLS, {})
        gateway.call(gateway.connection(), "workflow_report", {})
        run = json.loads(gateway.get("/console/workflows/report?format=json")[1])["runs"]["executions"][0]["execution_id"]
        last = json.loads(gateway.get("/console/calls?format=json")[1])["calls"][0]["id"]
        found = {}
        forms = [path for page in PAGES for path in (page, page + ("&" if "?" in page else "?") + "format=json")]
        for path in forms:
            path = path.replace("LAST", str(last)).replace("RUN", run)
            times, body = [], b""
            for _ in range(7):
                elapsed, body = gateway.get(f"/console{path}")
                times.append(elapsed)
            found[f"/console{path}"] = {"first_byte_ms": statistics.median(times), "bytes": len(body)}
        return {"recorded": last, "pages": found, "metrics": metrics}
    finally:
        gateway.stop()


def cost(program, client, rounds, seconds):
    """Throughput and CPU time of `call_tool`, alone and watched, in turns."""
    echo = [("echo", {"type": "stdio", "command": str(client), "args": ["backend-stdio"]})]
    alone = Gateway(program, "history: {enabled: false}\n", echo)
    watched = Gateway(program, "metrics: {loopback: true}\n", echo)
    bench = Bench(client, seconds)
    stopped, running = threading.Event(), threading.Event()

    def watch(paths, interval):
        while not stopped.wait(interval):
            if running.is_set():
                for path in paths:
                    watched.get(path)

    pool = concurrent.futures.ThreadPoolExecutor(2)
    watchers = [
        pool.submit(watch, ["/metrics"], SCRAPE_SECONDS),
        pool.submit(watch, ["/console", "/console/calls"], REFRESH_SECONDS),
    ]
    results = {"alone": [], "watched": []}
    try:
        sides = [("alone", alone), ("watched", watched)]
        targets = {
            name: Side(f"http://127.0.0.1:{gateway.port}/mcp", gateway.child.pid, through_call_tool("x_echo_echo"))
            for name, gateway in sides
        }
        for name, gateway in sides:
            bench.ready(targets[name], gateway.child)
        for _ in range(rounds):
            for name, _ in sides:
                running.set() if name == "watched" else running.clear()
                result = bench.load(targets[name], callers=CALLERS)
                results[name].append({"per_second": result["rps"], "cpu_us": result["gw_cpu_us_per_call"]})
            sides.reverse()
        recorded = json.loads(watched.get("/console/calls?format=json")[1])["calls"][0]["id"]
    finally:
        stopped.set()
        pool.shutdown()
        alone.stop()
        watched.stop()
    # A watcher that failed did not watch.
    for watcher in watchers:
        watcher.result()
    median = lambda side, key: statistics.median(one[key] for one in results[side])
    pairs = list(zip(results["alone"], results["watched"]))
    return {
        "alone": {key: median("alone", key) for key in ("per_second", "cpu_us")},
        "watched": {key: median("watched", key) for key in ("per_second", "cpu_us")},
        "throughput_ratio": statistics.median(one["per_second"] / other["per_second"] for other, one in pairs),
        "cpu_ratio": statistics.median(one["cpu_us"] / other["cpu_us"] for other, one in pairs),
        "recorded": recorded,
        "rounds": results,
    }


def memory(program):
    gateway = Gateway(program, "")
    try:
        time.sleep(2)
        idle = gateway.resident_mib()
        for path in ("", "/servers", "/tools", "/calls", "/policies", "/people", "/settings"):
            gateway.get(f"/console{path}")
        time.sleep(2)
        return {"idle_mib": idle, "after_pages_mib": gateway.resident_mib()}
    finally:
        gateway.stop()


PARTS = ("memory", "cost", "pages")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bin", type=pathlib.Path, default=ROOT / "target/dist")
    parser.add_argument("--bench", type=pathlib.Path, default=SHARED / "bench", help="the load client")
    parser.add_argument("--only", default=",".join(PARTS))
    parser.add_argument("--calls", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--secs", type=float, default=2)
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    program, parts = (options.bin / "muster").resolve(), options.only.split(",")
    before, found, missed = os.getloadavg(), {}, []

    def line(what, value, unit, goal, is_met):
        print(f"{what:<72}{value:>8.1f} {unit:<4} goal {goal}: {'met' if is_met else 'MISSED'}", flush=True)
        if not is_met:
            missed.append(what)

    if "memory" in parts:
        used = found["memory"] = memory(program)
        line("idle memory, resident", used["idle_mib"], "MiB", f"≤ {MAX_IDLE_MIB}", used["idle_mib"] <= MAX_IDLE_MIB)
        print(f"memory after pages were opened: {used['after_pages_mib']:.1f} MiB")
    if "cost" in parts and not (options.bench / "Cargo.toml").exists():
        print(f"skipped: cost, no load client in {options.bench}", file=sys.stderr)
        missed.append("cost")
    elif "cost" in parts:
        costs = found["cost"] = cost(program, build(options.bench), options.rounds, options.secs)
        for side in ("alone", "watched"):
            print(f"call_tool, {side}: {costs[side]['per_second']:.0f} calls/s, {costs[side]['cpu_us']:.0f} µs of CPU per call")
        ratio = costs["throughput_ratio"]
        line("call_tool: throughput watched ÷ alone", ratio * 100, "%", f"≥ {MIN_THROUGHPUT:.0%}", ratio >= MIN_THROUGHPUT)
        print(f"recorded calls: {costs['recorded']}")
    if "pages" in parts:
        backend = ThreadingHTTPServer(("127.0.0.1", 0), Backend)
        backend.daemon_threads = True
        threading.Thread(target=backend.serve_forever, daemon=True).start()
        found |= pages(program, backend.server_port, options.calls)
        for path, page in found["pages"].items():
            line(f"{path}: first byte", page["first_byte_ms"], "ms", f"≤ {MAX_FIRST_BYTE_MS}",
                 page["first_byte_ms"] <= MAX_FIRST_BYTE_MS)
            line(f"{path}: size", page["bytes"] / 1e3, "kB", f"≤ {MAX_PAGE_BYTES // 1000}",
                 page["bytes"] <= MAX_PAGE_BYTES)
        scraped = found["metrics"]
        line(f"/metrics: scrape of {scraped['series']} series", scraped["ms"], "ms", f"≤ {MAX_SCRAPE_MS}",
             scraped["ms"] <= MAX_SCRAPE_MS)
        print(f"recorded calls: {found['recorded']}")
    found["load"] = {"before": before, "after": os.getloadavg()}
    print(f"load {before[0]:.1f} to {os.getloadavg()[0]:.1f}")
    if options.out:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps(found, indent=2) + "\n")
    sys.exit(1 if options.check and missed else 0)


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        try:
            main()
        except Broken as error:
            sys.exit(f"broken: {error}")
