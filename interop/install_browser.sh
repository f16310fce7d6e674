#!/bin/sh
# Installs what interop/console/check.mjs needs: Chromium, and the packages that drive it.
#
#   install_browser.sh        into $MUSTER_CONSOLE_DIR (default: target/console of this repository)
#
# Does nothing when what package.json pins is already there.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
dir=${MUSTER_CONSOLE_DIR:-$here/../target/console}
pins=$(sha256sum <"$here/console/package.json" | cut -d' ' -f1)

if ! command -v chromium >/dev/null; then
    echo "installing chromium" >&2
    as_root=
    [ "$(id -u)" -eq 0 ] || as_root=sudo
    export DEBIAN_FRONTEND=noninteractive
    $as_root apt-get update -qq >&2
    $as_root apt-get install -y -qq --no-install-recommends chromium fonts-dejavu-core >&2
fi

if [ "$(cat "$dir/installed" 2>/dev/null)" = "$pins" ]; then
    exit 0
fi
echo "installing what drives the browser into $dir" >&2
rm -rf "$dir"
mkdir -p "$dir"
cp "$here/console/package.json" "$dir/"
(cd "$dir" && npm install --no-package-lock --no-audit --no-fund --ignore-scripts --loglevel=error >&2)
# Written last: a broken installation is never taken for a finished one.
echo "$pins" >"$dir/installed"
