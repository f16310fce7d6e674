#!/bin/sh
# Installs the OpenID provider that oauth.py logs in with.
#
#   install_oauth.sh      into $MUSTER_INTEROP_OAUTH_DIR (default: target/interop-oauth of this repository)
#
# Does nothing when what oauth/package.json pins is already there.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
dir=${MUSTER_INTEROP_OAUTH_DIR:-$here/../target/interop-oauth}
pins=$(sha256sum <"$here/oauth/package.json" | cut -d' ' -f1)

mkdir -p "$dir"
dir=$(cd "$dir" && pwd)
if [ "$(cat "$dir/installed" 2>/dev/null)" = "$pins" ]; then
    exit 0
fi

echo "installing the OpenID provider into $dir" >&2
rm -rf "$dir/installed" "$dir/node"

# Install scripts stay off: none of these packages needs one, and they run foreign code.
mkdir "$dir/node"
cp "$here/oauth/package.json" "$dir/node/"
(cd "$dir/node" && npm install --no-package-lock --no-audit --no-fund --ignore-scripts --loglevel=error >&2)

# Written last: a broken installation is never taken for a finished one.
echo "$pins" >"$dir/installed"
