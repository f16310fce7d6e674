#!/usr/bin/env python3
"""Drives `muster agent --repl` and `muster top` on a pseudo-terminal.

    repl.py MUSTER_BINARY

Exit status 1 when a check failed; the last line is `N passed, N failed`.
"""

import os
import pathlib
import pty
import re
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time

LIMIT = 30

CLI = """\
name: demo
command: printf
tools:
  - {name: NAME, description: Prints a word, command: '[%s]', args: [{name: word, positional: true, required: true}]}
"""

ESCAPES = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")


class Gateway:
    def __init__(self, binary, folder):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.binary, self.folder = binary, folder
        (folder / "clis").mkdir()
        (folder / "config.yaml").write_text(f"aggregator: {{host: 127.0.0.1, port: {self.port}}}\nclis: {{bundled: none}}\n")
        (folder / "clis/demo.yaml").write_text(CLI.replace("NAME", "show"))
        self.start()

    def start(self):
        self.process = subprocess.Popen(
            [self.binary, "serve", "--config-path", self.folder], stdin=subprocess.DEVNULL, stderr=subprocess.PIPE
        )
        self.process.stderr.readline()

    def kill(self):
        self.process.kill()
        self.process.wait()


class Terminal:
    def __init__(self, argv, env):
        self.seen = self.raw = ""
        self.passed = self.failed = 0
        self.child, self.fd = pty.fork()
        if self.child == 0:
            os.execve(argv[0], argv, env)

    def type(self, text):
        self.seen = ""
        os.write(self.fd, text.encode())

    def wait(self, what, *texts):
        """Reads until all texts and patterns have appeared."""

        def has_appeared(text):
            return text.search(self.seen) if isinstance(text, re.Pattern) else text in self.seen

        end = time.monotonic() + LIMIT
        while not all(has_appeared(text) for text in texts):
            ready, _, _ = select.select([self.fd], [], [], max(0, end - time.monotonic()))
            try:
                chunk = os.read(self.fd, 65536) if ready else b""
            except OSError:
                chunk = b""
            if not chunk:
                self.failed += 1
                print(f"FAIL  {what}\n      wanted {texts}\n      got {self.seen[-2000:]!r}")
                return
            self.raw += chunk.decode(errors="replace")
            self.seen += ESCAPES.sub("", chunk.decode(errors="replace"))
        self.passed += 1
        print(f"ok    {what}", flush=True)

    def check(self, what, good):
        self.passed += good
        self.failed += not good
        print(f"{'ok  ' if good else 'FAIL'}  {what}", flush=True)

    def command(self, what, line, *texts):
        self.type(line + "\r")
        self.wait(what, *texts)

    def ended(self):
        end = time.monotonic() + LIMIT
        while time.monotonic() < end:
            pid, status = os.waitpid(self.child, os.WNOHANG)
            if pid:
                return os.waitstatus_to_exitcode(status)
            time.sleep(0.02)
        os.kill(self.child, signal.SIGKILL)
        return None


def drive(terminal, gateway):
    terminal.wait("it connects and lists", "(attempt 1/3)", "Found 0 prompts", "MCP REPL started", "»")
    terminal.command("help", "help", "call <tool>", "»")
    terminal.command("help of an alias", "help LS", "Command: list", "Aliases: [ls]", "»")
    terminal.command("list", "ls tools", "Available tools (", "cli_show", "- Prints a word", "»")
    terminal.command("key=value", 'call cli_show word="a b"', "Executing tool: cli_show...", "Result:", "[a b]", "»")
    terminal.command("JSON", 'run cli_show {"word": "ü"}', "[ü]", "»")
    terminal.command("broken JSON", 'call cli_show {"word": }', "Invalid JSON at position 10", "* word (string)", "»")
    terminal.command("help in place of arguments", "call cli_show", "* = required parameter", "Usage examples:", "»")
    terminal.command("an unknown tool", "call nope", "Tool returned an error:", "tool not found", "»")
    terminal.command("describe", "describe tool cli_show", "Tool: cli_show", "Input Schema:", '"required"', "»")
    terminal.command("filter", "filter tools cli_*", "Results: 1 of", "Matching tools:", "»")
    terminal.command("core tools", "list core-tools", "Core muster tools (", "core_service_list", "»")
    terminal.command("resources", "list resources", "esources", "»")
    terminal.command("an unknown resource", "get x://y", "Failed to get resource", "»")
    terminal.command("unknown command", "nonsense", "Error: unknown command: nonsense", "»")
    terminal.command("wrong target", "list nonsense", "unknown target: nonsense. Valid targets: tools,", "»")
    terminal.command("too few words", "describe tool", "usage: describe", "»")
    terminal.command("contexts", "context list", "* lab    http://127.0.0.1", "  other  http://127.0.0.1:9", "»")
    terminal.command("context typo", "ctx lits", 'did you mean "list"?', "»")
    terminal.type("call cli_sh\t")
    terminal.wait("a tool is completed", "cli_show ")
    terminal.type("wo\t")
    terminal.wait("an argument is completed", "word=")
    terminal.command("and called", "x", "[x]", "»")
    terminal.type("\x1b[A")
    terminal.wait("history", "call cli_show word=x")
    terminal.type("\x03")
    terminal.wait("Ctrl+C clears the line", "»")

    (gateway.folder / "clis/more.yaml").write_text(CLI.replace("NAME", "late").replace("demo", "more"))
    terminal.wait("a new tool is announced", "Tools list changed!", "+ Added: cli_late")
    terminal.type("call cli_la\t")
    terminal.wait("and completed", "cli_late ")
    terminal.command("and called", "word=soon", "[soon]", "»")

    gateway.kill()
    terminal.wait("the gateway goes away", "The gateway is gone; reconnecting")
    terminal.command("the prompt shows it", "", "»")
    terminal.command("commands report it", "list tools", "the gateway is gone", "[DISCONNECTED] »")
    gateway.start()
    terminal.wait("the gateway is back", "Connected")
    terminal.command("commands work again", "call cli_show word=again", "[again]", "»")
    terminal.type("\x04")
    terminal.wait("Ctrl+D leaves", "Goodbye!")


def watch(terminal, gateway, env):
    """Checks that `muster top` redraws its screen until Ctrl+C."""
    terminal.wait("top shows the backends", "BACKEND", re.compile(r"demo +\w+ +1 +1 "))
    terminal.seen = terminal.raw = ""
    terminal.wait("top redraws", "BACKEND")
    terminal.check("each screen replaces the previous one", "\x1b[H\x1b[2J" in terminal.raw)
    command = [gateway.binary, "call", "cli_show", "word=x", "--endpoint", f"http://127.0.0.1:{gateway.port}/mcp"]
    subprocess.run(command, env=env, check=True, stdout=subprocess.DEVNULL)
    terminal.wait("a call is counted", re.compile(r"demo +\w+ +1 +2 "))
    terminal.type("\x03")
    terminal.check("Ctrl+C ends top with 0", terminal.ended() == 0)


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    binary = pathlib.Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory(prefix="muster-repl-") as name:
        folder = pathlib.Path(name)
        home = folder / "home/.config/muster"
        home.mkdir(parents=True)
        (folder / "gateway").mkdir()
        gateway = Gateway(binary, folder / "gateway")
        (home / "contexts.yaml").write_text(
            "current-context: lab\ncontexts:\n"
            f"  - {{name: lab, endpoint: 'http://127.0.0.1:{gateway.port}/mcp'}}\n"
            "  - {name: other, endpoint: 'http://127.0.0.1:9/mcp'}\n"
        )
        env = {name: value for name, value in os.environ.items() if name != "XDG_STATE_HOME"}
        env |= {"HOME": str(folder / "home"), "TMPDIR": str(folder), "TERM": "xterm", "NO_COLOR": "1"}
        terminal = Terminal([str(binary), "agent", "--repl"], env)
        try:
            drive(terminal, gateway)
            terminal.check("exit code 0", terminal.ended() == 0)
            history = (folder / "home/.local/state/muster/agent_history").read_text()
            terminal.check("history is kept", "filter tools cli_*" in history)
            top = Terminal([str(binary), "top", "--interval", "0.2"], env)
            watch(top, gateway, env)
        finally:
            gateway.kill()
    passed, failed = terminal.passed + top.passed, terminal.failed + top.failed
    print(f"{passed} passed, {failed} failed")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
