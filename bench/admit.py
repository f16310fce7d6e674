#!/usr/bin/env python3
"""Counts the instructions that authentication adds to a call.

    bench/admit.py [--bin DIR] [--check]

Instructions are counted by valgrind's callgrind, not time, so that a busy machine does not change them much.
First `Guard::admit` alone, by the example `admit` of `muster-auth`: it is run twice for each kind of token with
different numbers of requests, and the difference, divided by the difference of the numbers, is what one request
costs. Then the whole of `muster serve` in the same way, without logins and with them, and a call by HTTP as a client
makes it; `--bin` says where `muster` is (default: target/dist). With `--check` the exit status is 1 when the goal
is not met.
"""

import argparse
import base64
import hashlib
import http.client
import json
import pathlib
import re
import secrets
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

ROOT = pathlib.Path(__file__).resolve().parent.parent
# 30 µs of one instruction a cycle at one gigahertz, which every machine of today exceeds.
GOAL = 30_000
KINDS = {
    "nothing": (1000, 11000, "no login is asked for"),
    "own": (1000, 11000, "a token of the gateway, judged before"),
    "signed": (1000, 11000, "a signed token of a trusted issuer, judged before"),
    "first": (100, 300, "a signed token that is new, with its signature (ES256)"),
    "opaque": (100, 300, "a token that only the provider can read, with the question to it and its answer"),
}
GOALS = ["own", "signed"]


def counted(text):
    found = re.search(r"Collected : (\d+)", text)
    return int(found[1]) if found else sys.exit(f"valgrind counted nothing:\n{text}")


def alone(kind, times, folder):
    argv = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={folder}/out",
            str(ROOT / "target/dist/examples/admit"), kind, str(times)]
    ran = subprocess.run(argv, stderr=subprocess.PIPE, text=True)
    if ran.returncode:
        sys.exit(f"{' '.join(argv)} failed:\n{ran.stderr}")
    return counted(ran.stderr)


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


class Provider(BaseHTTPRequestHandler):
    """An identity provider that authenticates every user as alice."""

    def log_message(self, *_):
        pass

    def do_GET(self):
        base = f"http://localhost:{self.server.server_port}"
        self.say({"/.well-known/openid-configuration": {
            "issuer": base, "authorization_endpoint": f"{base}/auth", "token_endpoint": f"{base}/token",
            "userinfo_endpoint": f"{base}/userinfo"}}.get(self.path, {"sub": "alice", "email": "alice@example.com"}))

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.say({"access_token": "a", "token_type": "Bearer", "expires_in": 3600, "refresh_token": "r"})

    def say(self, document):
        body = json.dumps(document).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


class Gateway:
    """`muster serve` under valgrind."""

    def __init__(self, muster, folder, issuer):
        self.port, self.token = free_port(), None
        config = {"aggregator": {"port": self.port}}
        if issuer:
            config["aggregator"]["oauth"] = {"server": {
                "enabled": True, "baseUrl": f"http://localhost:{self.port}", "registrationToken": "token",
                "dex": {"issuerUrl": issuer, "clientId": "muster"}}}
        (folder / "clis").mkdir(parents=True)
        (folder / "config.yaml").write_text(json.dumps(config))
        self.log = open(folder / "log.txt", "w+")
        argv = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={folder}/out", str(muster), "serve", "--silent",
                "--config-path", str(folder)]
        self.child = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)
        while self.child.poll() is None:
            try:
                if self.send("GET", "/health")[2].get("status") == "ok":
                    break
            except OSError:
                pass
            time.sleep(0.2)
        if issuer:
            self.log_in()

    def send(self, method, path, body=None, headers=None, connection=None):
        connection = connection or http.client.HTTPConnection("localhost", self.port, timeout=120)
        connection.request(method, path, body, headers or {})
        answer = connection.getresponse()
        text = answer.read().decode()
        return answer.status, answer.headers, json.loads(text) if text.startswith("{") else {}

    def log_in(self):
        verifier, place = secrets.token_urlsafe(32), "https://app.example/cb"
        challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()
        wish = json.dumps({"redirect_uris": [place]})
        _, _, client = self.send("POST", "/oauth/register", wish, {"Authorization": "Bearer token"})
        query = urllib.parse.urlencode({
            "response_type": "code", "client_id": client["client_id"], "redirect_uri": place,
            "state": secrets.token_urlsafe(32), "code_challenge": challenge, "code_challenge_method": "S256"})
        _, head, _ = self.send("GET", f"/oauth/authorize?{query}")
        asked = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(head["Location"]).query))
        cookie = {"Cookie": head["Set-Cookie"].split(";")[0]}
        _, head, _ = self.send("GET", f"/oauth/callback?code=c&state={asked['state']}", headers=cookie)
        code = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(head["Location"]).query))["code"]
        fields = urllib.parse.urlencode({
            "grant_type": "authorization_code", "code": code, "code_verifier": verifier,
            "client_id": client["client_id"], "client_secret": client["client_secret"]})
        kind = {"Content-Type": "application/x-www-form-urlencoded"}
        self.token = self.send("POST", "/oauth/token", fields, kind)[2]["access_token"]

    def call(self, times):
        meta = {"io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientCapabilities": {}}
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
            "name": "call_tool", "arguments": {"name": "core_service_list", "arguments": {}}, "_meta": meta}})
        headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream",
                   "MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "call_tool"}
        if self.token:
            headers["Authorization"] = f"Bearer {self.token}"
        connection = http.client.HTTPConnection("localhost", self.port, timeout=120)
        for _ in range(times):
            status, _, said = self.send("POST", "/mcp", body, headers, connection)
            if status != 200 or said["result"].get("isError"):
                sys.exit(f"a call failed: {status} {said}")

    def end(self):
        self.child.terminate()
        self.child.wait()
        self.log.seek(0)
        return counted(self.log.read())


def whole(muster, issuer, folder, times):
    gateway = Gateway(muster, folder, issuer)
    gateway.call(times)
    return gateway.end()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", type=pathlib.Path, default=ROOT / "target/dist")
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args()
    subprocess.run(["cargo", "build", "--profile", "dist", "--locked", "-p", "muster-auth", "--example", "admit"],
                   check=True, cwd=ROOT)
    each, few, many = {}, 200, 1200
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for kind, (least, most, what) in KINDS.items():
            each[kind] = (alone(kind, most, folder) - alone(kind, least, folder)) / (most - least)
            print(f"{each[kind]:12,.0f}  {kind}: {what}", flush=True)
        provider = ThreadingHTTPServer(("127.0.0.1", 0), Provider)
        threading.Thread(target=provider.serve_forever, daemon=True).start()
        issuer = f"http://localhost:{provider.server_port}"
        for kind, named in [("open", None), ("protected", issuer)]:
            counts = [whole(args.bin / "muster", named, folder / f"{kind}-{times}", times) for times in (few, many)]
            each[kind] = (counts[1] - counts[0]) / (many - few)
            print(f"{each[kind]:12,.0f}  {kind}: a whole call of the gateway", flush=True)
    added = each["protected"] - each["open"]
    print(f"{added:12,.0f}  of them for the login")
    missed = [kind for kind in GOALS if each[kind] - each["nothing"] > GOAL] + ["protected"] * (added > GOAL)
    print(f"goal: at most {GOAL:,} instructions: {'missed' if missed else 'met'}")
    return args.check and bool(missed)


if __name__ == "__main__":
    sys.exit(main())
