#!/bin/sh
# Installs the independent MCP clients that check.py drives, as package.json and requirements.txt pin them.
#
#   install.sh        into $MUSTER_INTEROP_DIR (default: target/interop of this repository)
#
# Node itself is one of the pins: the Inspector wants a newer one than many machines have.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
exec "$here/install_pinned.sh" "MCP clients" "$here" "${MUSTER_INTEROP_DIR:-$here/../target/interop}"
