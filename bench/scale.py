#!/usr/bin/env python3
"""Measures what sessions and calls cost the gateway: the figures that scale_model.py computes with.

    scale.py [--bin DIR] [--sessions N] [--streams N] [--calls N] [--out FILE.json]

Memory of idle sessions of legacy clients, with and without an open stream, at growing numbers; CPU time of a session's
start, of an idle second, and of a call in both eras, to a tool of the gateway itself and to one of a server behind it. CPU
time is that of the gateway's threads as the kernel accounts them, so that other load on the machine matters little. Then
the same for a command of Valkey (or Redis), which runs them on one thread; `redis-benchmark` is needed for that.
"""

import argparse
import contextlib
import http.client
import json
import os
import pathlib
import platform
import shutil
import socket
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "scripts"))

from kill_cycles import START_LIMIT, connected, free_port, wait_for  # noqa: E402

# Calls in flight at a time.
CONNECTIONS = 16
# Longer than the 15 seconds between two keep-alive comments on a stream.
IDLE_SECONDS = 30
# The counters of memory lag behind: the allocator returns pages in the background.
SETTLE_SECONDS = 2
LEGACY, MODERN = "2025-06-18", "2026-07-28"
ECHO = '''
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    method = asked["method"]
    if method == "initialize":
        result = {"protocolVersion": asked["params"]["protocolVersion"], "capabilities": {"tools": {}},
                  "serverInfo": {"name": "echo", "version": "1"}}
    elif method == "tools/list":
        result = {"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]}
    elif method == "tools/call":
        result = {"content": [{"type": "text", "text": asked["params"]["arguments"].get("text", "")}]}
    else:
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "error": {"code": -32601, "message": "?"}}), flush=True)
        continue
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}), flush=True)
'''
TOOLS = {"own": ("core_mcpserver_list", {}), "behind": ("x_echo_echo", {"text": "x" * 32})}


class Gateway:
    """A gateway with one server behind it."""

    def __init__(self, muster, folder):
        self.port = free_port()
        (folder / "clis").mkdir()
        (folder / "mcpservers").mkdir()
        (folder / "echo.py").write_text(ECHO)
        (folder / "mcpservers/echo.yaml").write_text(json.dumps(
            {"type": "stdio", "autoStart": True, "command": sys.executable, "args": [str(folder / "echo.py")]}))
        (folder / "config.yaml").write_text(json.dumps({
            "aggregator": {"port": self.port, "limits": {"concurrentCalls": 0}}, "history": {"enabled": False}}))
        env = {**os.environ, "XDG_STATE_HOME": str(folder / "state")}
        self.process = subprocess.Popen(
            [muster, "serve", "--config-path", str(folder), "--silent"], env=env, stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait_for(START_LIMIT, lambda: connected(self.port), "the gateway did not start")

    def stop(self):
        self.process.terminate()
        self.process.wait()

    def memory(self):
        """Bytes of memory that are the gateway's own."""
        time.sleep(SETTLE_SECONDS)
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return int(next(line.split()[1] for line in status.splitlines() if line.startswith("RssAnon"))) * 1024

    def cpu(self):
        """Nanoseconds that its threads have run, those that ended excepted."""
        total = 0
        for task in pathlib.Path(f"/proc/{self.process.pid}/task").iterdir():
            with contextlib.suppress(OSError):
                total += int((task / "schedstat").read_text().split()[0])
        return total

    def connect(self):
        connection = http.client.HTTPConnection("localhost", self.port, timeout=60)
        connection.connect()
        connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection

    def session(self, connection):
        """A new session of a legacy client, which has made a request."""
        params = {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}}
        head = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
        connection.request("POST", "/mcp", body("initialize", params), head)
        answer = connection.getresponse()
        answer.read()
        assert answer.status == 200, answer.status
        session = answer.headers["Mcp-Session-Id"]
        connection.request("POST", "/mcp", json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"}),
                           {**head, "Mcp-Session-Id": session})
        connection.getresponse().read()
        return session

    def stream(self, session):
        """An open connection with the stream of a session."""
        opened = socket.create_connection(("localhost", self.port))
        opened.sendall(f"GET /mcp HTTP/1.1\r\nHost: localhost:{self.port}\r\nAccept: text/event-stream\r\n"
                       f"Mcp-Session-Id: {session}\r\n\r\n".encode())
        assert b" 200 " in opened.recv(4096)
        return opened

    def call(self, connections, heads, wanted, times):
        """Makes calls, one at a time on each connection and all connections at once."""
        for _ in range(times // len(connections)):
            for connection, head in zip(connections, heads):
                connection.request("POST", "/mcp", wanted, head)
            for connection in connections:
                answer = connection.getresponse()
                text = answer.read()
                assert answer.status == 200 and b'"isError":true' not in text, text


def body(method, params):
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})


def points(most):
    return [n for n in (0, 500, 1000, 2000, 3000, 4000, 6000, 8000) if n < most] + [most]


def idle(gateway):
    """µs of CPU time per second while nobody asks for anything."""
    before, began = gateway.cpu(), time.monotonic()
    time.sleep(IDLE_SECONDS)
    return (gateway.cpu() - before) / (time.monotonic() - began) / 1000


def measure_sessions(gateway, most):
    """Memory at growing numbers of idle sessions, and the CPU time of one that starts."""
    found, connection, started, spent = [], gateway.connect(), 0, 0
    # The first requests allocate what all later ones share.
    for _ in range(50):
        gateway.session(connection)
    rest = idle(gateway)
    for wanted in points(most):
        before = gateway.cpu()
        while started < wanted:
            gateway.session(connection)
            started += 1
        spent += gateway.cpu() - before
        found.append({"sessions": wanted, "bytes": gateway.memory()})
        say(f"{wanted} sessions: {found[-1]['bytes'] / 2**20:.1f} MiB")
    per_session = max(0, idle(gateway) - rest) / most
    return {"points": found, "start_cpu_us": spent / most / 1000, "idle_cpu_us_per_second": per_session}


def measure_streams(gateway, most):
    """Memory at growing numbers of sessions with an open stream."""
    found, connection, opened = [], gateway.connect(), []
    rest = idle(gateway)
    for wanted in points(most):
        while len(opened) < wanted:
            opened.append(gateway.stream(gateway.session(connection)))
        found.append({"streams": wanted, "bytes": gateway.memory()})
        say(f"{wanted} streams: {found[-1]['bytes'] / 2**20:.1f} MiB")
    per_stream = max(0, idle(gateway) - rest) / most
    for stream in opened:
        stream.close()
    return {"points": found, "idle_cpu_us_per_second": per_stream}


def measure_calls(gateway, times):
    """CPU time of a call, in µs, by era and by what is called; of halves, which say how steady it is."""
    connections = [gateway.connect() for _ in range(CONNECTIONS)]
    sessions = [gateway.session(connection) for connection in connections]
    common = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    found = {}
    for what, (tool, arguments) in TOOLS.items():
        params = {"name": "call_tool", "arguments": {"name": tool, "arguments": arguments}}
        meta = {"io.modelcontextprotocol/protocolVersion": MODERN, "io.modelcontextprotocol/clientCapabilities": {}}
        routed = {**common, "MCP-Protocol-Version": MODERN, "Mcp-Method": "tools/call", "Mcp-Name": "call_tool"}
        eras = {
            "legacy": ([{**common, "Mcp-Session-Id": session} for session in sessions], body("tools/call", params)),
            "modern": ([routed] * CONNECTIONS, body("tools/call", {**params, "_meta": meta})),
        }
        for era, (heads, wanted) in eras.items():
            gateway.call(connections, heads, wanted, times // 4)
            halves = []
            for _ in range(2):
                before = gateway.cpu()
                gateway.call(connections, heads, wanted, times // 2)
                halves.append((gateway.cpu() - before) / (times // 2 // CONNECTIONS * CONNECTIONS) / 1000)
            found[f"{era}_{what}"] = {"cpu_us": sum(halves) / 2, "halves_us": halves}
            say(f"{era} call, {what}: {sum(halves) / 2:.0f} µs")
    return found


def measure_valkey(times):
    """CPU time of a command that reads 512 bytes, and of one that writes them."""
    server = shutil.which("valkey-server") or shutil.which("redis-server")
    client = shutil.which("valkey-benchmark") or shutil.which("redis-benchmark")
    if not (server and client):
        raise SystemExit("valkey-server and valkey-benchmark, or those of Redis, are needed")
    port, found = free_port(), {}
    process = subprocess.Popen([server, "--port", str(port), "--save", "", "--appendonly", "no"], stdout=subprocess.DEVNULL)
    try:
        wait_for(START_LIMIT, lambda: answers(port), "Valkey did not start")
        thread = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/schedstat")
        for command in ("set", "get"):
            before = int(thread.read_text().split()[0])
            words = [client, "-p", str(port), "-t", command, "-n", str(times), "-r", "100000", "-d", "512", "-q"]
            subprocess.run(words, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            found[f"{command}_cpu_us"] = (int(thread.read_text().split()[0]) - before) / times / 1000
            say(f"Valkey, {command}: {found[f'{command}_cpu_us']:.1f} µs")
    finally:
        process.terminate()
        process.wait()
    return found


def answers(port):
    with contextlib.suppress(OSError), socket.create_connection(("localhost", port), timeout=1):
        return True
    return False


def say(text):
    print(text, flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, default=HERE.parent / "target/dist", help="where muster is")
    parser.add_argument("--sessions", type=int, default=8000)
    parser.add_argument("--streams", type=int, default=4000)
    parser.add_argument("--calls", type=int, default=20000)
    parser.add_argument("--out", type=pathlib.Path)
    args = parser.parse_args()
    command = "bench/scale.py " + " ".join(f"--{name} {getattr(args, name)}" for name in ("sessions", "streams", "calls"))
    measured = {"command": command, "machine": {"cores": os.cpu_count(), "system": platform.system(), "load": os.getloadavg()[0]}}
    parts = {"sessions": (measure_sessions, args.sessions), "streams": (measure_streams, args.streams),
             "calls": (measure_calls, args.calls)}
    # A gateway of its own for each, so that none measures what another left behind.
    for name, (measure, size) in parts.items():
        with tempfile.TemporaryDirectory(prefix="muster-scale-") as folder:
            gateway = Gateway(args.bin / "muster", pathlib.Path(folder))
            try:
                measured[name] = measure(gateway, size)
            finally:
                gateway.stop()
    measured["valkey"] = measure_valkey(200_000)
    if args.out:
        args.out.write_text(json.dumps(measured, indent=2) + "\n")


if __name__ == "__main__":
    main()
