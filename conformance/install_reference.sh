#!/bin/sh
# Builds the conformance server of the Go SDK, which mirrors the suite's own reference server.
#
#   install_reference.sh        into $MUSTER_CONFORMANCE_DIR (default: target/conformance of this repository)
#
# Needs Go. Prints the path of the program. Does nothing when this version is already there.
set -eu

version=v1.8.0
here=$(cd "$(dirname "$0")" && pwd)
dir=${MUSTER_CONFORMANCE_DIR:-$here/../target/conformance}/reference-$version

mkdir -p "$dir"
dir=$(cd "$dir" && pwd)
if [ ! -x "$dir/everything-server" ]; then
    echo "building the conformance server of the Go SDK $version into $dir" >&2
    GOFLAGS=-mod=mod GOBIN="$dir" go install "github.com/modelcontextprotocol/go-sdk/conformance/everything-server@$version" >&2
fi
echo "$dir/everything-server"
