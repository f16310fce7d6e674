#!/usr/bin/env python3
"""Replays whole tasks through the gateway and counts their tokens, against tools that are listed directly.

    tasks.py --muster PROGRAM --corpus DIR [--sizes 10,50,100,500,5000] [--out FILE.json] [--check]

The tasks are in tasks/recorded.json: a question, the searches and calls that lead to the answer, and what each tool
answers. A server with as many tools as a size says (those of the corpus, the ones of the tasks first; beyond the corpus,
variants of its tools under other names) stands behind a real gateway, and every answer that is counted comes from it.

The menu of the gateway is its list of tools and the `instructions` of its `initialize` response. Two figures, because
clients differ: `context` counts each token once (a client with a prompt cache pays little for the rest), `input`
counts the list of tools and all that was said before again for each turn of the model.
"""

import argparse
import itertools
import json
import pathlib
import socket
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
TARGET = HERE.parent / "target"
sys.path.insert(0, str(HERE.parent / "scripts"))

from kill_cycles import START_LIMIT, Client, connected, free_port, wait_for  # noqa: E402

RECORDED = HERE / "tasks" / "recorded.json"
SERVER = HERE / "tasks" / "server.py"
PREFIX = "x_s_"
TOKENIZER = "gpt-tokenizer@4.0.0"
# The goal: one run_steps call costs at most a quarter of five call_tool turns.
MOST_OF_TURNS = 0.25
COUNT = """
const {encode} = require("gpt-tokenizer/encoding/o200k_base");
const texts = JSON.parse(require("fs").readFileSync(0, "utf8"));
console.log(JSON.stringify(texts.map((text) => encode(text, {allowedSpecial: "all"}).length)));
"""


class Broken(Exception):
    """The measurement is invalid."""


class Tokens:
    """Counts tokens as o200k_base does; each text once."""

    def __init__(self):
        self.folder = TARGET / "bench-node"
        if not (self.folder / "node_modules/gpt-tokenizer").exists():
            self.folder.mkdir(parents=True, exist_ok=True)
            (self.folder / "package.json").write_text("{}")
            subprocess.run(["npm", "install", "--silent", TOKENIZER], cwd=self.folder, check=True)
        self.known = {}

    def of(self, texts):
        new = sorted({text for text in texts if text not in self.known})
        if new:
            counted = subprocess.run(
                ["node", "-e", COUNT], cwd=self.folder, input=json.dumps(new), text=True, capture_output=True, check=True
            )
            self.known.update(zip(new, json.loads(counted.stdout), strict=True))
        return sum(self.known[text] for text in texts)


def dump(value):
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def catalog(corpus, used, size):
    """The tools of the tasks, then the corpus, then variants of it."""
    tools = {}
    for path in sorted(corpus.glob("*.json")):
        for tool in json.loads(path.read_text())["result"]["tools"]:
            tools.setdefault(tool["name"], tool)
    missing = used - tools.keys()
    if missing:
        raise Broken(f"the corpus lacks {sorted(missing)}")
    order = sorted(tools.values(), key=lambda tool: tool["name"] not in used)
    listed = [{key: tool[key] for key in ("name", "description", "inputSchema") if key in tool} for tool in order]
    for number in itertools.count(2):
        if len(listed) >= size:
            return listed[:size]
        for tool in order:
            words = f"{tool.get('description', '')} (instance {number})"
            variant = {"name": f"{tool['name']}_{number}", "description": words, "inputSchema": tool["inputSchema"]}
            listed.append(variant)


class Gateway:
    def __init__(self, muster, folder, tools, words=()):
        self.port = free_port()
        listing = folder / "tools.json"
        listing.write_text(json.dumps(tools))
        (folder / "mcpservers").mkdir()
        server = {"name": "s", "type": "stdio", "command": sys.executable, "args": [str(SERVER), str(listing), str(RECORDED)]}
        (folder / "mcpservers/s.yaml").write_text(json.dumps({**server, "autoStart": True}))
        (folder / "config.yaml").write_text(json.dumps({"aggregator": {"port": self.port}, "clis": {"bundled": "none"}}))
        self.process = subprocess.Popen(
            [muster, "serve", "--config-path", str(folder), "--state-path", str(folder / "state"), "--silent", *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        wait_for(START_LIMIT, lambda: connected(self.port) is not None, "the gateway did not start")
        self.client = Client(self.port)
        self.client.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.client.socket.settimeout(60)
        # Part of what a model reads, as the list of tools is.
        self.instructions = self.client.initialize().get("instructions", "")

    def list(self):
        _, answer = self.client.request("tools/list", {})
        return answer["result"]["tools"]

    def ready(self, tool):
        def is_there():
            _, answer = self.client.request("tools/call", {"name": "describe_tool", "arguments": {"name": tool}})
            return not answer["result"].get("isError")

        wait_for(120, is_there, f"{tool} does not appear")

    def call(self, tool, arguments):
        _, answer = self.client.request("tools/call", {"name": tool, "arguments": arguments})
        if "result" not in answer:
            raise Broken(f"{tool}: {answer}")
        result = answer["result"]
        if result.get("isError"):
            raise Broken(f"{tool} {arguments}: {result}")
        return "\n".join(item.get("text", "") for item in result["content"])

    def close(self):
        self.client.close()
        self.process.terminate()
        self.process.wait()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class Talk:
    """A conversation: what the model says, and what the tools answer."""

    def __init__(self, question):
        self.turns = [[question]]

    def tool(self, name, arguments, answer):
        self.turns[-1].append(dump({"name": name, "arguments": arguments}))
        self.turns.append([answer])

    def end(self, answer):
        self.turns[-1].append(answer)
        return self

    def cost(self, tokens, menu):
        texts = [text for turn in self.turns for text in turn]
        context = menu + tokens.of(texts)
        # Each turn of the model reads the list, and all that was said before it.
        read = 0
        said = 0
        for turn in self.turns:
            said += tokens.of(turn[:1])
            read += menu + said
            said += tokens.of(turn[1:])
        return {"context": context, "input": read, "turns": len(self.turns)}


def prefixed(value):
    """The steps of a task with the names that the gateway has for their tools."""
    return {**value, "steps": [{**step, "tool": PREFIX + step["tool"]} for step in value["steps"]]}


def direct(task, results):
    talk = Talk(task["question"])
    for call in task["calls"]:
        talk.tool(call["tool"], call["args"], json.dumps(results[call["tool"]], ensure_ascii=False))
    return talk.end(task["answer"])


def found(gateway, talk, call):
    search = {"query": call["query"]}
    answer = gateway.call("filter_tools", search)
    talk.tool("filter_tools", search, answer)
    return PREFIX + call["tool"] in answer


def meta(gateway, task):
    """Search, describe, call: as the instructions of the gateway say."""
    talk, hits = Talk(task["question"]), 0
    for call in task["calls"]:
        hits += found(gateway, talk, call)
        for tool, arguments in (
            ("describe_tool", {"name": PREFIX + call["tool"]}),
            ("call_tool", {"name": PREFIX + call["tool"], "arguments": call["args"]}),
        ):
            talk.tool(tool, arguments, gateway.call(tool, arguments))
    return talk.end(task["answer"]), hits


def compact(gateway, task):
    """Search, then call with the signature that the search shows; parts of results; several calls as one."""
    talk = Talk(task["question"])
    for call in task["calls"]:
        found(gateway, talk, call)
    each = [
        {"name": PREFIX + call["tool"], "arguments": call["args"], **({"select": call["select"]} if "select" in call else {})}
        for call in task["calls"]
    ]
    if "steps" in task:
        one = ("run_steps", prefixed(task["steps"]))
    elif task.get("independent"):
        one = ("call_tools", {"calls": each})
    else:
        one = None
    for tool, arguments in [one] if one else [("call_tool", call) for call in each]:
        talk.tool(tool, arguments, gateway.call(tool, arguments))
    return talk.end(task["answer"])


def mean(rows, key):
    return round(sum(row[key] for row in rows) / len(rows))


def measure(muster, corpus, size, recorded, tokens, folder):
    tasks, results = recorded["tasks"], recorded["results"]
    tools = catalog(corpus, set(results), size)
    menu = tokens.of([dump(tool) for tool in tools])
    row = {"tools": size, "direct_menu": menu}
    plain = [direct(task, results).cost(tokens, menu) for task in tasks]
    # What a direct list costs beside the list itself.
    row["direct"] = {key: mean(plain, key) for key in ("context", "input")}
    row["direct_turns"] = [cost["turns"] for cost in plain]
    (folder / "meta").mkdir(parents=True)
    (folder / "auto").mkdir()
    with Gateway(muster, folder / "meta", tools) as gateway:
        gateway.ready(PREFIX + tasks[0]["calls"][0]["tool"])
        listed = tokens.of([gateway.instructions, *(dump(tool) for tool in gateway.list())])
        row["menu"] = listed
        replayed = [meta(gateway, task) for task in tasks]
        calls = sum(len(task["calls"]) for task in tasks)
        row["found"] = f"{sum(hits for _, hits in replayed)} of {calls}"
        for name, talks in (("meta", [talk for talk, _ in replayed]), ("compact", [compact(gateway, t) for t in tasks])):
            costs = [talk.cost(tokens, listed) for talk in talks]
            row[name] = {key: mean(costs, key) for key in ("context", "input")}
        if size == 50:
            row["five_calls"] = five(gateway, tasks, tokens)
    with Gateway(muster, folder / "auto", tools, ["--surface", "auto"]) as gateway:
        gateway.ready(PREFIX + tasks[0]["calls"][0]["tool"])
        names = [tool["name"] for tool in gateway.list()]
        row["auto"] = "meta-tools" if "call_tool" in names else "direct"
    return row


def five(gateway, tasks, tokens):
    """Five dependent calls: one run_steps call against five call_tool turns."""
    rows = []
    for task in (task for task in tasks if "steps" in task):
        turns = []
        for call in task["calls"]:
            arguments = {"name": PREFIX + call["tool"], "arguments": call["args"]}
            turns += [dump({"name": "call_tool", "arguments": arguments}), gateway.call("call_tool", arguments)]
        steps = prefixed(task["steps"])
        one = [dump({"name": "run_steps", "arguments": steps}), gateway.call("run_steps", steps)]
        row = {"task": task["name"], "call_tool": tokens.of(turns), "run_steps": tokens.of(one)}
        rows.append({**row, "ratio": round(row["run_steps"] / row["call_tool"], 3)})
    return rows


def break_even(corpus, recorded, rows, tokens, surface, figure):
    """The number of tools from which a surface is cheaper than a direct list."""
    last = max(row["tools"] for row in rows)
    costs = [tokens.of([dump(tool)]) for tool in catalog(corpus, set(recorded["results"]), min(last, 500))]
    first = rows[0]
    beside = first["direct"][figure] - first["direct_menu"] * (
        1 if figure == "context" else sum(first["direct_turns"]) / len(first["direct_turns"])
    )
    turns = 1 if figure == "context" else sum(first["direct_turns"]) / len(first["direct_turns"])
    total = 0
    for count, cost in enumerate(costs, 1):
        total += cost
        # Answers of searches differ little with the size: those of the nearest size that was measured.
        near = min(rows, key=lambda row: abs(row["tools"] - count))
        if beside + turns * total >= near[surface][figure]:
            return count
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--muster", default=str(TARGET / "release/muster"))
    parser.add_argument("--corpus", type=pathlib.Path, required=True)
    parser.add_argument("--sizes", default="10,50,100,500,5000")
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("--check", action="store_true", help="exit with status 1 when a goal is missed")
    args = parser.parse_args()
    recorded = json.loads(RECORDED.read_text())
    used = len(recorded["results"])
    sizes = [max(int(size), used) for size in args.sizes.split(",")]
    tokens, rows = Tokens(), []
    tokens.of([dump(tool) for tool in catalog(args.corpus, set(recorded["results"]), max(sizes))])
    print(f"{'tools':>6} {'direct':>16} {'meta':>16} {'compact':>16}  auto        found   (context / input tokens of a task)")
    for size in sizes:
        with tempfile.TemporaryDirectory() as folder:
            row = measure(args.muster, args.corpus, size, recorded, tokens, pathlib.Path(folder))
        rows.append(row)
        shown = [f"{row[name]['context']:>7} / {row[name]['input']:>6}" for name in ("direct", "meta", "compact")]
        print(f"{size:>6} {' '.join(shown)}  {row['auto']:<10}  {row['found']}", flush=True)
    even = {
        f"{surface}, {figure}": break_even(args.corpus, recorded, rows, tokens, surface, figure)
        for surface in ("meta", "compact")
        for figure in ("context", "input")
    }
    for name, count in even.items():
        print(f"break-even, {name}: {count} tools")
    ratios = [each for row in rows for each in row.get("five_calls", [])]
    for each in ratios:
        print(f"{each['task']}: run_steps {each['run_steps']} of {each['call_tool']} tokens, {each['ratio']:.0%}")
    if args.out:
        command = " ".join(["bench/tasks.py", *sys.argv[1:]])
        report = {"command": command, "tokenizer": "o200k_base", "tasks": len(recorded["tasks"]), "rows": rows, "break_even": even}
        args.out.write_text(json.dumps(report, indent=1) + "\n")
    if args.check and (not ratios or max(each["ratio"] for each in ratios) > MOST_OF_TURNS):
        sys.exit(1)


if __name__ == "__main__":
    main()
