#!/bin/sh
# Installs the programs that the unit tests, oauth.py and replicas.py need and that no language's packages bring: a Valkey or
# Redis, and openssl. Does nothing where they are already there.
set -eu

missing=
command -v openssl >/dev/null || missing="$missing openssl"
command -v valkey-server >/dev/null || command -v redis-server >/dev/null || missing="$missing redis-server"
[ -n "$missing" ] || exit 0

echo "installing$missing" >&2
as_root=
[ "$(id -u)" -eq 0 ] || as_root=sudo
export DEBIAN_FRONTEND=noninteractive
$as_root apt-get update -qq >&2
# shellcheck disable=SC2086
$as_root apt-get install -y -qq --no-install-recommends $missing >&2
