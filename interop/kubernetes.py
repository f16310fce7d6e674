#!/usr/bin/env python3
"""Gateways whose definitions are resources of a real Kubernetes API server.

    kubernetes.py MUSTER

Applies the CustomResourceDefinitions of the chart and the original's sample manifests, runs gateways with exactly the
rights of the chart's role, and checks statuses, Events, Secrets, older CustomResourceDefinitions, starts that fail, the
change of the leader, watches that break, a restart of the API server, and `muster migrate`. A request that the API server denies is a failure. Exit status 1 when a check
failed; the last line is `N passed, N failed`.
"""

import base64
import contextlib
import datetime
import http.server
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent
CHART = ROOT / "charts/muster"
sys.path.insert(0, str(HERE / "oauth"))

from chart import Helm  # noqa: E402
from check import Tally  # noqa: E402
from kube_apiserver import ApiServer  # noqa: E402
from world import Process, free_port, request, wait_for  # noqa: E402

GROUP, NAMESPACE = "muster.giantswarm.io/v1alpha1", "tools"
BASE = f"/apis/{GROUP}/namespaces/{NAMESPACE}"
LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/muster-status"
# A lease that is not released is taken after its duration.
LEADER_CHANGE = 60


class Backend:
    """An MCP server with one tool, which remembers the tokens it was shown. It can die and come back at its address."""

    def __init__(self):
        self.port, self.tokens, self.server, self.connections = free_port(), [], None, set()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}/mcp"

    def start(self):
        backend = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def setup(self):
                super().setup()
                backend.connections.add(self.connection)

            def do_POST(self):  # noqa: N802
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                backend.tokens.append(self.headers.get("x-token"))
                result = {
                    "initialize": {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
                                   "serverInfo": {"name": "backend", "version": "1"}},
                    "tools/list": {"tools": [{"name": "hello", "inputSchema": {"type": "object"}}]},
                    "ping": {},
                    "tools/call": {"content": [{"type": "text", "text": "hello"}]},
                }.get(body.get("method"))
                if "id" not in body:
                    return self.reply(202, b"")
                answer = {"jsonrpc": "2.0", "id": body["id"]}
                answer |= {"result": result} if result is not None else {"error": {"code": -32601, "message": "no"}}
                return self.reply(200, json.dumps(answer).encode())

            def do_GET(self):  # noqa: N802
                self.reply(405, b"")

            do_DELETE = do_GET

            def reply(self, status, body):
                self.send_response(status)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", self.port), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def stop(self):
        """Dies: connections that are open end as well."""
        self.server.shutdown()
        self.server.server_close()
        for connection in self.connections:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        self.connections.clear()


class World:
    def __init__(self, muster, folder, server, helm):
        self.muster, self.folder, self.server, self.helm = muster, folder, server, helm
        self.user = f"system:serviceaccount:{NAMESPACE}:release-muster"

    def gateway(self, name, namespace=NAMESPACE):
        """A gateway with the rights of the chart's service account, and its address."""
        gateway = self.prepare(name, namespace).start()
        wait_for(f"gateway {name}", lambda: request(f"{gateway.base}/health")[0] == 200)
        return gateway

    def prepare(self, name, namespace=NAMESPACE, port=None, server=None):
        """A gateway that is not started yet. `server` is the address of another API server."""
        token = self.server.service_account(NAMESPACE, "release-muster")
        folder = self.folder / name
        folder.mkdir()
        config = {"kubernetes": True, "namespace": namespace, "aggregator": {"port": port or free_port()}, "clis": {"bundled": "none"}}
        (folder / "config.yaml").write_text(json.dumps(config))
        # Of the folder only config.yaml is read.
        (folder / "mcpservers").mkdir()
        (folder / "mcpservers/file.yaml").write_text("url: http://127.0.0.1:1/mcp\n")
        kubeconfig = self.server.kubeconfig(folder / "kubeconfig", token)
        if server:
            kubeconfig.write_text(kubeconfig.read_text().replace(self.server.url, server))
        environment = {
            **os.environ, "KUBECONFIG": str(kubeconfig), "HOSTNAME": name,
            "HOME": str(folder), "XDG_STATE_HOME": str(folder / "xdg")}
        gateway = Process(["env", *(f"{k}={v}" for k, v in environment.items()), self.muster, "serve", "--config-path",
                           str(folder), "--state-path", str(folder / "state")], folder / "log.txt")
        gateway.folder, gateway.environment = folder, environment
        gateway.base = f"http://localhost:{config['aggregator']['port']}"
        return gateway

    def apply(self, kind, name, spec):
        return self.server.apply({"apiVersion": GROUP, "kind": kind, "metadata": {"name": name, "namespace": NAMESPACE}, "spec": spec})

    def get(self, plural, name):
        return self.server.get(f"{BASE}/{plural}/{name}")

    def delete(self, plural, name):
        return self.server.expect("DELETE", f"{BASE}/{plural}/{name}", None, None, "application/json")

    def conditions(self, plural, name):
        """Condition type to its status and reason, for the generation that the resource has now."""
        found = self.get(plural, name)
        return {c["type"]: (c["status"], c["reason"]) for c in found.get("status", {}).get("conditions", [])
                if c["observedGeneration"] == found["metadata"]["generation"]}

    def becomes(self, plural, name, condition, expected, limit=60):
        wait_for(f"{condition} of {name}", lambda: self.conditions(plural, name).get(condition) == expected, limit)
        return True

    def reasons(self, name):
        events = self.server.get(f"/api/v1/namespaces/{NAMESPACE}/events")["items"]
        return {e["reason"] for e in events if e["involvedObject"]["name"] == name and e["source"]["component"] == "muster"}

    def holder(self):
        return self.server.get(LEASE)["spec"]["holderIdentity"].split("_")[0]

    def run(self, gateway, *words, **more):
        done = subprocess.run([self.muster, *map(str, words)], env=gateway.environment, capture_output=True, text=True, **more)
        return done.returncode, done.stdout, done.stderr


def check_samples(tally, world):
    stored = world.server.apply((HERE / "kubernetes/samples.yaml").read_text(), NAMESPACE)
    tally.check("samples", "are accepted unchanged", 6, len(stored))
    for plural, name in [("mcpservers", "sample-stdio"), ("mcpservers", "sample-remote"), ("mcpservers", "sample-pinned"),
                         ("workflows", "sample-workflow"), ("serviceclasses", "sample-class")]:
        tally.check("samples", f"{name} is accepted", True, world.becomes(plural, name, "Accepted", ("True", "Valid")))
    status = world.get("mcpservers", "sample-stdio")["status"]
    tally.check("samples", "a server that is not started says so", ("Stopped", ("False", "Stopped")),
                (status["state"], world.conditions("mcpservers", "sample-stdio")["Ready"]))
    status = world.get("workflows", "sample-workflow")["status"]
    tally.check("samples", "a workflow says what it needs", (True, 4, "x_git_build", ("False", "ToolsMissing")), (
        status["valid"], status["stepCount"], status["referencedTools"][0], world.conditions("workflows", "sample-workflow")["Ready"]))


def check_refusals(tally, world):
    """What the schema refuses never reaches a gateway; what only readers refuse is reported."""
    def status(kind, spec):
        path = world.server.path_of(GROUP, kind, NAMESPACE)
        body = {"apiVersion": GROUP, "kind": kind, "metadata": {"name": "refused"}, "spec": spec}
        return world.server.request("POST", path, body)[0]

    oauth = {"type": "none", "authorizationServer": {"issuer": "https://a.example"}}
    for why, kind, spec in [
        ("a server without an address", "MCPServer", {"type": "stdio"}),
        ("an unknown transport", "MCPServer", {"type": "pigeon", "url": "https://a.example"}),
        ("an issuer without OAuth", "MCPServer", {"type": "sse", "url": "https://a.example", "auth": oauth}),
        ("a step with two actions", "Workflow", {"steps": [{"id": "a", "tool": "b", "parallel": [{"id": "c", "tool": "d"}]}]}),
        ("a workflow without steps", "Workflow", {"steps": []}),
        ("a policy with an unknown default", "ToolPolicy", {"default": "maybe"})]:
        tally.check("schema", f"refuses {why}", 422, status(kind, spec))
    world.apply("Toolset", "broken", {"servers": ["[a"]})
    world.apply("Toolset", "fine", {"tools": ["x_*"]})
    tally.check("invalid", "is reported", True, world.becomes("toolsets", "broken", "Accepted", ("False", "Invalid")))
    message = world.get("toolsets", "broken")["status"]["conditions"][0]["message"]
    tally.check("invalid", "the message names the field", True, "servers" in message and "is not a pattern" in message)
    tally.check("invalid", "another is accepted beside it", True, world.becomes("toolsets", "fine", "Accepted", ("True", "Valid")))
    world.apply("Toolset", "broken", {"servers": ["a"]})
    tally.check("invalid", "is accepted when it is corrected", True, world.becomes("toolsets", "broken", "Accepted", ("True", "Valid")))


def check_lifecycle(tally, world, backend):
    world.apply("MCPServer", "live", {"type": "streamable-http", "url": backend.url, "autoStart": True})
    tally.check("status", "a server that is connected is ready", True, world.becomes("mcpservers", "live", "Ready", ("True", "Connected")))
    tally.check("status", "its state is that of the original", "Connected", world.get("mcpservers", "live")["status"]["state"])
    expected = {"MCPServerCreated", "MCPServerStarting", "MCPServerStarted", "MCPServerToolsDiscovered"}
    wait_for("events", lambda: expected <= world.reasons("live"))
    tally.check("events", "are on the resource", [], sorted(expected - world.reasons("live")))
    uid = world.get("mcpservers", "live")["metadata"]["uid"]
    events = world.server.get(f"/api/v1/namespaces/{NAMESPACE}/events")["items"]
    tally.check("events", "name the resource by its identity", [uid],
                sorted({e["involvedObject"].get("uid", "") for e in events if e["involvedObject"]["name"] == "live"}))
    # A resync of the gateway reads everything again, and must write nothing.
    before = world.get("mcpservers", "live")["metadata"]["resourceVersion"]
    world.apply("Toolset", "fine", {"tools": ["x_a*"]})
    world.becomes("toolsets", "fine", "Accepted", ("True", "Valid"))
    tally.check("status", "is written on change only", before, world.get("mcpservers", "live")["metadata"]["resourceVersion"])


def check_death(tally, world, backend):
    backend.stop()
    # Nobody calls it: the gateway asks by itself.
    wait_for("a server that is not ready", lambda: world.conditions("mcpservers", "live").get("Ready", [""])[0] == "False", 120)
    status = world.get("mcpservers", "live")["status"]
    tally.check("status", "says that a backend died", ("Failed", True), (status["state"], "refused" in status["lastError"]))
    backend.start()
    tally.check("status", "says that it came back", True, world.becomes("mcpservers", "live", "Ready", ("True", "Connected"), 120))
    tally.check("status", "the error is gone then", None, world.get("mcpservers", "live")["status"].get("lastError"))


def check_tools(tally, world, gateway, backend):
    endpoint = ["--endpoint", f"{gateway.base}/mcp"]
    code, said, wrong = world.run(gateway, "create", "mcpserver", "by-tool", "--type", "streamable-http", "--url", backend.url, *endpoint)
    tally.check("core tools", "create a resource", (0, backend.url), (code, world.get("mcpservers", "by-tool")["spec"]["url"]))
    world.server.apply({"apiVersion": GROUP, "kind": "MCPServer", "metadata": {
        "name": "by-tool", "namespace": NAMESPACE, "labels": {"team": "a"}}, "spec": {"type": "streamable-http", "url": backend.url, "description": "by hand"}})
    code, said, wrong = world.run(gateway, "call", "core_mcpserver_update", "--json", json.dumps(
        {"name": "by-tool", "type": "streamable-http", "url": backend.url, "description": "by tool"}), *endpoint)
    found = world.get("mcpservers", "by-tool")
    tally.check("core tools", "change a resource, and leave its labels", (0, "by tool", {"team": "a"}),
                (code, found["spec"].get("description"), found["metadata"].get("labels")))
    code, said, wrong = world.run(gateway, "delete", "mcpserver", "by-tool", "--yes", *endpoint)
    tally.check("core tools", "delete a resource", (0, 404), (code, world.server.request("GET", f"{BASE}/mcpservers/by-tool")[0]))
    code, said, wrong = world.run(gateway, "create", "mcpserver", "No_Name", "--type", "sse", "--url", backend.url, *endpoint)
    tally.check("core tools", "say which names a resource can have", (1, True), (code, "lower case" in said + wrong))
    code, said, wrong = world.run(gateway, "list", "mcpserver", "-o", "json", *endpoint)
    tally.check("core tools", "know nothing of files beside config.yaml", False, '"file"' in said)
    tally.check("start", "files that are not read are named", True, "the files in mcpservers of" in gateway.log.read_text())


def check_secrets(tally, world, backend):
    def put(token):
        # `stringData` is for humans, and does not change an object that is applied on the server again.
        data = {"token": base64.b64encode(token.encode()).decode()}
        return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "creds", "namespace": NAMESPACE}, "data": data}

    spec = {"type": "streamable-http", "url": backend.url, "autoStart": True, "headers": {"X-Token": "Bearer secret://creds/token"}}
    world.apply("MCPServer", "secretive", spec)
    said = wait_for("a missing Secret", lambda: world.get("mcpservers", "secretive").get("status", {}).get("lastError"))
    tally.check("secrets", "a missing one is named", "Secret `creds` in namespace `tools` does not exist", said)
    world.server.apply(put("first-value"))
    tally.check("secrets", "one that is created is used", True, world.becomes("mcpservers", "secretive", "Ready", ("True", "Connected")))
    tally.check("secrets", "it reaches the server", True, "Bearer first-value" in backend.tokens)
    world.server.apply(put("second-value"))
    wait_for("the changed Secret", lambda: "Bearer second-value" in backend.tokens)
    tally.check("secrets", "a changed one is used", True, world.becomes("mcpservers", "secretive", "Ready", ("True", "Connected")))
    logs = "".join(log.read_text() for log in world.folder.glob("*/log.txt"))
    shown = json.dumps(world.get("mcpservers", "secretive")) + logs
    tally.check("secrets", "are not shown", [], [word for word in ("first-value", "second-value") if word in shown])


def check_outage(tally, world, backend, gateway):
    """Connections break, then the API server is away for a while and comes back."""
    world.server.stop_server(signal.SIGKILL)
    code, said, _ = world.run(gateway, "call", "x_live_hello", "--endpoint", f"{gateway.base}/mcp")
    tally.check("outage", "calls go on while the API server is away", (0, True), (code, "hello" in said))
    code, said, wrong = world.run(gateway, "create", "mcpserver", "lost", "--type", "sse", "--url", backend.url, "--endpoint", f"{gateway.base}/mcp")
    tally.check("outage", "changes fail with a reason", (1, True), (code, "cannot be reached" in said + wrong))
    world.server.start_server()
    world.apply("MCPServer", "after", {"type": "streamable-http", "url": backend.url, "autoStart": True})
    tally.check("outage", "what is new afterwards is found", True, world.becomes("mcpservers", "after", "Ready", ("True", "Connected"), 90))
    world.delete("mcpservers", "after")
    tally.check("outage", "the gateway is the same", True, gateway.alive())
    # An API server that has just started denies requests until it has read its roles.
    return len(world.server.denied(world.user))


def call_as_agent(gateway, tool, arguments):
    """The answer to a call by an MCP client, as text."""
    def send(session, body):
        headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2025-06-18",
                   **({"Mcp-Session-Id": session} if session else {})}
        asked = urllib.request.Request(f"{gateway.base}/mcp", json.dumps({"jsonrpc": "2.0", **body}).encode(), headers)
        with urllib.request.urlopen(asked, timeout=60) as answer:
            return answer.headers.get("Mcp-Session-Id"), answer.read().decode()

    client = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "agent", "version": "1"}}
    session, _ = send(None, {"id": 1, "method": "initialize", "params": client})
    send(session, {"method": "notifications/initialized"})
    call = {"name": "call_tool", "arguments": {"name": tool, "arguments": arguments}}
    return send(session, {"id": 2, "method": "tools/call", "params": call})[1]


def check_executions(tally, world, gateway):
    """What a workflow did is a resource, and the records that the original wrote are listed with ours."""
    world.apply("Workflow", "probe", {"steps": [{"id": "one", "tool": "core_service_list"}]})
    world.becomes("workflows", "probe", "Ready", ("True", "Available"))
    said = call_as_agent(gateway, "workflow_probe", {})
    name = re.search(r'execution_id[\\": ]+([0-9a-f-]{36})', said)
    tally.check("executions", "a workflow runs", True, bool(name))

    def status():
        code, found = world.server.request("GET", f"{BASE}/workflowexecutions/{name[1]}")[:2]
        return code == 200 and found["spec"]["status"] == "completed"

    wait_for("the record of the execution", status)
    found = world.get("workflowexecutions", name[1])
    labels = {"muster.giantswarm.io/workflow": "probe", "muster.giantswarm.io/status": "completed"}
    tally.check("executions", "a record has labels and steps", (labels, "probe", ["one"]), (
        found["metadata"]["labels"], found["spec"]["workflowName"], [step["stepId"] for step in found["spec"]["steps"]]))
    sample = "0f3b1f6e-6b1e-4c55-9c0e-6a7c1f5b2a10"
    said = call_as_agent(gateway, "core_workflow_execution_list", {})
    tally.check("executions", "all are listed", (True, True), (name[1] in said, sample in said))
    said = call_as_agent(gateway, "core_workflow_execution_get", {"execution_id": sample})
    tally.check("executions", "a record of the original is read", True, "x_git_build" in said)
    world.delete("workflows", "probe")
    world.delete("workflowexecutions", sample)
    wait_for("the list without it", lambda: sample not in call_as_agent(gateway, "core_workflow_execution_list", {}))


def check_older_definitions(tally, world, gateway, backend):
    """The kinds of the original have no `approval`: a server that waits for it is refused, and not stored without it."""
    file = CHART / "crds/mcpservers.yaml"
    current = world.server.apply(file.read_text())[0]
    current["metadata"] = {key: current["metadata"][key] for key in ("name", "annotations")}
    older = json.loads(json.dumps({key: current[key] for key in ("apiVersion", "kind", "metadata", "spec")}))
    spec = older["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    del spec["properties"]["approval"]
    world.server.apply(older)
    path = world.server.path_of(GROUP, "MCPServer", NAMESPACE)
    body = {"apiVersion": GROUP, "kind": "MCPServer", "metadata": {"name": "probe"}, "spec": {
        "type": "sse", "url": backend.url, "approval": "pending"}}
    # The API server takes the new schema after a moment, and drops the field from then on.
    wait_for("the older definition", lambda: "approval" not in world.server.expect(
        "POST", f"{path}?dryRun=All", body, None, "application/json")["spec"])
    # A client that is no operator, and may add servers: they wait for approval.
    world.apply("ToolPolicy", "agents", {"default": "enabled", "tools": {"core_mcpserver_create": {}}})
    world.becomes("toolpolicies", "agents", "Accepted", ("True", "Valid"))
    arguments = {"name": "unapproved", "type": "streamable-http", "url": backend.url, "autoStart": True}
    said = call_as_agent(gateway, "core_mcpserver_create", arguments)
    tally.check("older definitions", "refuse what they would drop", (True, True), ("approval" in said, "CustomResourceDefinitions" in said))
    tally.check("older definitions", "nothing is stored without it", 404, world.server.request("GET", f"{path}/unapproved")[0])
    world.server.apply(file.read_text())
    wait_for("the definition of this version", lambda: "approval" in world.server.expect(
        "POST", f"{path}?dryRun=All", body, None, "application/json")["spec"])
    call_as_agent(gateway, "core_mcpserver_create", arguments)
    tally.check("older definitions", "it is stored with those of this version", "pending", world.get("mcpservers", "unapproved")["spec"].get("approval"))
    world.delete("mcpservers", "unapproved")
    world.delete("toolpolicies", "agents")


def check_starts(tally, world):
    """Gateways that never serve: one whose port is taken, and one whose API server does not answer."""
    namespace = world.server.create_namespace("busy")
    _, role, _ = world.helm("template", "release", CHART, "--namespace", NAMESPACE, "--show-only", "templates/rbac.yaml",
                            "--set", "muster.tokens.existingSecret=tokens", "--set", f"muster.namespace={namespace}")
    world.server.apply(role, namespace)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        gateway = world.prepare("busy", namespace, port=taken.getsockname()[1]).start()
        wait_for("the end of a gateway whose port is taken", lambda: not gateway.alive())
        lease = LEASE.replace(f"/{NAMESPACE}/", f"/{namespace}/")
        tally.check("start", "a gateway that cannot listen takes no lease", 404, world.server.request("GET", lease)[0])
        # It accepts connections, and never answers.
        gateway = world.prepare("waiting", server=f"https://127.0.0.1:{taken.getsockname()[1]}").start()
        wait_for("a gateway that waits", lambda: "definitions are resources" in gateway.log.read_text())
        gateway.child.terminate()
        tally.check("start", "SIGTERM ends a gateway that waits for the API server", 0, gateway.child.wait(20))


def check_leaders(tally, world, backend, first):
    wait_for("a leader", lambda: world.holder() == "first")
    transitions = world.server.get(LEASE)["spec"]["leaseTransitions"]
    second = world.gateway("second")

    def renewed():
        return datetime.datetime.fromisoformat(world.server.get(LEASE)["spec"]["renewTime"])

    # For longer than a lease lasts that is not renewed.
    began, lasts = renewed(), datetime.timedelta(seconds=world.server.get(LEASE)["spec"]["leaseDurationSeconds"])
    wait_for("renewals", lambda: renewed() > began + lasts)
    tally.check("leader", "a second gateway leaves the lease alone", ("first", transitions),
                (world.holder(), world.server.get(LEASE)["spec"]["leaseTransitions"]))
    first.stop(signal.SIGKILL)
    wait_for("another leader", lambda: world.holder() == "second", LEADER_CHANGE)
    tally.check("leader", "another gateway takes the lease of a dead one", transitions + 1, world.server.get(LEASE)["spec"]["leaseTransitions"])
    world.apply("MCPServer", "next", {"type": "streamable-http", "url": backend.url, "autoStart": True})
    tally.check("leader", "and writes statuses", True, world.becomes("mcpservers", "next", "Ready", ("True", "Connected")))

    def ready_since():
        found = world.get("mcpservers", "next")["status"]["conditions"]
        return next((c["status"], c["lastTransitionTime"]) for c in found if c["type"] == "Ready")

    before, third = ready_since(), world.gateway("third")
    second.stop()
    wait_for("the third leader", lambda: world.holder() == "third", LEADER_CHANGE)
    # The new leader has compared every status when it has written this one.
    world.apply("Toolset", "later", {"tools": ["x_b*"]})
    world.becomes("toolsets", "later", "Accepted", ("True", "Valid"))
    tally.check("leader", "one that ends says nothing of servers that it disconnects", before, ready_since())
    return third


def check_migration(tally, world, gateway):
    back = world.folder / "back"
    environment = {**gateway.environment, "KUBECONFIG": str(world.folder / "admin")}
    gateway.environment = environment
    code, said, wrong = world.run(gateway, "migrate", "files", "--namespace", NAMESPACE, "--config-path", back)
    tally.check("migrate", "resources become files", (0, True), (code, (back / "mcpservers/sample-remote.yaml").exists()))
    code, said, wrong = world.run(gateway, "validate", *sorted(back.glob("*/*.yaml")))
    tally.check("migrate", "the files are valid", 0, code)
    code, said, wrong = world.run(gateway, "migrate", "kubernetes", "--namespace", NAMESPACE, "--config-path", back, "--apply")
    tally.check("migrate", "files become the same resources", (0, ["unchanged"]), (code, sorted({line.split()[-1] for line in said.splitlines()})))
    other = world.server.create_namespace("moved")
    code, said, wrong = world.run(gateway, "migrate", "kubernetes", "--namespace", other, "--config-path", back)
    stored = world.server.apply(said, other)
    tally.check("migrate", "manifests are accepted elsewhere", (0, len(list(back.glob("*/*.yaml")))), (code, len(stored)))
    for plural in ("mcpservers", "workflows", "serviceclasses", "toolsets"):
        def specs(namespace):
            items = world.server.get(f"/apis/{GROUP}/namespaces/{namespace}/{plural}")["items"]  # noqa: B023
            return {item["metadata"]["name"]: item["spec"] for item in items}
        tally.check("migrate", f"{plural} are the same there", specs(NAMESPACE), specs(other))
    code, said, wrong = world.run(gateway, "migrate", "files", "--namespace", "default", "--config-path", world.folder / "none")
    tally.check("migrate", "a namespace without definitions is an error", (1, True), (code, "no definition in namespace `default`" in wrong))
    check_hand_written(tally, world, gateway)


def check_hand_written(tally, world, gateway):
    """Files as people write them, which resources are stricter than."""
    folder = world.folder / "by-hand"
    for path, text in {
        "policies/all.yaml": "default: enabled\ncallers: [{anonymous: yes, tools: {x_a: {args: {n: {max: '5'}}}}}]\n",
        "toolsets/some.yaml": "tools: [x_a]\n",
        "mcpservers/local.yaml": "command: run\nargs: [--port, 8080, true]\nenv: {LEVEL: 3, T: 'secret://local.API_TOKEN'}\nautoStart: 'no'\n",
        "workflows/flow.yaml": "args: {city: string}\nsteps: [{id: one, tool: x_a}]\n",
        "serviceclasses/db.yaml": "serviceConfig:\n  lifecycleTools:\n    start: {tool: x_a, outputs: {port: 8080}}\n    stop: {tool: x_b}\n",
        "services/one.yaml": "serviceClassName: db\nautoStart: off\n",
        "clis/git.yaml": "command: git\ntools: [{name: git_log, description: d, network: 'off', timeout: '30'}]\n",
    }.items():
        (folder / path).parent.mkdir(parents=True)
        (folder / path).write_text(text)
    namespace = world.server.create_namespace("by-hand")
    apply = ["migrate", "kubernetes", "--namespace", namespace, "--config-path", folder, "--apply"]
    code, said, wrong = world.run(gateway, *apply)
    order = [line.split("/")[0] for line in said.splitlines()]
    tally.check("migrate", "files by hand become resources, policies first", (0, 7, ["toolpolicies", "toolsets", "mcpservers"]),
                (code, len(order), order[:3]))
    hint = f"kubectl -n {namespace} create secret generic local --from-file=API_TOKEN={folder}/secrets/local.API_TOKEN"
    tally.check("migrate", "the Secrets to create are named", True, hint in wrong)
    code, said, wrong = world.run(gateway, *apply)
    tally.check("migrate", "they do not change the second time", (0, {"unchanged"}), (code, {line.split()[-1] for line in said.splitlines()}))
    (folder / "toolsets/new.yaml").write_text("tools: [x_b]\n")
    # The schema refuses the address, and no reader does.
    (folder / "mcpservers/odd.yaml").write_text("url: 'http://?'\n")
    code, said, wrong = world.run(gateway, *apply)
    path = f"/apis/{GROUP}/namespaces/{namespace}/toolsets/new"
    tally.check("migrate", "nothing is stored if one is refused", (1, "", 404), (code, said, world.server.request("GET", path)[0]))


def main():
    muster = str(pathlib.Path(sys.argv[1]).resolve())
    subprocess.run([HERE / "install_helm.sh"], check=True)
    tally = Tally()
    with tempfile.TemporaryDirectory(prefix="muster-kubernetes-") as name, ApiServer(pathlib.Path(name) / "api") as server:
        folder = pathlib.Path(name)
        helm = Helm(folder, server.kubeconfig(folder / "admin"))
        world = World(muster, folder, server, helm)
        server.create_namespace(NAMESPACE)
        for file in sorted((CHART / "crds").glob("*.yaml")):
            server.apply(file.read_text())
        code, role, wrong = helm("template", "release", CHART, "--namespace", NAMESPACE, "--show-only", "templates/rbac.yaml",
                                 "--set", "muster.tokens.existingSecret=tokens", "--set", "rbac.secretNames={creds}")
        tally.check("chart", "has a role", (0, ""), (code, wrong))
        server.apply(role, NAMESPACE)
        backend, gateway = Backend().start(), world.gateway("first")
        try:
            check_samples(tally, world)
            check_refusals(tally, world)
            check_lifecycle(tally, world, backend)
            check_tools(tally, world, gateway, backend)
            check_executions(tally, world, gateway)
            check_death(tally, world, backend)
            check_secrets(tally, world, backend)
            check_older_definitions(tally, world, gateway, backend)
            check_starts(tally, world)
            tally.check("rights", "no request was denied", [], sorted(set(server.denied(world.user))))
            before = check_outage(tally, world, backend, gateway)
            gateway = check_leaders(tally, world, backend, gateway)
            tally.check("rights", "none was denied after the outage", [], sorted(set(server.denied(world.user)[before:])))
            used = {request[1:3] for request in server.requests_of(world.user)}
            wanted = {("list", "toolpolicies"), ("patch", "mcpservers/status"), ("create", "events"), ("update", "leases"), ("get", "secrets"),
                      ("watch", "secrets"), ("create", "workflowexecutions"), ("update", "workflowexecutions")}
            tally.check("rights", "they were used", [], sorted(wanted - used))
            check_migration(tally, world, gateway)
        finally:
            gateway.stop()
            backend.stop()
            if tally.failed:
                for log in sorted(folder.glob("*/log.txt")):
                    print(f"--- {log.parent.name}\n" + "\n".join(log.read_text().splitlines()[-25:]))
    print(f"{tally.passed} passed, {tally.failed} failed")
    return 1 if tally.failed else 0


if __name__ == "__main__":
    sys.exit(main())
