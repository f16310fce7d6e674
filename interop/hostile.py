#!/usr/bin/env python3
"""Hostile clients beside an honest one: `/health` and honest calls keep answering.

    hostile.py MUSTER [--seconds S] [--limit RATIO]

Starts two gateways with one server each, and measures an honest client of the first one three times: alone, while four
hostile clients attack the second gateway, and while they attack the first. The attacks: names of a megabyte, a server's
schema and JSON paths that take exponential time, half-sent heads, and a flood of sessions.

The second measurement is the control. Four clients that send as fast as they can, and the gateway that answers them, keep
several cores busy, and on a small machine that alone delays an honest client, and its own measurements, by many times.
What the gateway is responsible for is the difference between the second and the third.

Prints the 99th percentiles and both ratios; fails if the ratio to the control exceeds the limit, or if an answer is wrong.
The ratio to the client alone is printed for machines with cores to spare, where it means the same.
"""

import argparse
import contextlib
import http.client
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import time

# Shorter latencies than this are noise: the scheduler's slice.
FLOOR = 0.003
START_LIMIT = 60
ANSWER_LIMIT = 60
VERSION = "2025-06-18"


def server():
    """An MCP server with an ordinary tool, one with a schema of doubling references, and one with a long result."""
    defs = {"d0": {"type": "string"}}
    for number in range(1, 40):
        before = {"$ref": f"#/$defs/d{number - 1}"}
        defs[f"d{number}"] = {"anyOf": [before, before]}
    anything = {"type": "object"}
    bomb = {"type": "object", "properties": {"a": {"$ref": "#/$defs/d39"}}, "$defs": defs}
    tools = [
        {"name": "echo", "description": "Echo", "inputSchema": anything},
        {"name": "bomb", "description": "Bomb", "inputSchema": bomb},
        {"name": "items", "description": "Items", "inputSchema": anything},
    ]
    for line in sys.stdin:
        message = json.loads(line)
        if "id" not in message:
            continue
        params = message.get("params") or {}
        match message["method"]:
            case "initialize":
                info = {"name": "hostile", "version": "1"}
                result = {"protocolVersion": VERSION, "capabilities": {"tools": {}}, "serverInfo": info}
            case "tools/list":
                result = {"tools": tools}
            case "tools/call" if params["name"] == "items":
                items = json.dumps({"items": [{"id": number} for number in range(20_000)]})
                result = {"content": [{"type": "text", "text": items}]}
            case "tools/call":
                result = {"content": [{"type": "text", "text": json.dumps(params.get("arguments"))}]}
            case _:
                result = {}
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)


class Client:
    """A client of streamable HTTP on one connection."""

    def __init__(self, port):
        self.port, self.session, self.number = port, None, 0
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=ANSWER_LIMIT)

    def post(self, message):
        headers = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
        if self.session:
            headers["mcp-session-id"] = self.session
        self.connection.request("POST", "/mcp", json.dumps({"jsonrpc": "2.0", **message}), headers)
        reply = self.connection.getresponse()
        body = reply.read().decode()
        self.session = reply.headers.get("mcp-session-id") or self.session
        if body.startswith(("event:", ":")):
            body = [line[6:] for line in body.splitlines() if line.startswith("data: ")][-1]
        return reply.status, json.loads(body) if body else None

    def ask(self, method, params):
        self.number += 1
        return self.post({"id": self.number, "method": method, "params": params})

    def initialize(self):
        info = {"name": "hostile.py", "version": "1"}
        status, _ = self.ask("initialize", {"protocolVersion": VERSION, "capabilities": {}, "clientInfo": info})
        assert status == 200, status
        self.post({"method": "notifications/initialized"})
        return self

    def tool(self, name, arguments):
        return self.ask("tools/call", {"name": name, "arguments": arguments})

    def call(self, name, arguments):
        return self.tool("call_tool", {"name": name, "arguments": arguments})


def text(answer):
    return "".join(part.get("text", "") for part in answer[1]["result"]["content"])


def names(port):
    client = Client(port).initialize()
    while True:
        client.call("x" * 1_000_000, {})
        client.tool("describe_tool", {"name": "y" * 1_000_000})


def bombs(port):
    client = Client(port).initialize()
    client.call("x_hostile_items", {})
    long = text(client.call("x_hostile_items", {}))
    handle = "out_" + long.split("out_")[1][:24]
    while True:
        client.call("x_hostile_bomb", {"a": 5})
        client.tool("get_output", {"handle": handle, "path": "$.items[?$.items[?@.id==-1]]"})
        client.tool("get_output", {"handle": handle, "grep": "(a|a|aa){50}{2}$"})


def heads(port):
    held = []
    while True:
        try:
            connection = socket.create_connection(("127.0.0.1", port), timeout=10)
            connection.sendall(b"POST /mcp HTTP/1.1\r\nhost: 127")
            held.append(connection)
        except OSError:
            time.sleep(0.05)
        if len(held) >= 700:
            held.pop(0).close()


def sessions(port):
    while True:
        client = Client(port)
        for _ in range(100):
            client.session = None
            client.ask("initialize", {"protocolVersion": VERSION, "capabilities": {}, "clientInfo": {}})


HOSTILE = {"names": names, "bombs": bombs, "heads": heads, "sessions": sessions}


def persistent(work, port):
    """A hostile client goes on, whatever the gateway says."""
    while True:
        try:
            work(port)
        except (OSError, http.client.HTTPException, ValueError, LookupError, AssertionError):
            time.sleep(0.05)


def measure(client, port, seconds):
    """The latencies of `/health` and of honest calls, and the wrong answers."""
    health, calls, wrong = [], [], []
    end = time.monotonic() + seconds
    while time.monotonic() < end or len(calls) < 20:
        began = time.monotonic()
        try:
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=ANSWER_LIMIT)
            connection.request("GET", "/health")
            if connection.getresponse().status != 200:
                wrong.append("health")
            connection.close()
        except OSError as error:
            wrong.append(f"health: {error}")
        health.append(time.monotonic() - began)
        began = time.monotonic()
        try:
            answer = client.call("x_hostile_echo", {"n": len(calls)})
            if answer[0] != 200 or f'{{"n": {len(calls)}}}' not in text(answer).replace("\\", ""):
                wrong.append(f"call: {str(answer)[:200]}")
        except (OSError, http.client.HTTPException, LookupError) as error:
            wrong.append(f"call: {error!r}")
            client.connection.close()
        calls.append(time.monotonic() - began)
        time.sleep(0.005)
    return health, calls, wrong


def p99(latencies):
    return sorted(latencies)[int(len(latencies) * 0.99)]


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_until_ready(port):
    end = time.monotonic() + START_LIMIT
    while time.monotonic() < end:
        try:
            client = Client(port).initialize()
            if '"n": 0' in text(client.call("x_hostile_echo", {"n": 0})).replace("\\", ""):
                return client
        except (OSError, http.client.HTTPException, LookupError, AssertionError):
            pass
        time.sleep(0.2)
    raise SystemExit("the gateway did not start")


class Gateway:
    """A gateway with the server of this file behind it."""

    def __init__(self, muster, folder):
        self.port, self.log = free_port(), folder / "log"
        (folder / "mcpservers").mkdir(parents=True)
        (folder / "config.yaml").write_text(f"aggregator:\n  port: {self.port}\n")
        command = {"type": "stdio", "command": sys.executable, "args": [__file__, "--serve"], "autoStart": True}
        (folder / "mcpservers/hostile.yaml").write_text(json.dumps({"name": "hostile", **command}))
        # As a service manager starts it: with the usual soft limit of open files.
        limited = ["prlimit", "--nofile=1024:4096", muster, "serve", "--config-path", str(folder)]
        env = {**os.environ, "XDG_STATE_HOME": str(folder / "state")}
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(limited, stdout=log, stderr=log, start_new_session=True, env=env)

    def stop(self):
        """Whether it ends at SIGTERM."""
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(15)
            return True
        except subprocess.TimeoutExpired:
            return False

    def __enter__(self):
        return self

    def __exit__(self, *_):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


@contextlib.contextmanager
def hostile_clients(port):
    """All hostile clients at a gateway, a second after they began."""
    clients = [subprocess.Popen([sys.executable, __file__, "--hostile", kind, str(port)]) for kind in HOSTILE]
    try:
        time.sleep(1)
        yield
    finally:
        for client in clients:
            client.kill()
            client.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("muster")
    parser.add_argument("--seconds", type=float, default=8)
    parser.add_argument("--limit", type=float, default=10, help="the highest ratio of the 99th percentiles to those of the control")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        attacked = stack.enter_context(Gateway(args.muster, pathlib.Path(folder) / "attacked"))
        other = stack.enter_context(Gateway(args.muster, pathlib.Path(folder) / "other"))
        client = wait_until_ready(attacked.port)
        wait_until_ready(other.port)
        alone = measure(client, attacked.port, args.seconds)
        with hostile_clients(other.port):
            control = measure(client, attacked.port, args.seconds)
        with hostile_clients(attacked.port):
            beside = measure(client, attacked.port, args.seconds)
        ended = [gateway.stop() for gateway in (attacked, other)]
        failed = 0
        for name, kind in (("/health", 0), ("calls", 1)):
            quiet, busy, loud = (max(p99(measured[kind]), FLOOR) for measured in (alone, control, beside))
            good = loud / busy <= args.limit
            failed += not good
            print(
                f"{name}: p99 {quiet * 1e3:.1f} ms alone, {busy * 1e3:.1f} ms while another gateway is attacked, "
                f"{loud * 1e3:.1f} ms while this one is: {loud / busy:.1f} times "
                f"({'ok' if good else 'above ' + str(args.limit)}); {loud / quiet:.1f} times alone; "
                f"{len(beside[kind])} requests"
            )
        for wrong, when in ((alone[2], "alone"), (control[2], "beside another"), (beside[2], "under attack")):
            failed += bool(wrong)
            print(f"wrong answers {when}: {len(wrong)} {wrong[:3] if wrong else ''}")
        failed += not all(ended)
        print(f"the gateways {'end' if all(ended) else 'do not end'} at SIGTERM")
        print(f"{6 - failed} passed, {failed} failed")
        if failed:
            print(attacked.log.read_text(errors="replace")[-3000:])
        return failed > 0


if __name__ == "__main__":
    if sys.argv[1:] == ["--serve"]:
        server()
    elif sys.argv[1:2] == ["--hostile"]:
        persistent(HOSTILE[sys.argv[2]], int(sys.argv[3]))
    else:
        sys.exit(main())
