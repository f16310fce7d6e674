#!/usr/bin/env python3
"""Drives a gateway with independent MCP clients, directly and through the bridge, and compares the results.

    bridge.py [--client NAME] [--era ERA] MUSTER_BINARY

Every client, in every protocol era, lists and calls the tools of one `muster serve` over HTTP, then
over stdio through `muster agent --mcp-server`. The reports must be correct and equal byte by byte. The
Python client also runs through `muster standalone`. Installs the clients when they are missing. Exit status 1 when a check failed; the last line is `N passed, N failed`.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

from check import CLIENTS, CONFIGS, HERE, HOP_TIMEOUT, VERSIONS

SCRIPT = "printf 'grüß dich\\n'; printf 'and a warning' >&2; exit 3"


def through(tool, arguments):
    return {"name": "call_tool", "arguments": {"name": tool, "arguments": arguments}}


CALLS = [
    through("cli_show", {"word": "x y\n\"z\" 你好", "loud": True}),
    through("cli_shell_run", {"script": SCRIPT}),
    through("cli_show", {}),
    through("cli_nothing", {}),
    {"name": "filter_tools", "arguments": {"pattern": "cli_*", "include_schema": True}},
    {"name": "describe_tool", "arguments": {"name": "cli_show"}},
    {"name": "list_core_tools", "arguments": {}},
]
# Text that the results of some calls must contain, by index.
WORDS = {0: "你好", 1: "exit code: 3", 3: "cli_nothing"}


def serve(binary, folder):
    """A gateway on a free port, and its address."""
    (folder / "clis").mkdir()
    (folder / "config.yaml").write_text("aggregator: {host: 127.0.0.1, port: 0}\n")
    for name, text in CONFIGS.items():
        (folder / "clis" / name).write_text(text)
    gateway = subprocess.Popen(
        [binary, "serve", "--config-path", folder], stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    for line in gateway.stderr:
        words = [word for word in line.split() if word.startswith("http://")]
        if words:
            return gateway, words[0]
    sys.exit("the gateway did not start")


def drive(client, era, target):
    driver = [*map(str, CLIENTS[client]), era, "--calls", json.dumps(CALLS), "--", *map(str, target)]
    try:
        done = subprocess.run(
            driver, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=HOP_TIMEOUT
        )
    except subprocess.TimeoutExpired:
        return None, f"no end after {HOP_TIMEOUT} s"
    if done.returncode:
        return None, done.stderr.strip()
    document = json.loads(done.stdout)
    # The shutdown time differs between runs.
    document.pop("closeSeconds", None)
    return document, None


def difference(direct, bridged):
    for part, seen in direct.items():
        if json.dumps(seen) != json.dumps(bridged.get(part)):
            return f"{part}: {json.dumps(seen)[:400]}\n      became {json.dumps(bridged.get(part))[:400]}"
    return None


def wrong(era, document):
    if document["protocolVersion"] != VERSIONS[era]:
        return f"protocol version {document['protocolVersion']}"
    if not {call["name"] for call in CALLS} <= set(document["tools"]):
        return f"tools {document['tools']}"
    for place, word in WORDS.items():
        result = json.dumps(document["results"][place], ensure_ascii=False)
        if word not in result:
            return f"call {place} does not contain {word!r}: {result[:400]}"
    return None


def hop(binary, url, folder, client, era):
    """The checks of one client in one era: name and problem, if any."""
    direct, failure = drive(client, era, [url])
    yield f"{client}/{era}/direct", failure or wrong(era, direct)
    if failure:
        return
    targets = {"bridge": [binary, "agent", "--mcp-server", "--endpoint", url]}
    if client == "python":
        targets["standalone"] = [binary, "standalone", "--config-path", folder / "alone"]
    for name, target in targets.items():
        document, failure = drive(client, era, target)
        yield f"{client}/{era}/{name}", failure or difference(direct, document)


def main():
    parser = argparse.ArgumentParser(usage="%(prog)s [options] MUSTER_BINARY")
    parser.add_argument("--client", choices=CLIENTS, help="only this client")
    parser.add_argument("--era", choices=VERSIONS, help="only this protocol era")
    parser.add_argument("muster", type=pathlib.Path)
    args = parser.parse_args()
    if not os.access(args.muster, os.X_OK):
        parser.error(f"{args.muster} is not an executable file")
    subprocess.run([HERE / "install.sh"], check=True)

    hops = [
        (client, era)
        for client in CLIENTS
        for era in VERSIONS
        # The Inspector starts a server per call and treats `auto` like `modern`: not worth the time.
        if not (client == "inspector" and era == "auto")
        if args.client in (None, client) and args.era in (None, era)
    ]
    passed = failed = 0
    binary = args.muster.resolve()
    with tempfile.TemporaryDirectory(prefix="interop-bridge-") as name:
        folder = pathlib.Path(name)
        (folder / "alone/clis").mkdir(parents=True)
        (folder / "alone/config.yaml").write_text("aggregator: {host: 127.0.0.1, port: 0}\n")
        for file, text in CONFIGS.items():
            (folder / "alone/clis" / file).write_text(text)
        (folder / "gateway").mkdir()
        gateway, url = serve(binary, folder / "gateway")
        try:
            with ThreadPoolExecutor(os.cpu_count()) as pool:
                runs = pool.map(lambda one: list(hop(binary, url, folder, *one)), hops)
                for where, problem in (line for run in runs for line in run):
                    passed += problem is None
                    failed += problem is not None
                    print(f"ok    {where}" if problem is None else f"FAIL  {where}\n      {problem}", flush=True)
        finally:
            gateway.terminate()
            gateway.stderr.close()
            gateway.wait()
    print(f"{passed} passed, {failed} failed")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
