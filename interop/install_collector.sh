#!/bin/sh
# Installs the OpenTelemetry Collector, with the two components that interop/traces.py needs.
#
#   install_collector.sh      into $MUSTER_COLLECTOR_DIR (default: ~/.cache/muster-test/collector-VERSION)
#
# It is compiled from its Go modules (collector/main.go), once, in about two minutes of CPU time. Prints the path of the
# program. Does nothing when this version is already there. Two calls at a time wait for each other.
set -eu

# Modules of the collector that are stable have versions of their own.
version=0.162.0
stable=1.68.0
here=$(cd "$(dirname "$0")" && pwd)
pins="collector $version $stable $(sha256sum <"$here/collector/main.go" | cut -d' ' -f1)"

cache=${XDG_CACHE_HOME:-$HOME/.cache}/muster-test
dir=${MUSTER_COLLECTOR_DIR:-$cache/collector-$version}

mkdir -p "$dir"
dir=$(cd "$dir" && pwd)
exec 9>"$dir/lock"
flock 9
if [ "$(cat "$dir/installed" 2>/dev/null)" = "$pins" ]; then
    echo "$dir/collector"
    exit 0
fi
command -v go >/dev/null || { echo "go is needed to compile the OpenTelemetry Collector" >&2; exit 1; }
rm -rf "$dir/installed" "$dir/collector" "$dir/source"
mkdir "$dir/source"
cp "$here/collector/main.go" "$dir/source/"
cd "$dir/source"
module=go.opentelemetry.io/collector
# Every module that main.go imports from is here: a version that is left out would be the newest.
cat >go.mod <<END
module collector
go 1.25.0
require (
	$module/component v$stable
	$module/confmap v$stable
	$module/confmap/provider/yamlprovider v$stable
	$module/exporter v$stable
	$module/exporter/otlphttpexporter v$version
	$module/otelcol v$version
	$module/receiver v$stable
	$module/receiver/otlpreceiver v$version
	$module/service v$version
)
END
export GOWORK=off GOFLAGS="-mod=mod -buildvcs=false -p=2" CGO_ENABLED=0
echo "compiling the OpenTelemetry Collector $version into $dir (about two minutes of CPU time)" >&2
nice -n 10 go build -trimpath -ldflags "-s -w" -o "$dir/collector" . >&2
cd "$dir"
rm -rf "$dir/source"

# Written last: a broken installation is never taken for a finished one.
echo "$pins" >"$dir/installed"
echo "$dir/collector"
