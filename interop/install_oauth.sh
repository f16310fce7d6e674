#!/bin/sh
# Installs the OpenID provider that oauth.py logs in with, as oauth/package.json pins it.
#
#   install_oauth.sh      into $MUSTER_INTEROP_OAUTH_DIR (default: target/interop-oauth of this repository)
set -eu

here=$(cd "$(dirname "$0")" && pwd)
exec "$here/install_pinned.sh" "the OpenID provider" "$here/oauth" \
    "${MUSTER_INTEROP_OAUTH_DIR:-$here/../target/interop-oauth}"
