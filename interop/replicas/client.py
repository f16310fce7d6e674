"""MCP clients of both eras, with a connection for each request, so that each may land at another replica."""

import asyncio
import json
import uuid

LEGACY = "2025-11-25"
MODERN = "2026-07-28"
META = "io.modelcontextprotocol/"
LIMIT = 60


class Cut(Exception):
    """The connection ended before the response."""


class Wrong(Exception):
    """The gateway misbehaved."""


class Reply:
    """The response to an HTTP request, read as it arrives."""

    def __init__(self, reader, writer):
        self.reader, self.writer = reader, writer
        self.last_id = None

    async def open(self):
        status = await self.line()
        self.status = int(status.split()[1])
        self.headers = {}
        while text := await self.line():
            name, value = text.split(":", 1)
            self.headers[name.lower()] = value.strip()
        return self

    async def line(self):
        text = await self.reader.readline()
        if not text.endswith(b"\n"):
            raise Cut
        return text.strip().decode()

    async def chunks(self):
        try:
            if "content-length" in self.headers:
                yield await self.reader.readexactly(int(self.headers["content-length"]))
                return
            while size := int(await self.line() or "0", 16):
                yield await self.reader.readexactly(size)
                await self.line()
        except asyncio.IncompleteReadError:
            raise Cut from None

    async def messages(self):
        """The messages of the body. Raises `Cut` if it is not complete."""
        if self.headers.get("content-type", "").startswith("application/json"):
            yield json.loads(b"".join([chunk async for chunk in self.chunks()]))
            return
        text = ""
        async for chunk in self.chunks():
            text += chunk.decode()
            while "\n\n" in text:
                event, text = text.split("\n\n", 1)
                fields = [line.split(": ", 1) for line in event.split("\n") if ": " in line and line[0] != ":"]
                for name, value in fields:
                    if name == "id":
                        self.last_id = value
                data = "".join(value for name, value in fields if name == "data")
                if data:
                    yield json.loads(data)

    def close(self):
        self.writer.close()


def exposed(tool):
    """The name of a tool at the gateway."""
    if tool.startswith("workflow_"):
        return tool
    return f"x_{'counter' if tool.startswith('count') else 'effects'}_{tool}"


class Client:
    def __init__(self, port, token=None):
        self.token = token
        self.port, self.session, self.number = port, None, 0
        self.cancelled = set()

    def next_id(self):
        self.number += 1
        return self.number

    async def http(self, method, body=b"", headers=()):
        """Sends a request. Raises `Cut` if there is no response."""
        try:
            reader, writer = await asyncio.wait_for(
                asyncio.open_connection("127.0.0.1", self.port, limit=1 << 20), LIMIT
            )
        except OSError:
            raise Cut from None
        lines = [f"{method} /mcp HTTP/1.1", "Host: localhost", "Connection: close", f"Content-Length: {len(body)}"]
        lines += ["Accept: application/json, text/event-stream", "Content-Type: application/json", *headers]
        if self.token:
            lines.append(f"Authorization: Bearer {self.token}")
        try:
            writer.write("\r\n".join([*lines, "", ""]).encode() + body)
            await writer.drain()
            return await asyncio.wait_for(Reply(reader, writer).open(), LIMIT)
        except (OSError, TimeoutError) as error:
            writer.close()
            raise Cut from error
        except Cut:
            writer.close()
            raise


class Legacy(Client):
    """A client with a session."""

    def headers(self):
        return [f"Mcp-Session-Id: {self.session}", f"MCP-Protocol-Version: {LEGACY}"] if self.session else []

    async def post(self, message, extra=()):
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        return await self.http("POST", body, [*self.headers(), *extra])

    async def initialize(self):
        info = {"name": "replicas", "version": "1"}
        params = {"protocolVersion": LEGACY, "capabilities": {"elicitation": {}}, "clientInfo": info}
        reply = await self.post({"id": self.next_id(), "method": "initialize", "params": params})
        if reply.status != 200:
            reply.close()
            raise Wrong(f"initialize: status {reply.status}")
        async for message in reply.messages():
            if "result" not in message:
                raise Wrong(f"initialize: {message}")
            self.session = reply.headers["mcp-session-id"]
        reply.close()

    async def tell(self, message):
        """Sends a message without a response, again if it was cut: these can be repeated."""
        for _ in range(5):
            try:
                reply = await self.post(message)
                reply.close()
                if reply.status == 202:
                    return
                if reply.status != 503:
                    raise Wrong(f"{message}: status {reply.status}")
                await asyncio.sleep(float(reply.headers["retry-after"]))
            except Cut:
                await asyncio.sleep(0.1)
        raise Wrong(f"{message}: not accepted five times")

    async def request(self, method, params, on_message=None, number=None):
        """The response to a request. If the stream is cut after an event, it is resumed."""
        number = number or self.next_id()
        reply = await self.post({"id": number, "method": method, "params": params})
        for _ in range(20):
            if reply.status != 503:
                break
            # Not carried out: the session could not be looked up in time.
            reply.close()
            await asyncio.sleep(float(reply.headers["retry-after"]))
            reply = await self.post({"id": number, "method": method, "params": params})
        if reply.status != 200:
            reply.close()
            raise Wrong(f"{method}: status {reply.status}: the session does not go on")
        resumed = 0
        while True:
            last = None
            try:
                async for message in reply.messages():
                    if message.get("id") == number and "method" not in message:
                        message["resumed"] = resumed
                        return message
                    if on_message:
                        await on_message(message)
            except (Cut, OSError):
                pass
            finally:
                last = reply.last_id or last
                reply.close()
            # A cancelled request has no response.
            if last is None or number in self.cancelled:
                raise Cut
            resumed += 1
            if resumed > 50:
                raise Wrong(f"{method}: resumed fifty times")
            reply = await self.resume(last)

    async def resume(self, last):
        for _ in range(100):
            try:
                reply = await self.http("GET", headers=[*self.headers(), f"Last-Event-ID: {last}"])
            except Cut:
                await asyncio.sleep(0.1)
                continue
            if reply.status != 200:
                reply.close()
                raise Wrong(f"a stream is not resumed: status {reply.status}")
            reply.last_id = last
            return reply
        raise Wrong("a stream cannot be resumed")

    async def call(self, tool, arguments, **options):
        params = {"name": "call_tool", "arguments": {"name": exposed(tool), "arguments": arguments}}
        if tool.endswith("slow"):
            params["_meta"] = {"progressToken": uuid.uuid4().hex}
        return await self.request("tools/call", params, **options)

    async def answer(self, message):
        """Answers a request of the server."""
        if message.get("method") == "elicitation/create":
            content = {"sure": message["params"]["message"]}
            await self.tell({"id": message["id"], "result": {"action": "accept", "content": content}})


class Modern(Client):
    """A client without a session."""

    async def call(self, tool, arguments, extra=None):
        params = {"name": "call_tool", "arguments": {"name": exposed(tool), "arguments": arguments}}
        meta = {
            "protocolVersion": MODERN,
            "clientCapabilities": {"elicitation": {}},
            "clientInfo": {"name": "replicas", "version": "1"},
        }
        params |= {"_meta": {META + key: value for key, value in meta.items()}, **(extra or {})}
        number = self.next_id()
        body = {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}
        headers = [f"MCP-Protocol-Version: {MODERN}", "Mcp-Method: tools/call", "Mcp-Name: call_tool"]
        reply = await self.http("POST", json.dumps(body).encode(), headers)
        # An error of the protocol, which the caller judges, has status 400.
        if reply.status not in (200, 400):
            reply.close()
            raise Wrong(f"{tool}: status {reply.status}")
        try:
            async for message in reply.messages():
                if message.get("id") == number:
                    return message
        except OSError:
            pass
        finally:
            reply.close()
        raise Cut
