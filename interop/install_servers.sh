#!/bin/sh
# Installs the real MCP servers that real.py puts behind the gateway.
#
#   install_servers.sh    into $MUSTER_INTEROP_SERVERS_DIR (default: target/interop-servers of this repository)
#
# Does nothing when what servers/package.json and servers/requirements.txt pin is already there.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
dir=${MUSTER_INTEROP_SERVERS_DIR:-$here/../target/interop-servers}
pins=$(cat "$here/servers/package.json" "$here/servers/requirements.txt" | sha256sum | cut -d' ' -f1)

mkdir -p "$dir"
dir=$(cd "$dir" && pwd)
if [ "$(cat "$dir/installed" 2>/dev/null)" = "$pins" ]; then
    exit 0
fi

echo "installing MCP servers into $dir" >&2
rm -rf "$dir/installed" "$dir/node" "$dir/python"

# Install scripts stay off: none of these packages needs one, and they run foreign code.
mkdir "$dir/node"
cp "$here/servers/package.json" "$dir/node/"
(cd "$dir/node" && npm install --no-package-lock --no-audit --no-fund --ignore-scripts --loglevel=error >&2)

# A venv of their own, so that a pin of the clients never decides what the servers run on.
python3 -m venv "$dir/python"
"$dir/python/bin/pip" install --quiet --disable-pip-version-check -r "$here/servers/requirements.txt" >&2

# Written last: a broken installation is never taken for a finished one.
echo "$pins" >"$dir/installed"
