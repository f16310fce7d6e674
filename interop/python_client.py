"""Drives an MCP server with the Python SDK's own client; see README.md for the output.

    python_client.py legacy|modern|auto [--capable] [--calls JSON] -- SERVER_COMMAND...|URL
"""

import argparse
import json
import sys
import time

import anyio
from mcp import Client, StdioServerParameters
from mcp.shared.exceptions import MCPError
from mcp.types import INVALID_REQUEST, ErrorData

# Pinned, the client sends its first request without asking `server/discover`; `auto` asks first.
MODES = {"legacy": "legacy", "modern": "2026-07-28", "auto": "auto"}

# The current stage, for error messages.
stage = "connect"


def enter(name):
    global stage
    stage = name


async def call(client, name, arguments):
    try:
        result = await client.call_tool(name, arguments)
    except MCPError as e:
        return {"error": {"code": e.code, "message": e.message}}
    return {
        "isError": bool(result.is_error),
        "text": "\n".join(block.text for block in result.content if block.type == "text"),
        "content": [block.model_dump(by_alias=True, mode="json", exclude_none=True) for block in result.content],
        "structuredContent": result.structured_content,
    }


async def list_all_tools(client):
    tools, cursor = [], None
    while True:
        page = await client.list_tools(cursor=cursor)
        tools += page.tools
        cursor = page.next_cursor
        if cursor is None:
            return tools


async def server_info(client, version, era):
    if era == "modern":
        # A pinned client has no server info.
        discovered = await client.session.send_discover(version)
        return discovered.get("_meta", {}).get("io.modelcontextprotocol/serverInfo")
    info = client.server_info
    return info and info.model_dump(by_alias=True, mode="json", exclude_none=True)


async def refuse(*_):
    return ErrorData(code=INVALID_REQUEST, message="nobody is here to answer")


# Handlers declare the capabilities, on which some servers base their tool list.
CALLBACKS = {"sampling_callback": refuse, "elicitation_callback": refuse, "list_roots_callback": refuse}


def target(command):
    if command[0].startswith(("http://", "https://")):
        return command[0]
    return StdioServerParameters(command=command[0], args=command[1:])


async def drive(era, capable, calls, command):
    callbacks = CALLBACKS if capable else {}
    async with Client(target(command), mode=MODES[era], read_timeout_seconds=20, **callbacks) as client:
        version = client.protocol_version
        enter("tools/list")
        tools = await list_all_tools(client)
        results = []
        for c in calls:
            enter(f"tools/call {json.dumps(c)}")
            results.append(await call(client, c["name"], c.get("arguments") or {}))
        enter("server/discover")
        info = await server_info(client, version, era)
        enter("close")
        closing = time.monotonic()
    return {
        "client": "python",
        "era": era,
        "protocolVersion": version,
        "serverInfo": info,
        "tools": [tool.name for tool in tools],
        "inputSchemas": {tool.name: tool.input_schema for tool in tools},
        "results": results,
        "closeSeconds": round(time.monotonic() - closing, 3),
    }


def reason(error):
    """The innermost causes: task groups wrap them."""
    if isinstance(error, BaseExceptionGroup):
        return "; ".join(reason(e) for e in error.exceptions)
    return f"{type(error).__name__}: {error}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("era", choices=MODES)
    parser.add_argument("--capable", action="store_true", help="declare sampling, elicitation and roots")
    parser.add_argument("--calls", type=json.loads, default=[])
    parser.add_argument("command", nargs="+")
    args = parser.parse_args()
    try:
        document = anyio.run(drive, args.era, args.capable, args.calls, args.command)
    except Exception as e:
        sys.exit(f"python {args.era}: {stage}: {reason(e)}")
    print(json.dumps(document))


if __name__ == "__main__":
    main()
