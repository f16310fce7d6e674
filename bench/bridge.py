#!/usr/bin/env python3
"""Measures the overhead of the client side against the minimal program that does the same.

    bridge.py [--muster BINARY] [--rounds N] [--calls N] [--starts N] [--out FILE.json] [--check]

Requests over HTTP and the same through `muster agent --mcp-server`: one at a time, in a legacy session.
Goal: the p50 through the bridge is at most 1.3 times that over HTTP.

- `sdk`: a call of a tool by the client of the TypeScript SDK (which interop/install.sh installs), on both sides.
- `tool`, `ping` (the way alone): by a client that costs next to nothing, which writes bytes to a file descriptor and
  reads until the answer is whole; a socket here, two pipes there. Beside it stands what the least bridge there can be
  takes (bridge_least.rs: nothing checked, one request at a time): a process between two others is woken twice more,
  and that alone costs about as much as a `ping`.

`muster list mcpservers` and `curl` of `/health`: processes from start to end. Goal: at most three times.

Both sides take turns within one run, in changing order, so that the load of the machine hits them
alike: only the ratios mean something. Needs `curl`, `rustc` and npm.
"""

import argparse
import json
import os
import pathlib
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
GOALS = {"sdk": 1.3, "tool": 1.3, "ping": 1.3, "list": 3.0}

VERSION = "2025-11-25"
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 0,
    "method": "initialize",
    "params": {"protocolVersion": VERSION, "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}},
}
INITIALIZED = {"jsonrpc": "2.0", "method": "notifications/initialized"}
CALL = {"name": "core_mcpserver_list", "arguments": {}}
REQUESTS = {
    # A small response, so that the round trip is measured and not the payload.
    "ping": {"jsonrpc": "2.0", "id": 1, "method": "ping"},
    "tool": {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "call_tool", "arguments": CALL}},
}


class Side:
    """A pair of file descriptors with the framing of messages on them."""

    def __init__(self, out, into):
        self.out, self.into = out, into

    def read(self, is_whole):
        answer = b""
        while not is_whole(answer):
            part = os.read(self.into, 65536)
            if not part:
                sys.exit(f"no answer but {answer!r}")
            answer += part
        return answer

    def ask(self, request):
        """An exchange as it is measured."""
        os.write(self.out, request)
        return self.read(self.is_whole)

    def tell(self, message):
        request = self.request(json.dumps(message))
        return request, self.ask(request)


class Direct(Side):
    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        super().__init__(self.socket.fileno(), self.socket.fileno())
        self.host, self.more = f"127.0.0.1:{port}", ""
        _, answer = self.tell(INITIALIZE)
        session = self.header(answer, b"mcp-session-id").decode()
        self.more = f"mcp-session-id: {session}\r\nmcp-protocol-version: {VERSION}\r\n"
        self.tell(INITIALIZED)

    def request(self, body):
        head = f"POST /mcp HTTP/1.1\r\nhost: {self.host}\r\ncontent-type: application/json\r\n"
        accept = "accept: application/json, text/event-stream\r\n"
        return f"{head}{accept}{self.more}content-length: {len(body)}\r\n\r\n{body}".encode()

    @staticmethod
    def header(answer, name):
        for line in answer.split(b"\r\n\r\n")[0].split(b"\r\n")[1:]:
            key, _, value = line.partition(b":")
            if key.strip().lower() == name:
                return value.strip()
        return b""

    @staticmethod
    def is_whole(answer):
        end = answer.find(b"\r\n\r\n")
        if end < 0:
            return False
        if not answer.startswith(b"HTTP/1.1 2"):
            sys.exit(f"refused: {answer!r}")
        length = answer.find(b"content-length: ", 0, end)
        if length < 0:
            return answer.startswith(b"HTTP/1.1 202") or sys.exit(f"an answer without its length: {answer!r}")
        return len(answer) >= end + 4 + int(answer[length + 16 : answer.index(b"\r\n", length)])

    @staticmethod
    def message(answer):
        return json.loads(answer.partition(b"\r\n\r\n")[2])

    def close(self):
        self.socket.close()


class Bridge(Side):
    def __init__(self, words, environment):
        self.process = subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0, env=environment
        )
        super().__init__(self.process.stdin.fileno(), self.process.stdout.fileno())
        self.tell(INITIALIZE)
        os.write(self.out, self.request(json.dumps(INITIALIZED)))

    def request(self, body):
        return body.encode() + b"\n"

    @staticmethod
    def is_whole(answer):
        return answer.endswith(b"\n")

    @staticmethod
    def message(answer):
        return json.loads(answer)

    def close(self):
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()


def measure(side, request, calls):
    times = []
    for _ in range(calls):
        begin = time.perf_counter()
        side.ask(request)
        times.append(time.perf_counter() - begin)
    return statistics.median(times)


def turns(rounds, sides, measured):
    """Each round has every side once, in rotating order."""
    found = []
    for number in range(rounds):
        order = list(sides) if number % 2 else list(reversed(sides))
        found.append({which: measured(which) for which in order})
    return found


def bridge_words(args, port):
    return [args.muster, "agent", "--mcp-server", "--endpoint", f"http://127.0.0.1:{port}/mcp"]


def least_bridge(folder):
    program = folder / "bridge_least"
    words = ["rustc", "--edition=2024", "-Copt-level=3", "-o", program, HERE / "bridge_least.rs"]
    subprocess.run(words, check=True)
    return program


def by_sdk(args, port, environment):
    subprocess.run([HERE.parent / "interop/install.sh"], check=True)
    words = ["node", "--no-warnings", HERE / "bridge_client.mjs", args.rounds, max(args.calls // 4, 1), f"http://127.0.0.1:{port}/mcp"]
    words = [str(word) for word in [*words, *bridge_words(args, port)]]
    return json.loads(subprocess.run(words, check=True, env=environment, stdout=subprocess.PIPE).stdout)


def carried(args, port, environment, least):
    sides = {
        "direct": Direct(port),
        "bridge": Bridge(bridge_words(args, port), environment),
        "least": Bridge([least, str(port)], environment),
    }
    results = {}
    for name, message in REQUESTS.items():
        known, said = {}, []
        for which, side in sides.items():
            request, answer = side.tell(message)
            known[which] = request
            said.append(side.message(answer)["result"])
        if any(other != said[0] for other in said):
            sys.exit(f"the answers differ: {said}")
        for which, side in sides.items():
            measure(side, known[which], args.calls // 10)
        results[name] = turns(args.rounds, sides, lambda which: measure(sides[which], known[which], args.calls))
    for side in sides.values():
        side.close()
    return results


def commands(args, port, environment):
    curl = shutil.which("curl") or sys.exit("`curl` is required")
    words = {
        "curl": [curl, "--silent", "--fail", "--output", os.devnull, f"http://127.0.0.1:{port}/health"],
        "list": [args.muster, "list", "mcpservers", "--endpoint", f"http://127.0.0.1:{port}/mcp"],
    }

    def run(which):
        times = []
        for _ in range(args.starts):
            begin = time.perf_counter()
            # Without `close_fds` Python starts processes the cheapest way, which is the same for both.
            subprocess.run(words[which], stdout=subprocess.DEVNULL, check=True, close_fds=False, env=environment)
            times.append(time.perf_counter() - begin)
        return statistics.median(times)

    for which in words:
        run(which)
    return turns(args.rounds, words, run)


def report(name, rounds):
    base, own = ("curl", "list") if name == "list" else ("direct", "bridge")
    ratios = {
        which: statistics.median(one[which] / one[base] for one in rounds) for which in rounds[0] if which != base
    }
    for which in rounds[0]:
        print(f"{name}, {which}: p50 {statistics.median(one[which] for one in rounds) * 1e6:.0f} µs")
    met = ratios[own] <= GOALS[name]
    least = f" (the least bridge: {ratios['least']:.2f})" if "least" in ratios else ""
    print(f"{name}: ratio {ratios[own]:.2f}{least}, goal {GOALS[name]}: {'met' if met else 'missed'}")
    return {"ratio": ratios[own], "ratios": ratios, "goal": GOALS[name], "met": met, "rounds": rounds}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--muster", type=pathlib.Path, default=HERE.parent / "target/dist/muster")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--calls", type=int, default=2000, help="requests of each side in a round")
    parser.add_argument("--starts", type=int, default=20, help="processes of each side in a round")
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("--check", action="store_true", help="exit status 1 when a goal is missed")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bench-bridge-") as name:
        folder = pathlib.Path(name)
        (folder / "config.yaml").write_text("aggregator: {host: 127.0.0.1, port: 0}\n")
        (folder / "clis").mkdir()
        environment = {"PATH": os.environ["PATH"], "HOME": name}
        words = [args.muster, "serve", "--config-path", folder]
        # Every call is logged, and an unread pipe would fill up.
        log = folder / "log"
        with log.open("w") as file:
            gateway = subprocess.Popen(words, stderr=file, env=environment)
        try:
            while not log.read_text().count("\n"):
                time.sleep(0.01)
            port = int(log.read_text().splitlines()[0].rsplit(":", 1)[1].split("/")[0])
            measured = {"sdk": by_sdk(args, port, environment)}
            measured |= carried(args, port, environment, least_bridge(folder))
            measured["list"] = commands(args, port, environment)
        finally:
            gateway.terminate()
            gateway.wait()
    results = {name: report(name, rounds) for name, rounds in measured.items()}
    if args.out:
        args.out.parent.mkdir(parents=True, exist_ok=True)
        args.out.write_text(json.dumps(results, indent=1))
    sys.exit(args.check and not all(result["met"] for result in results.values()))


if __name__ == "__main__":
    main()
