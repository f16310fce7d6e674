#!/usr/bin/env python3
"""A stdio MCP server that only lists the tools of a recorded `tools/list` response.

    replay.py FILE.json
"""

import json
import sys


def answer(method, params, tools):
    if method == "initialize":
        return {
            "protocolVersion": params.get("protocolVersion", "2025-06-18"),
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "replay", "version": "1"},
        }
    if method == "tools/list":
        return {"tools": tools}
    return {} if method == "ping" else None


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        tools = json.load(file)["result"]["tools"]
    for line in sys.stdin:
        message = json.loads(line)
        if "id" not in message or "method" not in message:
            continue
        reply = {"jsonrpc": "2.0", "id": message["id"]}
        result = answer(message["method"], message.get("params") or {}, tools)
        if result is None:
            reply["error"] = {"code": -32601, "message": "Method not found"}
        else:
            reply["result"] = result
        print(json.dumps(reply), flush=True)


if __name__ == "__main__":
    main()
