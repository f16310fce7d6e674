"""A legacy MCP server on standard streams that counts its calls, and records what it really does.

    counter.py LOG STARTS LOCK

Each effect has an id that its caller chose, and is one line of LOG, written before the call is answered. Each start is one line
of STARTS: `alone`, or `beside another` if a process before it still has LOCK.
"""

import fcntl
import json
import queue
import sys
import threading
import uuid

TOOLS = ("count", "count_slow", "count_ask", "count_long")


class Counter:
    def __init__(self, log):
        self.log = open(log, "ab", buffering=0)
        self.lock, self.count = threading.Lock(), 0
        self.answers, self.cancelled = {}, {}

    def send(self, message):
        with self.lock:
            print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)

    def effect(self, name):
        with self.lock:
            self.count += 1
            self.log.write(f"{name}\n".encode())
            return self.count

    def serve(self, message):
        if "method" not in message:
            waiting = self.answers.get(message["id"])
            if waiting:
                waiting.put(message.get("result"))
            return
        if "id" not in message:
            if message["method"] == "notifications/cancelled":
                self.cancelled.setdefault(message["params"]["requestId"], threading.Event()).set()
            return
        if message["method"] == "tools/call":
            threading.Thread(target=self.call, args=(message,), daemon=True).start()
            return
        self.send({"id": message["id"], "result": self.about(message)})

    def about(self, message):
        match message["method"]:
            case "initialize":
                info = {"name": "counter", "version": "1"}
                version = message["params"]["protocolVersion"]
                return {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}
            case "tools/list":
                return {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in TOOLS]}
        return {}

    def call(self, message):
        tool, arguments = message["params"]["name"], message["params"]["arguments"]
        effect = arguments["effect"]
        is_done = {"count_slow": self.slow, "count_ask": self.ask}.get(tool, lambda _: True)(message)
        text = f"did {effect}: {self.effect(effect)}" if is_done else f"{effect} is not done"
        if tool == "count_long":
            text += "x" * int(arguments["length"])
        result = {"content": [{"type": "text", "text": text}], "isError": not is_done}
        self.send({"id": message["id"], "result": result})

    def slow(self, message):
        """Reports progress, and is done unless it is cancelled."""
        arguments, token = message["params"]["arguments"], message["params"].get("_meta", {}).get("progressToken")
        cancelled = self.cancelled.setdefault(message["id"], threading.Event())
        for step in range(int(arguments["steps"])):
            if token is not None:
                params = {"progressToken": token, "progress": step}
                self.send({"method": "notifications/progress", "params": params})
            if cancelled.wait(float(arguments["pause"])):
                return False
        return True

    def ask(self, message):
        """Is done if the user says so."""
        name, effect = f"ask-{uuid.uuid4().hex}", message["params"]["arguments"]["effect"]
        waiting = self.answers[name] = queue.Queue()
        schema = {"type": "object", "properties": {"sure": {"type": "string"}}}
        params = {"message": effect, "requestedSchema": schema}
        self.send({"id": name, "method": "elicitation/create", "params": params})
        try:
            answer = waiting.get(timeout=60)
        except queue.Empty:
            return False
        finally:
            del self.answers[name]
        return bool(answer) and answer.get("content", {}).get("sure") == effect


def main(log, starts, lock):
    # Held until the process ends, however it ends.
    with open(lock, "wb") as held, open(starts, "ab", buffering=0) as noted:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            noted.write(b"alone\n")
        except BlockingIOError:
            noted.write(b"beside another\n")
        print("the counter starts", file=sys.stderr, flush=True)
        counter = Counter(log)
        for line in sys.stdin:
            counter.serve(json.loads(line))


if __name__ == "__main__":
    main(*sys.argv[1:])
