#!/bin/sh
# Installs the official MCP conformance suite and the Node it needs.
#
#   install.sh        into $MUSTER_CONFORMANCE_DIR (default: target/conformance of this repository)
#
# Does nothing when what package.json pins is already there.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
dir=${MUSTER_CONFORMANCE_DIR:-$here/../target/conformance}
pins=$(sha256sum <"$here/package.json" | cut -d' ' -f1)

mkdir -p "$dir"
dir=$(cd "$dir" && pwd)
if [ "$(cat "$dir/installed" 2>/dev/null)" = "$pins" ]; then
    exit 0
fi

echo "installing the MCP conformance suite into $dir" >&2
rm -rf "$dir/installed" "$dir/node"

# Install scripts stay off: none of these packages needs one, and they run foreign code.
mkdir "$dir/node"
cp "$here/package.json" "$dir/node/"
(cd "$dir/node" && npm install --no-package-lock --no-audit --no-fund --ignore-scripts --loglevel=error >&2)

# Written last: a broken installation is never taken for a finished one.
echo "$pins" >"$dir/installed"
