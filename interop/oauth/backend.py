"""A server that wants a login of each user, and its issuer. What it gave can be made to end at once."""

import json
import secrets
import threading
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Backend:
    """The server at `url`. Refresh tokens are good for one use; until the new one is used, the old one may be
    shown once more, as issuers allow because answers get lost on the way."""

    def __init__(self):
        self.lock = threading.Lock()
        self.codes, self.access, self.refresh, self.before = set(), set(), None, None
        self.renewals, self.refused, self.secrets = 0, 0, set()
        backend = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def do_GET(self):
                backend.get(self)

            def do_POST(self):
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                backend.post(self, body.decode())

        class Server(ThreadingHTTPServer):
            def handle_error(self, *_):
                """A gateway was killed while it was spoken to."""

        self.server = Server(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.base = f"http://localhost:{self.server.server_port}"
        self.url = f"{self.base}/mcp"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def expire(self):
        """Takes no access token any more that it gave before."""
        with self.lock:
            self.access.clear()
            self.renewals = 0

    def get(self, handler):
        url = urllib.parse.urlsplit(handler.path)
        if url.path == "/authorize":
            asked = dict(urllib.parse.parse_qsl(url.query))
            code = secrets.token_urlsafe(16)
            self.codes.add(code)
            back = urllib.parse.urlencode({"code": code, "state": asked["state"]})
            return answer(handler, 302, None, {"Location": f"{asked['redirect_uri']}?{back}"})
        document = {
            "/.well-known/oauth-protected-resource/mcp": {
                "resource": self.url, "authorization_servers": [self.base]},
            "/.well-known/oauth-authorization-server": {
                "issuer": self.base, "authorization_endpoint": f"{self.base}/authorize",
                "token_endpoint": f"{self.base}/token", "registration_endpoint": f"{self.base}/register",
                "code_challenge_methods_supported": ["S256"]},
        }.get(url.path)
        return answer(handler, 200 if document else 404, document or {})

    def post(self, handler, body):
        if handler.path == "/register":
            return answer(handler, 201, {"client_id": "gateway"})
        if handler.path == "/token":
            return answer(handler, *self.token(dict(urllib.parse.parse_qsl(body))))
        token = (handler.headers.get("Authorization") or "").removeprefix("Bearer ")
        with self.lock:
            known = token in self.access
        if not known:
            challenge = f'Bearer resource_metadata="{self.base}/.well-known/oauth-protected-resource/mcp"'
            return answer(handler, 401, {}, {"WWW-Authenticate": challenge})
        return speak(handler, json.loads(body))

    def token(self, asked):
        with self.lock:
            if asked.get("grant_type") == "authorization_code":
                if asked["code"] not in self.codes:
                    return 400, {"error": "invalid_grant"}
                self.codes.discard(asked["code"])
                self.before = None
            else:
                shown = asked.get("refresh_token")
                if not shown or shown not in (self.refresh, self.before):
                    self.refused += 1
                    return 400, {"error": "invalid_grant"}
                self.before = shown
                self.renewals += 1
            access, self.refresh = secrets.token_urlsafe(24), secrets.token_urlsafe(24)
            self.access.add(access)
            self.secrets.update([access, self.refresh])
            return 200, {"access_token": access, "token_type": "Bearer", "expires_in": 3600,
                         "refresh_token": self.refresh}


def speak(handler, asked):
    if "id" not in asked:
        return answer(handler, 202, None)
    result = {
        "initialize": {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
                       "serverInfo": {"name": "backend", "version": "1"}},
        "tools/list": {"tools": [{"name": "open", "inputSchema": {"type": "object"}}]},
        "tools/call": {"content": [{"type": "text", "text": "opened"}]},
    }.get(asked["method"])
    said = {"result": result} if result else {"error": {"code": -32601, "message": "unknown"}}
    return answer(handler, 200, {"jsonrpc": "2.0", "id": asked["id"], **said})


def answer(handler, status, document, headers=None):
    body = b"" if document is None else json.dumps(document).encode()
    handler.send_response(status)
    for name, value in {"Content-Type": "application/json", "Content-Length": str(len(body)), **(headers or {})}.items():
        handler.send_header(name, value)
    handler.end_headers()
    handler.wfile.write(body)
