#!/usr/bin/env python3
"""Runs the client authorization scenarios of the official suite with the gateway as the client.

    client_auth.py MUSTER [--revision REVISION] [--only SCENARIO] [--out DIR]
    client_auth.py --client MUSTER URL

The suite plays a protected server and its issuer, and calls the second form as the client under test: it
starts a gateway in front of that server and does what a user does with an agent and a browser: call
core_auth_login, open the address, come back, call a tool; and again when the server asks for more. What
goes over the wire to the server and the issuer is the gateway's.
"""

import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request

import run
from gateway import free_port
from run import Child, Failure, REVISIONS

START_LIMIT = 20
SCENARIO_LIMIT = 90
# The user gives up after this many failed logins.
LOGINS = 3
# Scenarios with an untrusted server or issuer, where giving up is correct.
REFUSED = {
    "auth/scope-retry-limit",
    "auth/resource-mismatch",
    "auth/iss-supported-missing",
    "auth/iss-wrong-issuer",
    "auth/iss-unexpected",
    "auth/iss-normalized",
    "auth/metadata-issuer-mismatch",
}
SAID = "the user "
DOCUMENT = "https://conformance-test.local/client-metadata.json"


class NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_):
        return None


BROWSER = urllib.request.build_opener(NoRedirect)


def opened(url):
    """The redirect target of a page, or None."""
    try:
        return BROWSER.open(url, timeout=30).headers.get("Location")
    except urllib.error.HTTPError as answer:
        return answer.headers.get("Location")


class Agent:
    """A legacy client of the gateway."""

    def __init__(self, url):
        self.url, self.session = url, None
        hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "agent", "version": "1"}}
        self.request("initialize", hello)

    def request(self, method, params):
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()
        headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
        if self.session:
            headers["Mcp-Session-Id"] = self.session
        request = urllib.request.Request(self.url, body, headers)
        with urllib.request.urlopen(request, timeout=60) as answer:
            self.session = self.session or answer.headers.get("Mcp-Session-Id")
            text = answer.read().decode()
        if not text.startswith("{"):
            data = [line[5:].strip() for line in text.splitlines() if line.startswith("data:")]
            text = data[-1]
        return json.loads(text)

    def call(self, tool, arguments):
        """Whether the call failed, and its text."""
        params = {"name": "call_tool", "arguments": {"name": tool, "arguments": arguments}}
        answer = self.request("tools/call", params)
        envelope = json.loads(answer["result"]["content"][0]["text"])
        return envelope["isError"], " ".join(item.get("text", "") for item in envelope["content"])

    def tools(self):
        answer = self.request("tools/call", {"name": "filter_tools", "arguments": {"pattern": "x_server_*"}})
        text = answer["result"]["content"][0]["text"]
        return sorted(set(re.findall(r"x_server_[A-Za-z0-9_-]+", text)))


def settings(port, scenario, context):
    client = {"enabled": True, "publicUrl": f"http://localhost:{port}"}
    if "client_id" in context:
        client |= {"clientId": context["client_id"], "clientSecret": context.get("client_secret", "")}
    elif "cimd" in scenario:
        client["clientId"] = DOCUMENT
    return {"aggregator": {"host": "127.0.0.1", "port": port, "oauth": {"mcpClient": client}}}


def log_in(agent):
    """Logs the user in once; returns whether a login was required."""
    failed, said = agent.call("core_auth_login", {"server": "server"})
    print(said, file=sys.stderr)
    url = next((line for line in said.splitlines() if line.startswith("http")), None)
    if failed or url is None:
        return not failed
    back = opened(url)
    if back is None:
        return False
    opened(back)
    return True


def client(muster, url):
    scenario = os.environ.get("MCP_CONFORMANCE_SCENARIO", "")
    context = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}")
    port = free_port()
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        (folder / "mcpservers").mkdir()
        # JSON is YAML.
        (folder / "config.yaml").write_text(json.dumps(settings(port, scenario, context)))
        (folder / "mcpservers/server.yaml").write_text(json.dumps({"url": url}))
        command = [muster, "serve", "--config-path", folder, "--debug"]
        with Child(command, stdout=sys.stderr, stderr=sys.stderr) as gateway:
            agent = connect(f"http://127.0.0.1:{port}/mcp", gateway)
            done = use(agent)
            print(f"{SAID}{'is served' if done else 'gives up'}")
            return 0 if done else 1


def connect(url, gateway):
    end = time.monotonic() + START_LIMIT
    while True:
        try:
            return Agent(url)
        except OSError:
            if gateway.poll() is not None or time.monotonic() > end:
                raise
            time.sleep(0.1)


def use(agent):
    """Calls every tool once, logging in as needed; returns whether that succeeded."""
    for _ in range(LOGINS):
        if not log_in(agent):
            return False
        tools = agent.tools()
        failed = [agent.call(tool, {}) for tool in tools]
        failed = [said for is_error, said in failed if is_error]
        print(tools, failed, file=sys.stderr)
        if tools and not failed:
            return True
    return False


def scenarios(revision):
    """The scored client scenarios about authorization."""
    found, section = [], None
    for line in (run.SUITE / "requirements" / f"{revision}.yaml").read_text().splitlines():
        if match := re.fullmatch(r"(\w+):", line):
            section = match[1]
        elif section == "client" and (match := re.fullmatch(r"  - (auth/\S+)", line)):
            found.append(match[1])
    return found


def check(muster, revision, scenario, out):
    """The checks of one scenario that failed."""
    out.mkdir(parents=True)
    command = f"{sys.executable} {pathlib.Path(__file__).resolve()} --client {muster}"
    suite = [run.NODE, run.SUITE / "dist/index.js", "client", "--command", command]
    suite += ["--scenario", scenario, "--spec-version", revision, "-o", out / "results"]
    suite += ["--timeout", str(SCENARIO_LIMIT * 1000)]
    with open(out / "suite.log", "w") as log, Child(suite, stdout=log, stderr=subprocess.STDOUT) as process:
        try:
            process.wait(SCENARIO_LIMIT + 30)
        except subprocess.TimeoutExpired:
            return {"no-result": "the scenario did not finish"}
    found = list((out / "results").glob("**/checks.json"))
    checks = json.loads(found[0].read_text()) if found else None
    failed = run.failed_checks(checks, True)
    said = "".join(path.read_text() for path in (out / "results").glob("**/stdout.txt"))
    expected = SAID + ("gives up" if scenario in REFUSED else "is served")
    if expected not in said:
        failed["outcome"] = f"expected that {expected}"
    warnings = {c["id"]: c["description"] for c in checks or () if c["status"] == "WARNING"}
    return failed | warnings


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--client", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("muster", type=pathlib.Path)
    parser.add_argument("url", nargs="?")
    parser.add_argument("--revision", choices=REVISIONS)
    parser.add_argument("--only")
    parser.add_argument("--out", type=pathlib.Path)
    args = parser.parse_args()
    muster = args.muster.resolve()
    if args.client:
        return client(muster, args.url)
    subprocess.run([run.HERE / "install.sh"], check=True)
    wrong = 0
    with tempfile.TemporaryDirectory() as scratch:
        base = (args.out or pathlib.Path(scratch)).resolve()
        for revision in [args.revision] if args.revision else REVISIONS:
            chosen = [name for name in scenarios(revision) if args.only in (None, name)]
            for scenario in chosen:
                failed = check(muster, revision, scenario, base / revision / scenario.replace("/", "-"))
                print(f"{revision} {'FAIL' if failed else 'pass'} {scenario}", flush=True)
                for name, why in failed.items():
                    print(f"  {name}: {why}", file=sys.stderr)
                wrong += bool(failed)
            print(f"{revision}: {len(chosen)} scenarios", flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Failure as failure:
        sys.exit(str(failure))
