#!/bin/sh
# Installs the real MCP servers that real.py puts behind the gateway, as servers/ pins them. They have a folder of their
# own, so that a pin of the clients never decides what the servers run on.
#
#   install_servers.sh    into $MUSTER_INTEROP_SERVERS_DIR (default: target/interop-servers of this repository)
set -eu

here=$(cd "$(dirname "$0")" && pwd)
exec "$here/install_pinned.sh" "MCP servers" "$here/servers" \
    "${MUSTER_INTEROP_SERVERS_DIR:-$here/../target/interop-servers}"
