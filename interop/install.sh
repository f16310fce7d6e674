#!/bin/sh
# Installs the independent MCP clients that check.py drives.
#
#   install.sh        into $MUSTER_INTEROP_DIR (default: target/interop of this repository)
#
# Does nothing when what package.json and requirements.txt pin is already there.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
dir=${MUSTER_INTEROP_DIR:-$here/../target/interop}
pins=$(cat "$here/package.json" "$here/requirements.txt" | sha256sum | cut -d' ' -f1)

mkdir -p "$dir"
dir=$(cd "$dir" && pwd)
if [ "$(cat "$dir/installed" 2>/dev/null)" = "$pins" ]; then
    exit 0
fi

echo "installing MCP clients into $dir" >&2
rm -rf "$dir/installed" "$dir/node" "$dir/python"

# The Inspector wants a newer Node than many machines have, so Node itself is one of the pins.
# Install scripts stay off: none of these packages needs one, and they run foreign code.
mkdir "$dir/node"
cp "$here/package.json" "$dir/node/"
(cd "$dir/node" && npm install --no-package-lock --no-audit --no-fund --ignore-scripts --loglevel=error >&2)

python3 -m venv "$dir/python"
"$dir/python/bin/pip" install --quiet --disable-pip-version-check -r "$here/requirements.txt" >&2

# Written last: a broken installation is never taken for a finished one.
echo "$pins" >"$dir/installed"
