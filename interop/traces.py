#!/usr/bin/env python3
"""Traces of a gateway, as a real OpenTelemetry Collector receives and exports them.

    traces.py MUSTER

A client calls a workflow whose step is a workflow whose steps are tools of an MCP server. The gateway exports its spans to
the collector, which passes on what it accepts. The collector is compiled on first use (install_collector.sh), which needs Go.
"""

import argparse
import contextlib
import json
import os
import pathlib
import queue
import re
import secrets
import shutil
import subprocess
import tempfile
import threading
import urllib.error
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

HERE = pathlib.Path(__file__).resolve().parent
# How long a span may take through the gateway's exporter and the collector.
SPAN_SECONDS=20
MODERN, LEGACY = "2026-07-28", "2025-11-25"
SERVER, CLIENT, INTERNAL = 2, 3, 1
ERROR = 2

passed, failures = 0, []


def check(holds, what):
    global passed
    if holds:
        passed += 1
    else:
        failures.append(what)
        print(f"FAILED: {what}")


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def body(self):
        return json.loads(self.rfile.read(int(self.headers["content-length"])))

    def reply(self, status, value=None):
        body = b"" if value is None else json.dumps(value).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


class Backend(Handler):
    """An MCP server that records the `_meta` of each call."""

    metas = queue.Queue()
    # The ids of the first calls.
    ids = queue.Queue()
    port = 0

    def do_GET(self):
        self.reply(405)

    def do_POST(self):
        message = self.body()
        method, params = message.get("method"), message.get("params") or {}
        if "id" not in message:
            return self.reply(202)
        if method == "initialize":
            result = {"protocolVersion": LEGACY, "capabilities": {"tools": {}},
                      "serverInfo": {"name": "backend", "version": "1"}}
        elif method == "tools/list":
            result = {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in ("read", "fail", "refuse")]}
        elif method == "tools/call":
            self.metas.put((params["name"], params.get("_meta") or {}))
            self.ids.put(message["id"])
            if params["name"] == "refuse":
                error = {"code": -32050, "message": "the backend refuses"}
                return self.reply(200, {"jsonrpc": "2.0", "id": message["id"], "error": error})
            result = {"content": [{"type": "text", "text": "done"}], "isError": params["name"] == "fail"}
        else:
            error = {"code": -32601, "message": "Method not found"}
            return self.reply(200, {"jsonrpc": "2.0", "id": message["id"], "error": error})
        self.reply(200, {"jsonrpc": "2.0", "id": message["id"], "result": result})


class Sink(Handler):
    """Receives what the collector exports."""

    spans = queue.Queue()

    def do_POST(self):
        for resource in self.body()["resourceSpans"]:
            for scope in resource["scopeSpans"]:
                for span in scope["spans"]:
                    self.spans.put({**span, "resource": attributes(resource["resource"]), "scope": scope["scope"]})
        self.reply(200, {})


def attributes(of):
    return {one["key"]: next(iter(one["value"].values())) for one in of.get("attributes", [])}


@contextlib.contextmanager
def served(handler):
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server.server_port
    server.shutdown()


@contextlib.contextmanager
def running(command, pattern, lines, env=None):
    """A process, and what `pattern` finds in a line of its standard error. `lines` gets every line."""
    child = subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    found = queue.Queue()

    def read():
        for line in child.stderr:
            lines.put(line)
            if match := re.search(pattern, line):
                found.put(match)
        found.put(None)

    threading.Thread(target=read, daemon=True).start()
    try:
        match = found.get(timeout=SPAN_SECONDS)
        if match is None:
            raise SystemExit(f"{command[0]} did not start: {''.join(lines.queue)}")
        yield match
    finally:
        child.terminate()
        child.wait()


def collector(program, folder, sink, lines):
    config = {
        "receivers": {"otlp": {"protocols": {"http": {"endpoint": "127.0.0.1:0"}}}},
        "exporters": {"otlp_http": {
            "endpoint": f"http://127.0.0.1:{sink}", "encoding": "json", "compression": "none",
            # Each request is passed on at once.
            "sending_queue": {"enabled": False},
        }},
        "service": {
            "telemetry": {"metrics": {"level": "none"}, "logs": {"encoding": "json"}},
            "pipelines": {"traces": {"receivers": ["otlp"], "exporters": ["otlp_http"]}},
        },
    }
    (folder / "collector.yaml").write_text(json.dumps(config))
    # The port that it chose is in its log.
    pattern = r'"Starting HTTP server".*"endpoint":"[^"]*:(\d+)"'
    return running([program, f"--config=yaml:{json.dumps(config)}"], pattern, lines)


class Gateway:
    def __init__(self, url):
        self.url = url

    def call(self, tool, arguments=None, meta=None, headers=None):
        """The result of `call_tool`, or the error of the gateway."""
        params = {"name": "call_tool", "arguments": {"name": tool, "arguments": arguments or {}}, "_meta": {
            "io.modelcontextprotocol/protocolVersion": MODERN,
            "io.modelcontextprotocol/clientInfo": {"name": "traces", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {}, **(meta or {}),
        }}
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        sent = {"content-type": "application/json", "accept": "application/json, text/event-stream",
                "mcp-protocol-version": MODERN, "mcp-method": "tools/call", "mcp-name": "call_tool", **(headers or {})}
        request = urllib.request.Request(f"{self.url}/mcp", json.dumps(message).encode(), sent)
        try:
            reply = urllib.request.urlopen(request).read().decode()
        except urllib.error.HTTPError as error:
            reply = error.read().decode()
        data = [line.removeprefix("data:") for line in reply.splitlines() if line.startswith("data:")]
        return json.loads(data[-1] if data else reply)


@contextlib.contextmanager
def gateway(program, folder, backend, endpoint, lines, settings="", env=None):
    files = {
        "config.yaml": "aggregator: {port: 0}\nclis: {bundled: none}\n" + f"traces: {{endpoint: '{endpoint}'{settings}}}\n",
        "mcpservers/backend.yaml": json.dumps({"name": "backend", "type": "streamable-http", "autoStart": True,
                                               "url": f"http://127.0.0.1:{backend}/mcp"}),
        "workflows/outer.yaml": json.dumps({"name": "outer", "steps": [{"id": "nested", "tool": "workflow_inner"}]}),
        "workflows/inner.yaml": json.dumps({"name": "inner", "steps": [
            {"id": "first", "tool": "x_backend_read"}, {"id": "second", "tool": "x_backend_read"}]}),
    }
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    kept = {key: value for key, value in os.environ.items() if key != "XDG_STATE_HOME" and not key.startswith("OTEL_")}
    # Every process on this machine is an operator.
    kept |= {"MUSTER_ACCESS": "open", "HOME": str(folder), "MUSTER_STATE_PATH": str(folder / "state"), **(env or {})}
    command = [program, "serve", "--config-path", folder, "--log-format", "json"]
    with running(command, r"listening on (http://\S+?)/mcp", lines, kept) as match:
        started = Gateway(match[1])
        # Returns when the server is connected.
        reply = started.call("core_service_start", {"name": "backend"})
        check(not reply["result"].get("isError"), f"the backend is connected: {reply}")
        yield started


def spans_of(trace, names):
    """The spans of a trace, by name, once all these names are there as often as they are listed."""
    found = []
    while sorted(span["name"] for span in found) != sorted(names):
        try:
            span = Sink.spans.get(timeout=SPAN_SECONDS)
        except queue.Empty:
            raise SystemExit(f"spans of the trace {trace}: {[span['name'] for span in found]}, expected {names}") from None
        if span["traceId"] == trace:
            found.append(span)
    return found


def context(sampled=True):
    trace, span = secrets.token_hex(16), secrets.token_hex(8)
    return trace, span, f"00-{trace}-{span}-0{int(sampled)}"


def told(tool):
    """The `_meta` that the backend got with the next call of a tool."""
    name, meta = Backend.metas.get(timeout=SPAN_SECONDS)
    check(name == tool, f"the backend was called for {tool}: {name}")
    return meta


def nesting(gate):
    """A trace from the client over the gateway and two workflows to the calls of the backend."""
    trace, client, parent = context()
    reply = gate.call("workflow_outer", meta={"traceparent": parent, "tracestate": "vendor=1"})
    check(not reply["result"].get("isError"), f"the workflow succeeds: {reply}")
    spans = spans_of(trace, ["tools/call call_tool", "tools/call workflow_outer", "tools/call workflow_inner",
                             *["tools/call x_backend_read"] * 2])
    one = lambda name: next(span for span in spans if span["name"] == f"tools/call {name}")
    reads = [span for span in spans if span["name"] == "tools/call x_backend_read"]
    chain = [one("call_tool"), one("workflow_outer"), one("workflow_inner")]
    check(chain[0]["parentSpanId"] == client, f"the client's span is above: {chain[0]}")
    for above, below in [*zip(chain, chain[1:]), *((chain[2], read) for read in reads)]:
        check(below["parentSpanId"] == above["spanId"], f"{below['name']} is below {above['name']}")
        inside = int(above["startTimeUnixNano"]) <= int(below["startTimeUnixNano"])
        inside &= int(below["endTimeUnixNano"]) <= int(above["endTimeUnixNano"])
        check(inside, f"{below['name']} lies within {above['name']}")
    check(len({span["spanId"] for span in spans}) == 5, "every span has an id of its own")
    kinds = [span["kind"] for span in (*chain, *reads)]
    check(kinds == [SERVER, INTERNAL, INTERNAL, CLIENT, CLIENT], f"kinds: {kinds}")
    for span in spans:
        about = attributes(span)
        name = span["name"].removeprefix("tools/call ")
        wanted = {"mcp.method.name": "tools/call", "gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": name}
        check(wanted.items() <= about.items(), f"attributes of {name}: {about}")
        check("error.type" not in about and span.get("status", {}).get("code", 0) != ERROR, f"{name} is no error")
        check(span["resource"].get("service.name") == "muster", f"the service: {span['resource']}")
        check(re.fullmatch(r"\d+\.\d+\.\d+\S*", span["resource"].get("service.version", "")), "its version")
        check(span["scope"]["name"] == "muster", f"the scope: {span['scope']}")
    # The protocol requests that carried the calls: the client's, and those to the server.
    http = {"network.transport": "tcp", "network.protocol.name": "http", "network.protocol.version": "1.1"}
    about = attributes(chain[0])
    wanted = {**http, "jsonrpc.request.id": "1", "mcp.protocol.version": MODERN}
    check(wanted.items() <= about.items(), f"the request of the client: {about}")
    for read in reads:
        about = attributes(read)
        wanted = {**http, "mcp.protocol.version": LEGACY, "server.address": "127.0.0.1", "server.port": str(Backend.port)}
        check(wanted.items() <= about.items(), f"the request to the server: {about}")
    ids = [attributes(read).get("jsonrpc.request.id") for read in reads]
    expected = [str(Backend.ids.get(timeout=SPAN_SECONDS)) for _ in reads]
    check(sorted(ids, key=str) == sorted(expected), f"the ids of the requests to the server: {ids}, it got {expected}")
    check(not any("network.transport" in attributes(inner) for inner in chain[1:]), "workflows are no protocol requests")
    about = attributes(reads[0])
    check(about.get("muster.server") == "backend" and about.get("gen_ai.tool.type") == "function", f"{about}")
    # The backend continues the trace below the span of its own call.
    metas = [told("read"), told("read")]
    expected = {f"00-{trace}-{read['spanId']}-01" for read in reads}
    check({meta.get("traceparent") for meta in metas} == expected, f"the backend's contexts: {metas}, spans {expected}")
    return trace, reads


def logged(lines, trace, tool):
    """The line of a call in the log."""
    while True:
        try:
            line = json.loads(lines.get(timeout=SPAN_SECONDS))
        except queue.Empty:
            raise SystemExit(f"no line of the log is about {tool} in the trace {trace}") from None
        if line.get("trace_id") == trace and line.get("tool") == tool:
            return line


def failures_of(gate):
    """Errors of tools and of servers."""
    for tool, kind in [("fail", "tool_error"), ("refuse", "-32050")]:
        trace, _, parent = context()
        gate.call(f"x_backend_{tool}", meta={"traceparent": parent})
        for span in spans_of(trace, ["tools/call call_tool", f"tools/call x_backend_{tool}"]):
            about, status = attributes(span), span.get("status", {})
            check(status.get("code") == ERROR, f"the status of {span['name']}: {status}")
            if span["kind"] == CLIENT:
                check(about.get("error.type") == kind, f"the error of {tool}: {about}")
                has_text = "the backend refuses" in status.get("message", "")
                check(has_text == (tool == "refuse"), f"the text of the error of {tool}: {status}")
        told(tool)


def sampling(gate):
    """A client that does not record its trace decides for the gateway, and the backend gets to know."""
    trace, _, parent = context(sampled=False)
    gate.call("x_backend_read", meta={"traceparent": parent})
    meta = told("read")
    passed_on = re.fullmatch(rf"00-{trace}-([0-9a-f]{{16}})-00", meta.get("traceparent", ""))
    check(passed_on, f"a context that is not sampled is passed on as such: {meta}")
    # Spans are exported in their order: those of the next trace come after.
    sentinel, _, parent = context()
    gate.call("x_backend_read", headers={"traceparent": parent})
    found = []
    while len(found) < 2:
        span = Sink.spans.get(timeout=SPAN_SECONDS)
        check(span["traceId"] != trace, f"a span that is not sampled is not exported: {span['name']}")
        found += [span] if span["traceId"] == sentinel else []
    check(told("read").get("traceparent", "").startswith(f"00-{sentinel}-"), "the header of HTTP is the fallback")


def ratio(program, folder, backend, endpoint):
    """Without a context of the client, the gateway decides; the environment takes precedence over the settings."""
    lines = queue.Queue()
    env = {"OTEL_TRACES_SAMPLER_ARG": "0", "OTEL_SERVICE_NAME": "edge",
           "OTEL_RESOURCE_ATTRIBUTES": "deployment.environment.name=test,service.instance.id=one%2Ctwo"}
    with gateway(program, folder, backend, endpoint, lines, ", samplePercent: 100", env) as gate:
        gate.call("x_backend_read")
        own = told("read").get("traceparent", "")
        check(re.fullmatch(r"00-[0-9a-f]{32}-[0-9a-f]{16}-00", own), f"a trace of the gateway is not sampled: {own}")
        trace, _, parent = context()
        gate.call("x_backend_read", meta={"traceparent": parent})
        found = []
        while len(found) < 2:
            span = Sink.spans.get(timeout=SPAN_SECONDS)
            check(span["traceId"] == trace, f"nothing but the client's trace is exported: {span['name']}")
            found.append(span)
        told("read")
        wanted = {"service.name": "edge", "deployment.environment.name": "test", "service.instance.id": "one,two"}
        check(wanted.items() <= found[0]["resource"].items(), f"the resource: {found[0]['resource']}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("muster", type=pathlib.Path)
    program = parser.parse_args().muster.resolve()
    installed = subprocess.run([HERE / "install_collector.sh"], stdout=subprocess.PIPE, text=True)
    if installed.returncode:
        raise SystemExit("the OpenTelemetry Collector cannot be compiled here")
    folder = pathlib.Path(tempfile.mkdtemp(prefix="muster-traces-"))
    try:
        lines, log = queue.Queue(), queue.Queue()
        with served(Backend) as backend, served(Sink) as sink, \
                collector(installed.stdout.strip(), folder, sink, log) as match:
            endpoint = f"http://127.0.0.1:{match[1]}"
            Backend.port = backend
            with gateway(program, folder / "one", backend, endpoint, lines) as gate:
                trace, reads = nesting(gate)
                line = logged(lines, trace, "x_backend_read")
                check(line["span_id"] in {read["spanId"] for read in reads}, f"the span of a line of the log: {line}")
                failures_of(gate)
                sampling(gate)
            while not Sink.spans.empty():
                Sink.spans.get()
            ratio(program, folder / "two", backend, endpoint)
            refused = [line for line in log.queue if json.loads(line).get("level") in ("warn", "error")]
            check(not refused, f"the collector has nothing to complain about: {refused}")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(f"{passed} passed, {len(failures)} failed")
    raise SystemExit(1 if failures else 0)


if __name__ == "__main__":
    main()
