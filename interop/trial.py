#!/usr/bin/env python3
"""Looks at what tools of published servers return, as an agent does through `MUSTER serve`.

    trial.py MUSTER

A tiny picture, a picture of 270 KB, an audio clip, a file of 200,000 lines and a JSON document of 30 MB have to be
answered right by one call of `call_tool`, or of `get_output` with the handle it gave. Installs the servers when
they are missing. Exit status 1 when a check failed; the last line is `N passed, N failed`.
"""

import argparse
import base64
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import urllib.request

from check import HERE, Tally
from real import GONE_LIMIT, free_port, node, wait_for_tools

LINES = 200_000
USERS = 300_000
# `call_tool` may take a while to receive 60 MB from a server.
LIMIT = 120
# The tools that the trial calls.
TOOLS = {"x_everything_get-tiny-image", "x_filesystem_read_media_file", "x_filesystem_read_text_file"}


class Agent:
    """A client of the gateway that knows nothing but JSON-RPC."""

    def __init__(self, url):
        self.url = url

    def tool(self, name, arguments):
        headers = {
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
            "MCP-Protocol-Version": "2026-07-28",
            "Mcp-Method": "tools/call",
            "Mcp-Name": name,
        }
        meta = {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": {"name": "trial", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {},
        }
        params = {"name": name, "arguments": arguments, "_meta": meta}
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
        request = urllib.request.Request(self.url, body.encode(), headers)
        with urllib.request.urlopen(request, timeout=LIMIT) as answer:
            written = answer.read().decode()
        if not written.startswith("{"):
            written = [line[5:] for line in written.splitlines() if line.startswith("data:") and line[5:].strip()][-1]
        return json.loads(written)["result"]

    def call(self, name, arguments):
        return self.tool("call_tool", {"name": name, "arguments": arguments})

    def look(self, answer, **arguments):
        handle = answer["_meta"]["muster/output"]["handle"]
        return self.tool("get_output", {"handle": handle} | arguments)["content"][0].get("text")


def envelope(answer):
    return json.loads(answer["content"][0]["text"])


def check_block(tally, name, answer, kind, mime_type, data=None):
    """One block beside the envelope, which names it and does not repeat it."""
    blocks = answer["content"][1:]
    tally.check(name, "blocks", [(kind, mime_type)], [(block["type"], block.get("mimeType")) for block in blocks])
    if data is not None:
        tally.check(name, "data", data, base64.b64decode(blocks[0]["data"]))
    size = len(blocks[0]["data"])
    named = {"type": kind, "mimeType": mime_type, "dataSize": size, "block": 1}
    tally.check(name, "is named in the text", [named], [item for item in envelope(answer)["content"] if item["type"] == kind])
    tally.check(name, "is given once", 1, json.dumps(answer).count(blocks[0]["data"]))


def trial(tally, agent, folder):
    check_block(tally, "tiny picture", agent.call("x_everything_get-tiny-image", {}), "image", "image/png")

    picture, clip = random.Random(1).randbytes(270_000), b"RIFF" + random.Random(2).randbytes(40_000)
    for name, data, kind, mime_type in (
        ("photo.png", picture, "image", "image/png"),
        ("clip.wav", clip, "audio", "audio/wav"),
    ):
        (folder / name).write_bytes(data)
        answer = agent.call("x_filesystem_read_media_file", {"path": str(folder / name)})
        check_block(tally, name, answer, kind, mime_type, data)

    lines = folder / "lines.txt"
    lines.write_text("".join(f"entry {n}: größe {n % 97}\n" for n in range(1, LINES + 1)))
    answer = agent.call("x_filesystem_read_text_file", {"path": str(lines)})
    about = answer["_meta"]["muster/output"]
    tally.check("200,000 lines", "are kept as lines", ("text", LINES), (about["kind"], about["lines"]))
    preview = envelope(answer)["content"][0]["text"]
    tally.check("200,000 lines", "are not repeated in the preview", 1, preview.count("entry 1: "))
    found = agent.look(answer, grep="^entry 123456:")
    tally.check("200,000 lines", "grep", f"123456: entry 123456: größe {123456 % 97}\n", found)
    last = f"entry 199999: größe {199999 % 97}\nentry 200000: größe {200000 % 97}"
    tally.check("200,000 lines", "tail", last, agent.look(answer, tail=2))
    tally.check("200,000 lines", "line", f"entry 77777: größe {77777 % 97}\n", agent.look(answer, line=77777, limit=1))

    users = [{"id": n, "name": f"user {n}", "email": f"user{n}@example.org", "about": "x" * 40} for n in range(USERS)]
    document = folder / "users.json"
    document.write_text(json.dumps({"total": USERS, "users": users}))
    tally.check("30 MB of JSON", "size", True, document.stat().st_size > 30_000_000)
    answer = agent.call("x_filesystem_read_text_file", {"path": str(document)})
    tally.check("30 MB of JSON", "is kept as JSON", "json", answer["_meta"]["muster/output"]["kind"])
    found = agent.look(answer, path="$.users[*].name", grep="^user 234567$")
    tally.check("30 MB of JSON", "path with grep", "234568: user 234567\n", found)
    found = agent.look(answer, path="$.users", grep='"id":234567,')
    tally.check("30 MB of JSON", "a list with grep", users[234567], json.loads(found.partition(": ")[2]))
    found = agent.look(answer, path="$.users[?@.id == 299999].email")
    tally.check("30 MB of JSON", "a filter", "user299999@example.org\n", found)
    tally.check("30 MB of JSON", "count", str(USERS), agent.look(answer, path="$.users", count=True))
    last = json.dumps(users[-1], separators=(",", ":")) + "\n"
    tally.check("30 MB of JSON", "tail", last, agent.look(answer, path="$.users", tail=1))


def main():
    parser = argparse.ArgumentParser(usage="%(prog)s MUSTER")
    parser.add_argument("muster", type=pathlib.Path)
    muster = parser.parse_args().muster.resolve()
    if not os.access(muster, os.X_OK):
        parser.error(f"{muster} is not an executable file")
    subprocess.run([HERE / "install.sh"], check=True)
    subprocess.run([HERE / "install_servers.sh"], check=True)
    tally = Tally()
    with tempfile.TemporaryDirectory(prefix="interop-trial-") as scratch:
        root, port = pathlib.Path(scratch).resolve(), free_port()
        folder = root / "files"
        for directory in (root / "mcpservers", folder):
            directory.mkdir()
        (root / "config.yaml").write_text(f"aggregator:\n  port: {port}\n")
        for name, command in (("everything", node("everything")), ("filesystem", [*node("filesystem"), str(folder)])):
            entry = f"command: {json.dumps(command[0])}\nargs: {json.dumps(command[1:])}\n"
            (root / f"mcpservers/{name}.yaml").write_text(entry)
        with (root / "muster.log").open("w+") as log:
            command = [muster, "serve", "--config-path", root]
            gateway = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
            try:
                url = f"http://127.0.0.1:{port}/mcp"
                missing = TOOLS - set(wait_for_tools(url, gateway, TOOLS))
                tally.check("gateway", "lists the tools", set(), missing)
                if not missing:
                    trial(tally, Agent(url), folder)
            finally:
                gateway.send_signal(signal.SIGTERM)
                gateway.wait(2 * GONE_LIMIT)
            if tally.failed:
                log.seek(0)
                print(f"      log of muster: {log.read()[-2000:]}")
    print(f"{tally.passed} passed, {tally.failed} failed")
    return 1 if tally.failed else 0


if __name__ == "__main__":
    sys.exit(main())
