#!/usr/bin/env python3
"""Kills the gateway, a backend or a client while calls are in flight, in many cycles.

    kill_cycles.py MUSTER [--cycles 200] [--lanes 4] [--seed N] [--only VICTIM]

Each cycle has a gateway of its own with a stdio backend, an HTTP backend and a CLI tool that starts a process
tree, and ends with the gateway. Afterwards no process of the gateway may be left, every call on a surviving
connection must have a response, and /health must have been correct.
"""

import argparse
import concurrent.futures
import contextlib
import json
import os
import pathlib
import random
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import uuid

FIXTURE = pathlib.Path(__file__).resolve().parent.parent / "conformance" / "fixture.py"
MARK = "MUSTER_KILL_CYCLE"
VICTIMS = ("gateway-kill", "gateway-term", "stdio-backend", "http-backend", "client")

START_LIMIT = 30
GONE_LIMIT = 2
# On SIGTERM a gateway drains calls for five seconds.
DRAIN_LIMIT = 7
# The longest call (1 s) plus the latency of a busy machine.
ANSWER_LIMIT = 8
# From the loss of a backend until /health shows it, and until it is reconnected (the backoff is 1 s).
NOTICE_LIMIT = 2
RETURN_LIMIT = 10
LONGEST_WAIT = 0.6

MODERN = "2026-07-28"
META = "io.modelcontextprotocol/"

# Leaves its process group and session, so that only a search of the whole tree finds it. No process holds the
# output, so that a call ends with its root process.
TREE = (
    "exec >/dev/null 2>&1; sleep 61.{tag} & (setsid sleep 62.{tag} &)"
    "; setsid sh -c 'sleep 63.{tag} & sleep 64.{tag}' & {last}"
)
CLI = """\
name: trees
command: sh
tools:
  - name: tree
    description: Start a process tree
    command: -c
    args:
      - {name: script, description: What to run, required: true, positional: true}
"""


class Wrong(Exception):
    """The gateway misbehaved."""


def wait_for(limit, check, complaint):
    end = time.monotonic() + limit
    while True:
        # The time is read first, so that a check delayed by a busy machine still counts.
        late = time.monotonic() > end
        value = check()
        if value:
            return value
        if late:
            raise Wrong(complaint() if callable(complaint) else complaint)
        time.sleep(0.02)


def marked(mark):
    """Processes with the marker in their environment: process id to command line."""
    found, wanted = {}, f"{MARK}={mark}".encode()
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                if wanted in pathlib.Path(entry.path, "environ").read_bytes().split(b"\0"):
                    words = pathlib.Path(entry.path, "cmdline").read_bytes().replace(b"\0", b" ")
                    found[int(entry.name)] = words.decode(errors="replace").strip()
    return found


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Client:
    """One connection with one request at a time, on a plain socket that can be closed at any point."""

    def __init__(self, port):
        self.port = port
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=ANSWER_LIMIT)
        self.session = None

    def initialize(self):
        info = {"name": "cycle", "version": "1"}
        params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info}
        head, answer = self.request("initialize", params)
        self.session = head["mcp-session-id"]
        return answer["result"]

    def send(self, method, params, modern=False):
        lines = ["Content-Type: application/json", "Accept: application/json, text/event-stream"]
        if modern:
            meta = {"protocolVersion": MODERN, "clientCapabilities": {}, "clientInfo": {"name": "c", "version": "1"}}
            params = {**params, "_meta": {META + key: value for key, value in meta.items()}}
            lines += [f"MCP-Protocol-Version: {MODERN}", f"Mcp-Method: {method}", f"Mcp-Name: {params['name']}"]
        elif self.session:
            lines.append(f"Mcp-Session-Id: {self.session}")
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()
        lines.append(f"Content-Length: {len(body)}")
        head = f"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1:{self.port}\r\n" + "\r\n".join(lines) + "\r\n\r\n"
        self.socket.sendall(head.encode() + body)

    def receive(self):
        """The headers and the JSON-RPC response. Raises ConnectionError when the connection is closed."""
        file = self.socket.makefile("rb")

        def line():
            text = file.readline()
            if not text.endswith(b"\n"):
                raise ConnectionError("closed")
            return text.strip().decode()

        status, head = line(), {}
        while text := line():
            key, value = text.split(":", 1)
            head[key.lower()] = value.strip()
        if "content-length" in head:
            length = int(head["content-length"])
            text = file.read(length)
            if len(text) < length:
                raise ConnectionError("closed")
            texts = [text]
        else:
            texts = []
            while size := int(line(), 16):
                texts.append(file.read(size))
                line()
            line()
        body = b"".join(texts).decode()
        if head.get("content-type", "").startswith("text/event-stream"):
            events = [text[5:] for text in body.splitlines() if text.startswith("data:") and text[5:].strip()]
            answers = [each for each in map(json.loads, events) if each.get("id") == 1]
        else:
            answers = [json.loads(body)] if body else []
        if not answers:
            raise Wrong(f"no answer in {status} {body[:200]!r}")
        return head, answers[0]

    def request(self, *args, **kwargs):
        self.send(*args, **kwargs)
        return self.receive()

    def close(self):
        self.socket.close()


def health(port):
    with contextlib.closing(socket.create_connection(("127.0.0.1", port), timeout=ANSWER_LIMIT)) as link:
        link.sendall(f"GET /health HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n\r\n".encode())
        text = b""
        while chunk := link.recv(65536):
            text += chunk
    head, _, body = text.partition(b"\r\n\r\n")
    if b" 200 " not in head.split(b"\r\n")[0] + b" ":
        raise Wrong(f"/health answered {head[:80]!r}")
    return json.loads(body)["servers"]["connected"]


def connected(port):
    """The number of connected servers in /health, or None when it does not respond."""
    try:
        return health(port)
    except (OSError, ValueError):
        return None


class Call(threading.Thread):
    """Calls a tool repeatedly on one connection until stopped, and records errors."""

    def __init__(self, port, tool, arguments, pause=0.01):
        super().__init__(daemon=True)
        self.tool, self.arguments, self.pause = tool, arguments, pause
        self.stopping, self.problem, self.cut, self.answers = threading.Event(), None, False, []
        self.client = Client(port)
        self.client.initialize()

    def run(self):
        try:
            while not self.stopping.is_set():
                params = {"name": "call_tool", "arguments": {"name": self.tool, "arguments": self.arguments}}
                self.answers.append(self.client.request("tools/call", params)[1])
                time.sleep(self.pause)
        except TimeoutError:
            self.problem = f"{self.tool}: no response within {ANSWER_LIMIT} s"
        except (OSError, ValueError):
            self.cut = True
        except Wrong as e:
            self.problem = f"{self.tool}: {e}"

    def finish(self, may_be_cut):
        self.stopping.set()
        self.join(ANSWER_LIMIT + 2)
        if self.is_alive():
            raise Wrong(f"{self.tool}: no response within {ANSWER_LIMIT} s")
        self.client.close()
        if self.problem:
            raise Wrong(self.problem)
        if self.cut and not may_be_cut:
            raise Wrong(f"{self.tool}: the connection was closed after {len(self.answers)} responses")

    def good(self):
        return sum("result" in each and not each["result"].get("isError") for each in self.answers)


class Cycle:
    def __init__(self, muster, victim, seed):
        self.muster, self.victim, self.random = muster, victim, random.Random(seed)
        self.mark = str(uuid.uuid4())
        self.port, self.backend_port = free_port(), free_port()
        self.gateway = self.backend = None

    def run(self):
        with tempfile.TemporaryDirectory(prefix="cycle-") as folder:
            try:
                self.start(pathlib.Path(folder))
                self.calls = self.start_calls()
                time.sleep(self.random.uniform(0, LONGEST_WAIT))
                getattr(self, self.victim.replace("-", "_"))()
            finally:
                self.clean_up()

    def start(self, folder):
        for name in ("mcpservers", "clis"):
            (folder / name).mkdir()
        (folder / "config.yaml").write_text(f"aggregator:\n  port: {self.port}\n")
        (folder / "clis/trees.yaml").write_text(CLI)
        stdio = {"type": "stdio", "command": sys.executable, "args": [str(FIXTURE), "--stdio"], "inheritEnv": [MARK]}
        web = {"type": "streamable-http", "url": f"http://127.0.0.1:{self.backend_port}/mcp"}
        for name, spec in (("piped", stdio), ("web", web)):
            manifest = {"apiVersion": "muster.giantswarm.io/v1alpha1", "kind": "MCPServer"}
            manifest |= {"metadata": {"name": name}, "spec": {**spec, "autoStart": True}}
            (folder / f"mcpservers/{name}.yaml").write_text(json.dumps(manifest))
        self.start_backend()
        self.gateway = subprocess.Popen(
            [self.muster, "serve", "--config-path", str(folder), "--silent"],
            env={**os.environ, MARK: self.mark},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        wait_for(START_LIMIT, lambda: connected(self.port) == 2, "the backends were never connected")

    def start_backend(self):
        command = [sys.executable, FIXTURE, "--http", str(self.backend_port)]
        self.backend = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

        def listens():
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.backend_port)):
                return True

        wait_for(START_LIMIT, listens, "the HTTP backend did not start")

    def start_calls(self):
        slow = {"seconds": self.random.choice([0.05, 0.3, 1])}
        calls = {
            "piped": Call(self.port, "x_piped_greet", {"name": "cycle"}),
            "piped slow": Call(self.port, "x_piped_slow_compute", slow),
            "web": Call(self.port, "x_web_greet", {"name": "cycle"}),
            "web slow": Call(self.port, "x_web_slow_compute", slow),
            "tree": Call(self.port, "cli_tree", {"script": TREE.format(tag=1, last="sleep 0.05")}, pause=0.3),
        }
        if self.victim.startswith("gateway"):
            calls["long tree"] = Call(self.port, "cli_tree", {"script": TREE.format(tag=2, last="sleep 60")})
        for call in calls.values():
            call.start()
        return calls

    def finish_calls(self, may_be_cut=False, hit=()):
        for call in self.calls.values():
            call.stopping.set()
        for name, call in self.calls.items():
            call.finish(may_be_cut)
            if not may_be_cut and name not in hit and call.good() < len(call.answers):
                bad = next(each for each in call.answers if "error" in each or each["result"].get("isError"))
                raise Wrong(f"{call.tool}: failed although its backend was running: {json.dumps(bad)[:300]}")

    def nothing_left(self):
        wait_for(GONE_LIMIT, lambda: not marked(self.mark), lambda: f"processes left behind: {marked(self.mark)}")

    def gateway_ends(self, began):
        try:
            self.gateway.wait(max(began + DRAIN_LIMIT - time.monotonic(), 0.01))
        except subprocess.TimeoutExpired:
            raise Wrong(f"the gateway still ran {DRAIN_LIMIT} s after SIGTERM") from None
        self.nothing_left()

    def end_gateway(self):
        """Ends a gateway that survived its cycle, with either signal."""
        self.gateway.send_signal(self.random.choice([signal.SIGKILL, signal.SIGTERM]))
        self.gateway_ends(time.monotonic())

    def gateway_kill(self):
        self.gateway.kill()
        self.gateway.wait()
        self.nothing_left()
        self.finish_calls(may_be_cut=True)
        if connected(self.port) is not None:
            raise Wrong("/health responds after the gateway was killed")

    def gateway_term(self):
        began = time.monotonic()
        self.gateway.terminate()
        for call in self.calls.values():
            call.stopping.set()
        self.gateway_ends(began)
        # 5: it answered calls that it cut off.
        if self.gateway.returncode not in (0, 5):
            raise Wrong(f"the gateway ended with status {self.gateway.returncode}")
        self.finish_calls(may_be_cut=True)

    def lost(self, name):
        """Checks that the backend is reported lost, other calls go on, and it is reconnected."""
        hit = [key for key in self.calls if key.startswith(name)]
        wait_for(NOTICE_LIMIT, lambda: connected(self.port) == 1, f"/health never reported the loss of {name}")
        others = {key: self.calls[key].good() for key in self.calls if key not in hit}
        if name == "web":
            self.start_backend()
        wait_for(RETURN_LIMIT, lambda: connected(self.port) == 2, f"{name} was never reconnected")
        good = {key: self.calls[key].good() for key in hit}
        for key, before in {**good, **others}.items():
            wait_for(ANSWER_LIMIT, lambda: self.calls[key].good() > before, f"no {key} call succeeded after the reconnect")
        self.finish_calls(hit=hit)
        self.end_gateway()

    def stdio_backend(self):
        pids = [pid for pid, words in marked(self.mark).items() if str(FIXTURE) in words]
        if len(pids) != 1:
            raise Wrong(f"expected 1 process of the stdio backend, found {len(pids)}")
        os.kill(pids[0], self.random.choice([signal.SIGKILL, signal.SIGTERM]))
        self.lost("piped")

    def http_backend(self):
        self.backend.kill()
        self.backend.wait()
        self.lost("web")

    def client(self):
        """Closes client connections, which is how the gateway sees a killed client."""
        modern = self.random.random() < 0.5
        victims = []
        for tool, arguments in (
            ("cli_tree", {"script": TREE.format(tag=55, last="sleep 60.55")}),
            ("x_piped_slow_compute", {"seconds": 30}),
            ("x_web_slow_compute", {"seconds": 30}),
        ):
            victim = Client(self.port)
            if not modern:
                victim.initialize()
            params = {"name": "call_tool", "arguments": {"name": tool, "arguments": arguments}}
            victim.send("tools/call", params, modern)
            victims.append(victim)
        time.sleep(self.random.uniform(0, LONGEST_WAIT))
        for victim in victims:
            victim.close()
        # In the modern era a closed stream cancels the call; in the legacy era the call goes on.
        if modern:

            def left():
                return [words for words in marked(self.mark).values() if ".55" in words]

            wait_for(GONE_LIMIT, lambda: not left(), lambda: f"a cancelled call goes on: {left()}")
        for _ in range(5):
            if (count := connected(self.port)) != 2:
                raise Wrong(f"/health shows {count} of 2 backends after the loss of a client")
            time.sleep(0.05)
        self.finish_calls()
        self.end_gateway()

    def clean_up(self):
        for process in (self.gateway, self.backend):
            if process:
                process.kill()
                process.wait()
        for pid in marked(self.mark):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def attempt(muster, number, victim, seed):
    began = time.monotonic()
    try:
        Cycle(muster, victim, f"{seed}/{number}").run()
        problem = None
    except (Wrong, OSError, ValueError, KeyError) as e:
        problem = f"{type(e).__name__}: {e}" if not isinstance(e, Wrong) else str(e)
    return number, victim, problem, time.monotonic() - began


def main():
    parser = argparse.ArgumentParser(description="Kill tests of the gateway")
    parser.add_argument("muster", type=pathlib.Path)
    parser.add_argument("--cycles", type=int, default=200, metavar="N")
    parser.add_argument("--lanes", type=int, default=4, metavar="N", help="cycles at the same time")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32), metavar="N")
    parser.add_argument("--only", choices=VICTIMS, metavar="VICTIM", help=f"one of {', '.join(VICTIMS)}")
    args = parser.parse_args()
    # Exit normally, so that running cycles clean up.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    print(f"seed {args.seed}", flush=True)
    muster = str(args.muster.resolve())
    order = random.Random(args.seed)
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(args.lanes) as lanes:
        victims = [args.only or order.choice(VICTIMS) for _ in range(args.cycles)]
        runs = [lanes.submit(attempt, muster, n, victim, args.seed) for n, victim in enumerate(victims)]
        try:
            for run in concurrent.futures.as_completed(runs):
                number, victim, problem, took = run.result()
                if problem:
                    failed += 1
                    print(f"cycle {number}, {victim}, after {took:.1f} s: {problem}", flush=True)
        except BaseException:
            lanes.shutdown(cancel_futures=True)
            raise
    print(f"{args.cycles - failed} passed, {failed} failed")
    sys.exit(1 if failed or not args.cycles else 0)


if __name__ == "__main__":
    main()
