#!/usr/bin/env python3
"""Runs the official suite through the gateway.

    gateway.py CLIMAX MUSTER [--only NAME] [--out DIR]

Puts the gateway in front of the fixture in every way that a backend can be connected, and holds what
comes out against the fixture's own score: classic mode has to pass whatever the fixture passes. What
cannot be passed, in meta mode or by a backend of the other era, is listed in expected-*.yml, with a
reason for each line.
"""

import argparse
import contextlib
import json
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

import run
from run import Child, Failure, HERE, REVISIONS

START_LIMIT = 30


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextlib.contextmanager
def http_fixture(scratch, eras):
    port_file = scratch / "port"
    command = [sys.executable, HERE / "fixture.py", "--http", "0", "--port-file", port_file]
    with Child(command + eras) as fixture:
        end = time.monotonic() + START_LIMIT
        while not port_file.exists():
            if fixture.poll() is not None or time.monotonic() > end:
                raise Failure("the fixture did not start")
            time.sleep(0.05)
        yield {"url": f"http://127.0.0.1:{port_file.read_text().strip()}/mcp"}


@contextlib.contextmanager
def stdio_fixture(_scratch, eras):
    args = [str(HERE / "fixture.py"), "--stdio", *eras]
    yield {"command": sys.executable, "args": args}


def ready(url, process, tool):
    """Waits until the gateway lists a tool to a legacy client."""
    body = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "probe", "version": "1"}}
    end = time.monotonic() + START_LIMIT
    while time.monotonic() < end:
        if process.poll() is not None:
            raise Failure(f"the gateway ended with status {process.returncode}")
        try:
            session = post(url, "initialize", body, None)[1]
            tools = post(url, "tools/list", {}, session)[0]["result"]["tools"]
            if any(item["name"] == tool for item in tools):
                return
        except (OSError, ValueError, KeyError):
            pass
        time.sleep(0.1)
    raise Failure(f"the gateway never listed {tool}")


def post(url, method, params, session):
    headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    if session:
        headers["Mcp-Session-Id"] = session
    data = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()
    with urllib.request.urlopen(urllib.request.Request(url, data, headers), timeout=10) as answer:
        text = answer.read().decode()
        if answer.headers.get("Content-Type", "").startswith("text/event-stream"):
            text = next(line[5:] for line in text.splitlines() if line.startswith("data:") and line[5:].strip())
        return json.loads(text), answer.headers.get("Mcp-Session-Id")


@contextlib.contextmanager
def classic(climax, scratch, server):
    config = scratch / "mcp.json"
    config.write_text(json.dumps({"mcpServers": {"fixture": server}}))
    port = free_port()
    command = [climax, "run", str(config), "--classic", "--transport", "streamable-http", "--port", str(port)]
    with Child(command) as gateway:
        url = f"http://127.0.0.1:{port}/mcp"
        ready(url, gateway, "test_simple_text")
        yield url


@contextlib.contextmanager
def meta(muster, scratch, server):
    port = free_port()
    (scratch / "mcpservers").mkdir()
    (scratch / "config.yaml").write_text(f"aggregator:\n  port: {port}\n")
    spec = {"type": "streamable-http" if "url" in server else "stdio", "autoStart": True, **server}
    manifest = {
        "apiVersion": "muster.giantswarm.io/v1alpha1",
        "kind": "MCPServer",
        "metadata": {"name": "fixture"},
        "spec": spec,
    }
    (scratch / "mcpservers/fixture.yaml").write_text(json.dumps(manifest))
    with Child([muster, "serve", "--config-path", str(scratch)]) as gateway:
        url = f"http://127.0.0.1:{port}/mcp"
        ready(url, gateway, "call_tool")
        yield url


BACKENDS = {"http": http_fixture, "stdio": stdio_fixture}


def setups(climax, muster):
    """Each way to run the suite: name, gateway, backend, eras of the backend, expected failures."""

    def in_front(scratch, server):
        return classic(climax, scratch, server)

    for kind, backend in BACKENDS.items():
        yield f"classic-{kind}-modern", in_front, backend, [], None
        yield f"classic-{kind}-legacy", in_front, backend, ["--legacy-only"], "legacy"
    yield "classic-http-separate", in_front, http_fixture, ["--separate-eras"], None
    yield "meta-http-modern", lambda s, b: meta(muster, s, b), http_fixture, [], "meta"


def check(name, gateway, backend, eras, expected, out):
    with tempfile.TemporaryDirectory() as scratch, contextlib.ExitStack() as stack:
        scratch = pathlib.Path(scratch)
        server = stack.enter_context(backend(scratch, eras))
        url = stack.enter_context(gateway(scratch, server))
        good = True
        for revision in REVISIONS:
            print(f"-- {name} {revision}", flush=True)
            file = HERE / f"expected-{expected}-{revision}.yml" if expected else None
            failures = run.read_expected(file) if file else {}
            good &= run.check_server(url, revision, failures, out and out / name)
        return good


def main():
    parser = argparse.ArgumentParser(description="Run the MCP conformance suite through the gateway")
    parser.add_argument("climax")
    parser.add_argument("muster")
    parser.add_argument("--only", help="only setups whose name contains this")
    parser.add_argument("--out", type=pathlib.Path)
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    subprocess.run([HERE / "install.sh"], check=True)
    verdicts = {}
    for name, *setup in setups(args.climax, args.muster):
        if args.only and args.only not in name:
            continue
        try:
            verdicts[name] = check(name, *setup, args.out)
        except (Failure, OSError) as e:
            print(f"{name}: {e}", file=sys.stderr)
            verdicts[name] = False
    for name, good in verdicts.items():
        print(f"{'ok  ' if good else 'FAIL'} {name}")
    bad = sum(not good for good in verdicts.values())
    print(f"{len(verdicts) - bad} passed, {bad} failed")
    sys.exit(1 if bad or not verdicts else 0)


if __name__ == "__main__":
    main()
