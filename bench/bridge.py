#!/usr/bin/env python3
"""Measures what the bridge costs: requests over HTTP, and the same through `muster agent --mcp-server`.

    bridge.py [--muster BINARY] [--rounds N] [--calls N] [--out FILE.json] [--check]

Both sides take turns within one run, in changing order, so that the load of the machine hits them
alike: only the ratio means something. The request is `ping` in a legacy session, one at a time.
Goal: the p50 through the bridge is at most 1.3 times that over HTTP.
"""

import argparse
import http.client
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
GOAL = 1.3

INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 0,
    "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}},
}
INITIALIZED = {"jsonrpc": "2.0", "method": "notifications/initialized"}
# Its answer is small, so that the way is measured and not what is carried.
REQUEST = {"jsonrpc": "2.0", "id": 1, "method": "ping"}


class Direct:
    def __init__(self, port):
        self.connection = http.client.HTTPConnection("127.0.0.1", port)
        self.headers = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
        response, _ = self.post(json.dumps(INITIALIZE))
        self.headers["mcp-session-id"] = response.getheader("mcp-session-id")
        self.headers["mcp-protocol-version"] = "2025-11-25"
        self.post(json.dumps(INITIALIZED))

    def post(self, body):
        self.connection.request("POST", "/mcp", body, self.headers)
        response = self.connection.getresponse()
        return response, response.read()

    def ask(self, body):
        return self.post(body)[1]

    def close(self):
        self.connection.close()


class Bridge:
    def __init__(self, binary, port):
        url = f"http://127.0.0.1:{port}/mcp"
        self.process = subprocess.Popen(
            [binary, "agent", "--mcp-server", "--endpoint", url], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self.ask(json.dumps(INITIALIZE))
        self.process.stdin.write(json.dumps(INITIALIZED).encode() + b"\n")

    def ask(self, body):
        self.process.stdin.write(body.encode() + b"\n")
        self.process.stdin.flush()
        return self.process.stdout.readline()

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def measure(side, calls):
    body, times = json.dumps(REQUEST), []
    for _ in range(calls):
        begin = time.perf_counter()
        answer = side.ask(body)
        times.append(time.perf_counter() - begin)
        if json.loads(answer).get("result") != {}:
            sys.exit(f"a wrong answer: {answer!r}")
    return statistics.median(times)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--muster", type=pathlib.Path, default=HERE.parent / "target/release/muster")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--calls", type=int, default=2000)
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("--check", action="store_true", help="exit status 1 when the goal is missed")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bench-bridge-") as name:
        folder = pathlib.Path(name)
        (folder / "config.yaml").write_text("aggregator: {host: 127.0.0.1, port: 0}\n")
        (folder / "clis").mkdir()
        gateway = subprocess.Popen([args.muster, "serve", "--config-path", folder], stderr=subprocess.PIPE, text=True)
        try:
            port = int(gateway.stderr.readline().rsplit(":", 1)[1].split("/")[0])
            sides = {"direct": Direct(port), "bridge": Bridge(args.muster, port)}
            for side in sides.values():
                measure(side, args.calls // 10)
            rounds = []
            for number in range(args.rounds):
                order = list(sides) if number % 2 else list(reversed(sides))
                rounds.append({which: measure(sides[which], args.calls) for which in order})
            for side in sides.values():
                side.close()
        finally:
            gateway.terminate()
            gateway.stderr.close()
            gateway.wait()
    ratio = statistics.median(one["bridge"] / one["direct"] for one in rounds)
    for which in ("direct", "bridge"):
        print(f"{which}: p50 {statistics.median(one[which] for one in rounds) * 1e6:.0f} µs")
    met = ratio <= GOAL
    print(f"ratio: {ratio:.2f}, goal {GOAL}: {'met' if met else 'missed'}")
    if args.out:
        args.out.parent.mkdir(parents=True, exist_ok=True)
        args.out.write_text(json.dumps({"ratio": ratio, "goal": GOAL, "rounds": rounds}, indent=1))
    sys.exit(args.check and not met)


if __name__ == "__main__":
    main()
