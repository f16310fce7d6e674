#!/usr/bin/env python3
"""An MCP server that the official conformance suite accepts completely, in both protocol eras.

    fixture.py --http PORT [--port-file PATH] [--legacy-only | --separate-eras]
    fixture.py --stdio [--legacy-only | --separate-eras]

Needs nothing but Python 3.11. Ends on SIGTERM, and with --stdio at the end of its input.
"""

import argparse
import sys

# No byte code next to the sources: the folder stays as it was checked out.
sys.dont_write_bytecode = True

from fixture import http_transport, stdio_transport  # noqa: E402
from fixture.server import Server  # noqa: E402


def main():
    parser = argparse.ArgumentParser(description="MCP server for conformance tests")
    transport = parser.add_mutually_exclusive_group(required=True)
    transport.add_argument("--http", type=int, metavar="PORT", help="serve http://127.0.0.1:PORT/mcp; 0 picks a port")
    transport.add_argument("--stdio", action="store_true", help="serve standard input and output")
    parser.add_argument("--port-file", metavar="PATH", help="write the port here once requests are accepted; - is standard output")
    eras = parser.add_mutually_exclusive_group()
    eras.add_argument("--legacy-only", action="store_true", help="know nothing newer than 2025-11-25")
    eras.add_argument(
        "--separate-eras",
        action="store_true",
        help="requests to the client and resources/subscribe in legacy sessions only, as the suite's reference server",
    )
    args = parser.parse_args()
    if args.port_file and args.stdio:
        parser.error("--port-file goes with --http")
    server = Server(args.legacy_only, args.separate_eras)
    if args.stdio:
        stdio_transport.run(server)
    else:
        http_transport.run(server, args.http, args.port_file)


if __name__ == "__main__":
    main()
