"""A Valkey, replicas of the gateway, and a round-robin balancer in front of them."""

import asyncio
import contextlib
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
KEY = "MDEyMzQ1Njc4OWFiY2RlZmdoaWprbG1ub3BxcnN0dXY="
START_LIMIT = 60


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_for(what, check, limit=START_LIMIT):
    end = time.monotonic() + limit
    while True:
        with contextlib.suppress(OSError, ValueError):
            if value := check():
                return value
        if time.monotonic() > end:
            raise SystemExit(f"{what} did not start within {limit} s")
        time.sleep(0.05)


def launch(argv, log, env=None):
    with open(log, "ab") as out:
        return subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=out, stderr=out, env=env)


class Valkey:
    def __init__(self, folder):
        program = shutil.which("valkey-server") or shutil.which("redis-server")
        if not program:
            raise SystemExit("valkey-server or redis-server is needed: run interop/install_packages.sh")
        self.port = free_port()
        argv = [program, "--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--dir", str(folder)]
        self.process = launch(argv, folder / "valkey.log")
        wait_for("Valkey", lambda: self.ask("PING") == "PONG")

    def ask(self, *words):
        with socket.create_connection(("127.0.0.1", self.port), timeout=5) as link:
            stream = link.makefile("rwb")
            parts = [word.encode() for word in words]
            stream.write(b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%s\r\n" % (len(p), p) for p in parts))
            stream.flush()
            head = stream.readline().strip().decode()
            if head[0] == "$":
                return stream.read(int(head[1:])).decode()
            return head[1:]

    def commands(self):
        """How often each command was called."""
        counts = {}
        for line in self.ask("INFO", "commandstats").splitlines():
            if line.startswith("cmdstat_"):
                name, values = line[len("cmdstat_"):].split(":", 1)
                counts[name] = int(values.split(",")[0].split("=")[1])
        return counts


STEPS = ("a", "b", "c", "d")


def workflow(idempotent):
    """A workflow whose steps each have an effect."""
    def step(name):
        args = {"effect": f"{{{{ .input.run }}}}.{name}", "steps": "2", "pause": "0.1"}
        return {"id": name, "tool": "x_effects_slow", "args": args, "idempotent": idempotent}

    return {"kind": "Workflow", "spec": {"steps": [step(name) for name in STEPS]}}


class Replica:
    """A gateway that is killed and started again, with the same port."""

    def __init__(self, muster, folder, number, valkey, backend, counted, logins=None):
        self.port, self.number = free_port(), number
        self.folder = folder / f"replica{number}"
        (self.folder / "config/mcpservers").mkdir(parents=True)
        (self.folder / "config/workflows").mkdir()
        for name, idempotent in (("once", False), ("again", True)):
            (self.folder / f"config/workflows/{name}.yaml").write_text(json.dumps(workflow(idempotent)))
        server = {"type": "streamable-http", "url": f"http://127.0.0.1:{backend}/mcp"}
        (self.folder / "config/mcpservers/effects.yaml").write_text(json.dumps(server))
        files = [str(counted / name) for name in ("effects.log", "starts.log", "counter.lock")]
        args = [str(HERE / "counter.py"), *files]
        server = {"command": sys.executable, "args": args, "runOn": "one"}
        (self.folder / "config/mcpservers/counter.yaml").write_text(json.dumps(server))
        settings = {
            "aggregator": {"port": self.port, "oauth": {"server": logins} if logins else {}},
            "console": {"enabled": False},
            "replicas": {"enabled": True, "valkey": {"url": f"127.0.0.1:{valkey}"}, "encryptionKey": KEY},
        }
        (self.folder / "config/config.yaml").write_text(json.dumps(settings))
        self.argv = [muster, "serve", "--config-path", str(self.folder / "config")]
        self.argv += ["--state-path", str(self.folder / "state")]
        self.process, self.is_ready, self.deaths = None, False, 0
        # Whether both servers were connected since it was started. One of them may move meanwhile.
        self.was_connected = False

    def start(self):
        env = {**os.environ, "MUSTER_ACCESS": "open"}
        self.process = launch(self.argv, self.folder / "log.txt", env)

    def kill(self):
        self.is_ready = self.was_connected = False
        self.deaths += 1
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    async def check(self):
        """Whether it is ready, as a balancer would find out."""
        deaths = self.deaths
        try:
            async with asyncio.timeout(5):
                reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
                writer.write(b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
                text = await reader.read()
                writer.close()
            health = json.loads(text.partition(b"\r\n\r\n")[2])
            is_ready, is_connected = health["status"] == "ok", health["servers"]["connected"] == 2
        except (OSError, ValueError, TimeoutError):
            is_ready = is_connected = False
        # An answer of the process before says nothing.
        is_ready = is_ready and deaths == self.deaths
        self.was_connected |= is_ready and is_connected
        self.is_ready = is_ready and self.was_connected
        return self.is_ready

    def memory(self):
        """The memory of the process, in bytes."""
        text = pathlib.Path(f"/proc/{self.process.pid}/smaps_rollup").read_text()
        rows = [line.split() for line in text.splitlines() if line.startswith(("Private_Dirty", "Private_Clean"))]
        return sum(int(row[1]) for row in rows) * 1024


class Balancer:
    """Each connection goes to the next replica that is ready; a refused one to the next but one."""

    def __init__(self, replicas):
        self.replicas, self.next, self.port = replicas, 0, free_port()

    async def start(self):
        self.server = await asyncio.start_server(self.serve, "127.0.0.1", self.port, backlog=1024)

    async def connect(self):
        for _ in range(200 if self.replicas else 0):
            self.next += 1
            replica = self.replicas[self.next % len(self.replicas)]
            if not replica.is_ready:
                if self.next % len(self.replicas) == 0:
                    await asyncio.sleep(0.05)
                continue
            with contextlib.suppress(OSError):
                return await asyncio.open_connection("127.0.0.1", replica.port)
        raise OSError("no replica is ready")

    async def serve(self, reader, writer):
        try:
            up_reader, up_writer = await self.connect()
        except OSError:
            writer.close()
            return
        # Cancelled when the trial ends.
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.gather(pipe(reader, up_writer), pipe(up_reader, writer))


async def pipe(reader, writer):
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    except OSError:
        pass
    finally:
        with contextlib.suppress(OSError):
            writer.close()


def start_backend(folder):
    port, log = free_port(), folder / "effects.log"
    log.touch()
    process = launch([sys.executable, str(HERE / "backend.py"), str(port), str(log)], folder / "backend.log")

    def is_up():
        with socket.create_connection(("127.0.0.1", port), timeout=1):
            return True

    wait_for("the backend", is_up)
    return process, port, log
