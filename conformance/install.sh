#!/bin/sh
# Installs the official MCP conformance suite and the Node it needs, as package.json pins them.
#
#   install.sh        into $MUSTER_CONFORMANCE_DIR (default: target/conformance of this repository)
set -eu

here=$(cd "$(dirname "$0")" && pwd)
exec "$here/../interop/install_pinned.sh" "the MCP conformance suite" "$here" \
    "${MUSTER_CONFORMANCE_DIR:-$here/../target/conformance}"
