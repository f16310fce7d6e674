#!/usr/bin/env python3
"""The metrics page, read by Prometheus' own tool, and the files in deploy/ with it.

    metrics.py MUSTER

Downloads the Debian package of Prometheus into target/interop for its `promtool`, unless that is installed.
"""

import argparse
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDER = ROOT / "target/interop"
CONFIG = "aggregator: {port: 0}\nclis: {bundled: none}\nmetrics: {loopback: true}\n"


def promtool():
    """The tool; none if it is neither installed nor to be had."""
    if found := shutil.which("promtool"):
        return found
    tool = FOLDER / "usr/bin/promtool"
    if not tool.exists():
        FOLDER.mkdir(parents=True, exist_ok=True)
        subprocess.run(["apt-get", "download", "prometheus"], cwd=FOLDER, check=False, capture_output=True)
        for package in FOLDER.glob("prometheus_*.deb"):
            subprocess.run(["dpkg-deb", "--extract", package, FOLDER], check=True)
    return str(tool) if tool.exists() else None


def start(program, folder):
    """A gateway over a folder, and its address."""
    (folder / "config.yaml").write_text(CONFIG)
    env = dict(os.environ, HOME=str(folder), MUSTER_STATE_PATH=str(folder / "state"))
    command = [program, "serve", "--config-path", folder]
    child = subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    for line in child.stderr:
        if found := re.search(r"listening on (http://\S+?)/mcp", line):
            return child, found.group(1)
    raise SystemExit("the gateway did not start")


def post(url, message):
    headers = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "metrics", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    message["params"]["_meta"] = meta
    headers |= {"mcp-protocol-version": "2026-07-28", "mcp-method": message["method"]}
    headers["mcp-name"] = message["params"]["name"]
    request = urllib.request.Request(f"{url}/mcp", json.dumps(message).encode(), headers)
    urllib.request.urlopen(request).read()


def check(tool, words, **more):
    done = subprocess.run([tool, "check", *words], capture_output=True, text=True, **more)
    print(f"promtool check {' '.join(map(str, words))}: {'ok' if done.returncode == 0 else 'FAILED'}")
    if done.returncode:
        print(done.stdout + done.stderr)
    return done.returncode == 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("muster", type=pathlib.Path)
    program = parser.parse_args().muster.resolve()
    tool = promtool()
    if not tool:
        raise SystemExit("promtool is not installed, and its package cannot be downloaded")
    good = check(tool, ["rules", ROOT / "deploy/prometheus/alerts.yaml"])
    good &= check(tool, ["config", "--syntax-only", ROOT / "deploy/prometheus/scrape.yaml"])
    with tempfile.TemporaryDirectory() as folder:
        child, url = start(program, pathlib.Path(folder))
        try:
            for name in ["core_service_list", "x_nothing"]:
                params = {"name": "call_tool", "arguments": {"name": name, "arguments": {}}}
                post(url, {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
            page = urllib.request.urlopen(f"{url}/metrics").read().decode()
        finally:
            child.terminate()
            child.wait()
    good &= check(tool, ["metrics"], input=page)
    # Every metric that the dashboard and the alerts use is on the page.
    known = set(re.findall(r"^# TYPE (\S+)", page, re.MULTILINE))
    for path in ["grafana/muster.json", "prometheus/alerts.yaml"]:
        used = set(re.findall(r"\b(?:muster|process)_[a-z_]+", (ROOT / "deploy" / path).read_text()))
        unknown = {name for name in used if re.sub(r"_(bucket|sum|count)$", "", name) not in known}
        print(f"{path}: {len(used)} metrics, unknown: {sorted(unknown) or 'none'}")
        good &= not unknown
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
