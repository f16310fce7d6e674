#!/usr/bin/env python3
"""Kills the gateway in the middle of workflow runs and checks the recovered records.

    workflow_crashes.py MUSTER [--runs 500] [--lanes 4] [--seed N]

Each lane has a directory that one gateway after the other serves. A gateway is killed when the journal of a run
has a certain length, during a tool call, or at a random moment. The backend logs what was really executed. After
the restart every run with a started step must have a record that agrees with the log and is listed; no step may
have been executed twice, unless its workflow declares it idempotent.
"""

import argparse
import collections
import concurrent.futures
import contextlib
import json
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
import uuid

from kill_cycles import START_LIMIT, Client, Wrong, connected, free_port, wait_for

# Lines of a whole journal: the opening, and two for each of the seven steps.
LINES = 15
STEPS = ("a", "b", "c", "d", "e_0", "e_1", "f")
SETTLE_LIMIT = 20
RUN_LIMIT = 20


def backend(log):
    """A stdio MCP server whose only tool logs its calls."""

    def note(*words):
        with open(log, "ab", buffering=0) as file:
            file.write((" ".join(words) + "\n").encode())

    def call(arguments):
        note("begin", arguments["run"], arguments["step"])
        time.sleep(float(arguments["wait"]))
        note("end", arguments["run"], arguments["step"])
        return {"content": [{"type": "text", "text": json.dumps({"did": arguments["step"]})}]}

    write = threading.Lock()

    def answer(message):
        method, result = message["method"], {}
        if method == "initialize":
            result = {"protocolVersion": message["params"]["protocolVersion"], "capabilities": {"tools": {}}}
            result["serverInfo"] = {"name": "marks", "version": "1"}
        elif method == "tools/list":
            result = {"tools": [{"name": "mark", "inputSchema": {"type": "object"}}]}
        elif method == "tools/call":
            result = call(message["params"]["arguments"])
        with write:
            print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)

    for line in sys.stdin:
        message = json.loads(line)
        if "id" in message and "method" in message:
            threading.Thread(target=answer, args=(message,), daemon=True).start()


def workflow(idempotent):
    def step(name, label=None):
        args = {"run": "{{ .input.run }}", "step": label or name, "wait": "{{ .input.wait }}"}
        return {"id": name, "tool": "x_marks_mark", "args": args, "idempotent": idempotent}

    rounds = {"items": [0, 1], "steps": [step("e", "e_{{ .vars.item_index }}")]}
    steps = [step("a"), {**step("b"), "store": True}, {"id": "p", "parallel": [step("c"), step("d")]}]
    steps += [{"id": "l", "forEach": rounds}, step("f")]
    return {"kind": "Workflow", "spec": {"steps": steps}}


class Lane:
    """A configuration directory and the gateways that serve it, one after the other."""

    def __init__(self, muster, folder, seed):
        self.muster, self.folder, self.random = muster, folder, random.Random(seed)
        self.log = folder / "done.log"
        self.log.touch()
        self.executions = folder / "state" / "workflow_executions"
        self.runs = {}
        self.gateway = None
        for name in ("mcpservers", "workflows"):
            (folder / name).mkdir()
        spec = {"command": sys.executable, "args": [__file__, "--backend", str(self.log)]}
        (folder / "mcpservers/marks.yaml").write_text(json.dumps(spec))
        for name, idempotent in (("once", False), ("twice", True)):
            (folder / f"workflows/{name}.yaml").write_text(json.dumps(workflow(idempotent)))

    def start(self):
        self.port = free_port()
        (self.folder / "config.yaml").write_text(f"aggregator:\n  port: {self.port}\n")
        self.gateway = subprocess.Popen(
            [
                *(self.muster, "serve", "--config-path", str(self.folder), "--silent"),
                *("--state-path", str(self.folder / "state")),
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        wait_for(START_LIMIT, lambda: connected(self.port) == 1, "the backend was never connected")
        self.client = Client(self.port)
        self.client.initialize()

    def kill(self):
        self.gateway.kill()
        self.gateway.wait()

    def close(self):
        if self.gateway and self.gateway.poll() is None:
            self.kill()

    def call(self, tool, arguments, client=None):
        params = {"name": "call_tool", "arguments": {"name": tool, "arguments": arguments, "max_tokens": 10**8}}
        _, answer = (client or self.client).request("tools/call", params)
        inner = json.loads(answer["result"]["content"][0]["text"])
        text = inner["content"][0]["text"]
        if inner["isError"]:
            raise Wrong(f"{tool}: {text}")
        return json.loads(text)

    def journal(self):
        """The number of lines in the journal of the current run."""
        for path in self.executions.glob("*.journal"):
            with contextlib.suppress(FileNotFoundError):
                return path.read_bytes().count(b"\n")
        return 0

    def crash(self):
        """Starts a run and kills the gateway during it."""
        run, name = str(uuid.uuid4()), self.random.choice(("once", "once", "twice"))
        way = self.random.choice(("boundary", "boundary", "call", "moment"))
        wait = 0.05 if way == "call" else self.random.choice((0, 0.002, 0.005))
        self.runs[run] = {"workflow": name, "answered": False, "way": way}
        client = Client(self.port)
        client.initialize()
        caller = threading.Thread(target=self.run, args=(client, run, name, wait), daemon=True)
        caller.start()
        end = time.monotonic() + RUN_LIMIT
        if way == "boundary":
            line = self.random.randint(1, LINES)
            while self.journal() < line and caller.is_alive() and time.monotonic() < end:
                pass
        elif way == "call":
            step = self.random.choice(STEPS)
            wanted = f"begin {run} {step}\n".encode()
            while wanted not in self.log.read_bytes() and caller.is_alive() and time.monotonic() < end:
                pass
            time.sleep(self.random.uniform(0, wait))
        else:
            time.sleep(self.random.uniform(0, 0.08))
        self.kill()
        caller.join(RUN_LIMIT)
        if caller.is_alive():
            raise Wrong("a call to a killed gateway is still pending")

    def run(self, client, run, name, wait):
        with contextlib.suppress(OSError, ValueError, Wrong):
            self.call(f"workflow_{name}", {"run": run, "wait": wait}, client)
            self.runs[run]["answered"] = True
        client.close()

    def records(self):
        """All records by run id, or None while a run is in progress."""
        listed = self.call("core_workflow_execution_list", {"limit": 1000})
        found = {}
        for each in listed["executions"]:
            record = self.call("core_workflow_execution_get", {"execution_id": each["execution_id"]})
            if record["status"] != each["status"]:
                return None
            found.setdefault(record["input"]["run"], []).append(record)
        if listed["total"] != sum(map(len, found.values())):
            raise Wrong(f"{listed['total']} runs are listed, {len(found)} have a record")
        at_work = any(each["status"] == "inprogress" for each in listed["executions"])
        return None if at_work or list(self.executions.glob("*.journal")) else found

    def check(self):
        found = wait_for(SETTLE_LIMIT, self.records, "interrupted runs were never completed")
        begun, ended = collections.Counter(), collections.Counter()
        for line in self.log.read_text().splitlines():
            word, run, step = line.split()
            (begun if word == "begin" else ended)[run, step] += 1
        self.became = collections.Counter()
        for run, known in self.runs.items():
            done = {step for of, step in begun if of == run}
            records = found.get(run, [])
            self.compare(run, known, records, done, begun, ended)
            self.became[became(known, records, begun, run)] += 1
        if stray := set(found) - set(self.runs):
            raise Wrong(f"records of unknown runs: {stray}")

    @staticmethod
    def compare(run, known, records, done, begun, ended):
        name, way = known["workflow"], known["way"]

        def wrong(what):
            raise Wrong(f"{name} killed at a {way}, run {run}: {what}")

        if not records:
            if done or known["answered"]:
                wrong(f"{sorted(done)} were started, but there is no record")
            return
        if len(records) > 1:
            wrong(f"{len(records)} records")
        record = records[0]
        # In a loop, the name of a step's result has the number of its item.
        status, steps = record["status"], {step["stored_as"]: step["status"] for step in record["steps"]}
        plain = {step: how for step, how in steps.items() if step not in ("p", "l")}
        if known["answered"] and status != "completed":
            wrong(f"the call returned, but the record has status {status}")
        if status not in ("completed", "interrupted"):
            wrong(f"unexpected status {status}: {record.get('error')}")
        if name == "twice" and status != "completed":
            wrong(f"it is idempotent but was not resumed: {record.get('error')}")
        if missing := done - set(plain):
            wrong(f"{sorted(missing)} were started but are not in the record")
        for step, how in plain.items():
            if how == "completed" and not ended[run, step]:
                wrong(f"{step} is recorded as completed but did not finish")
        most = 2 if name == "twice" else 1
        for step in done:
            if begun[run, step] > most:
                wrong(f"{step} was executed {begun[run, step]} times")
        if status == "completed" and set(plain) != set(STEPS):
            wrong(f"it is completed with only {sorted(plain)}")


def became(known, records, begun, run):
    if not records:
        return "not started"
    if known["answered"]:
        return "answered"
    if records[0]["status"] == "interrupted":
        return "interrupted"
    twice = any(count > 1 for (of, _), count in begun.items() if of == run)
    return "resumed, a step repeated" if twice else "resumed, or completed without a response"


def lane(muster, number, runs, seed, tell):
    with tempfile.TemporaryDirectory(prefix="crashes-") as folder:
        this = Lane(muster, pathlib.Path(folder), f"{seed}/{number}")
        try:
            this.start()
            for _ in range(runs):
                this.crash()
                this.start()
                this.check()
                tell()
            return this.became
        finally:
            this.close()


def main():
    parser = argparse.ArgumentParser(description="Crash tests of workflow runs")
    parser.add_argument("muster", type=pathlib.Path, nargs="?")
    parser.add_argument("--runs", type=int, default=500, metavar="N")
    parser.add_argument("--lanes", type=int, default=4, metavar="N", help="runs at the same time")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32), metavar="N")
    parser.add_argument("--backend", metavar="LOG", help="run as the backend (used internally)")
    args = parser.parse_args()
    if args.backend:
        return backend(args.backend)
    if not args.muster:
        parser.error("MUSTER is required")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    print(f"seed {args.seed}", flush=True)
    muster, done = str(args.muster.resolve()), [0]

    def tell():
        done[0] += 1
        if done[0] % 50 == 0:
            print(f"{done[0]} runs", flush=True)

    each = [args.runs // args.lanes + (n < args.runs % args.lanes) for n in range(args.lanes)]
    failed, total = 0, collections.Counter()
    with concurrent.futures.ThreadPoolExecutor(args.lanes) as lanes:
        work = [lanes.submit(lane, muster, n, runs, args.seed, tell) for n, runs in enumerate(each)]
        for n, run in enumerate(work):
            try:
                total += run.result()
            except (Wrong, OSError, ValueError, KeyError) as e:
                failed += 1
                print(f"lane {n}: {e if isinstance(e, Wrong) else repr(e)}", flush=True)
    print(f"{done[0]} runs killed, {failed} lanes failed: {dict(total)}")
    # If no kill hits the middle of a run, nothing was tested.
    idle = args.runs >= 40 and not (total["interrupted"] and total["resumed, a step repeated"])
    if idle:
        print("no run was killed in the middle")
    sys.exit(1 if failed or idle or not args.runs else 0)


if __name__ == "__main__":
    main()
