#!/bin/sh
# Installs pinned packages of Node, and of Python if there are any, into a folder of their own.
#
#   install_pinned.sh NAME PINS DIR
#
# The folder PINS holds package.json, and requirements.txt if Python packages are needed. Does nothing when what they
# pin is already in DIR.
set -eu

name=$1
pins=$2
mkdir -p "$3"
dir=$(cd "$3" && pwd)
requirements=
[ ! -f "$pins/requirements.txt" ] || requirements=$pins/requirements.txt
wanted=$(cat "$pins/package.json" ${requirements:+"$requirements"} | sha256sum | cut -d' ' -f1)
if [ "$(cat "$dir/installed" 2>/dev/null)" = "$wanted" ]; then
    exit 0
fi

echo "installing $name into $dir" >&2
rm -rf "$dir/installed" "$dir/node" "$dir/python"

# Install scripts stay off: none of these packages needs one, and they run foreign code.
mkdir "$dir/node"
cp "$pins/package.json" "$dir/node/"
(cd "$dir/node" && npm install --no-package-lock --no-audit --no-fund --ignore-scripts --loglevel=error >&2)

if [ -n "$requirements" ]; then
    python3 -m venv "$dir/python"
    "$dir/python/bin/pip" install --quiet --disable-pip-version-check -r "$requirements" >&2
fi

# Written last: a broken installation is never taken for a finished one.
echo "$wanted" >"$dir/installed"
