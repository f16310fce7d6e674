"""A legacy MCP server over HTTP that records what it really does.

    backend.py PORT LOG

Each effect has an id that its caller chose, and is one line of LOG, written before the call is answered.
"""

import http.server
import json
import queue
import socketserver
import sys
import threading
import time
import uuid

TOOLS = ("act", "slow", "ask", "long")


class World:
    def __init__(self, log):
        self.log = open(log, "ab", buffering=0)
        self.answers, self.cancelled = {}, {}
        self.lock = threading.Lock()

    def effect(self, name):
        with self.lock:
            self.log.write(f"{name}\n".encode())


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def reply(self, status, body=b"", headers=()):
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        self.reply(405)

    do_DELETE = do_GET

    def do_POST(self):
        message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        session = self.headers.get("Mcp-Session-Id") or uuid.uuid4().hex
        world = self.server.world
        if "method" not in message:
            waiting = world.answers.get((session, message["id"]))
            if waiting:
                waiting.put(message.get("result"))
            return self.reply(202)
        if "id" not in message:
            if message["method"] == "notifications/cancelled":
                event = world.cancelled.get((session, message["params"]["requestId"]))
                if event:
                    event.set()
            return self.reply(202)
        if message["method"] == "tools/call":
            return self.call(world, session, message)
        self.json(session, message, self.about(message))

    def about(self, message):
        match message["method"]:
            case "initialize":
                info = {"name": "effects", "version": "1"}
                version = message["params"]["protocolVersion"]
                return {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}
            case "tools/list":
                return {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in TOOLS]}
        return {}

    def json(self, session, message, result):
        body = json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}).encode()
        self.reply(200, body, [("Content-Type", "application/json"), ("Mcp-Session-Id", session)])

    def event(self, message):
        data = f"event: message\ndata: {json.dumps({'jsonrpc': '2.0', **message})}\n\n".encode()
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()

    def call(self, world, session, message):
        params = message["params"]
        tool, arguments = params["name"], params["arguments"]
        effect = arguments["effect"]
        result = {"content": [{"type": "text", "text": f"did {effect}"}]}
        if tool == "long":
            result["content"][0]["text"] = "\n".join(f"line {number}" for number in range(10_000))
            return self.json(session, message, result)
        if tool == "act":
            world.effect(effect)
            return self.json(session, message, result)
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        is_done = self.slow(world, session, message) if tool == "slow" else self.ask(world, session, effect)
        if is_done:
            world.effect(effect)
        result["isError"] = not is_done
        self.event({"id": message["id"], "result": result})
        self.wfile.write(b"0\r\n\r\n")

    def slow(self, world, session, message):
        """Reports progress, and is done unless it is cancelled."""
        arguments, token = message["params"]["arguments"], message["params"].get("_meta", {}).get("progressToken")
        cancelled = world.cancelled.setdefault((session, message["id"]), threading.Event())
        for step in range(int(arguments["steps"])):
            if token is not None:
                params = {"progressToken": token, "progress": step}
                self.event({"method": "notifications/progress", "params": params})
            if cancelled.wait(float(arguments["pause"])):
                return False
        world.cancelled.pop((session, message["id"]), None)
        return True

    def ask(self, world, session, effect):
        """Is done if the user says so."""
        name = f"ask-{uuid.uuid4().hex}"
        waiting = world.answers[session, name] = queue.Queue()
        schema = {"type": "object", "properties": {"sure": {"type": "string"}}}
        self.event({"id": name, "method": "elicitation/create", "params": {"message": effect, "requestedSchema": schema}})
        try:
            answer = waiting.get(timeout=60)
        except queue.Empty:
            return False
        finally:
            del world.answers[session, name]
        return bool(answer) and answer.get("content", {}).get("sure") == effect


class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True
    request_queue_size = 1024

    def handle_error(self, *_):
        # A replica that was killed.
        pass


if __name__ == "__main__":
    server = Server(("127.0.0.1", int(sys.argv[1])), Handler)
    server.world = World(sys.argv[2])
    threading.Thread(target=server.serve_forever, daemon=True).start()
    while True:
        time.sleep(3600)
