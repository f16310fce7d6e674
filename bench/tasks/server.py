#!/usr/bin/env python3
"""An MCP server on pipes that lists the tools of a file and answers each call with its recorded result.

    server.py TOOLS.json RECORDED.json
"""

import json
import sys


def answer(method, params, tools, results):
    if method == "initialize":
        return {
            "protocolVersion": params["protocolVersion"],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "recorded", "version": "1"},
        }
    if method == "tools/list":
        return {"tools": tools}
    if method == "tools/call":
        text = json.dumps(results.get(params["name"], {"ok": True}), ensure_ascii=False)
        return {"content": [{"type": "text", "text": text}]}
    return {}


def main():
    tools, recorded = (json.load(open(path, encoding="utf-8")) for path in sys.argv[1:3])
    for line in sys.stdin:
        message = json.loads(line)
        if "id" not in message or "method" not in message:
            continue
        result = answer(message["method"], message.get("params", {}), tools, recorded["results"])
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)


if __name__ == "__main__":
    main()
