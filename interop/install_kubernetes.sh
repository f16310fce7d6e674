#!/bin/sh
# Installs a real Kubernetes API server, and the etcd that it stores its objects in.
#
#   install_kubernetes.sh     into $MUSTER_KUBERNETES_DIR (default: ~/.cache/muster-test/kubernetes-VERSION)
#
# No package ships the API server, so it is compiled from its Go module: once, in about six minutes of CPU time. Does
# nothing when both programs of these versions are already there. Two calls at a time wait for each other.
set -eu

# Both are pinned: what a test sees must not change because a newer version came out.
kubernetes=1.36.3
etcd=3.4
# Modules of k8s.io/kubernetes v1.N.P are published as k8s.io/api v0.N.P and so on.
modules="v0.${kubernetes#1.}"

cache=${XDG_CACHE_HOME:-$HOME/.cache}/muster-test
dir=${MUSTER_KUBERNETES_DIR:-$cache/kubernetes-$kubernetes}
pins="kubernetes $kubernetes etcd $etcd"

mkdir -p "$dir"
dir=$(cd "$dir" && pwd)
exec 9>"$dir/lock"
flock 9
if [ "$(cat "$dir/installed" 2>/dev/null)" = "$pins" ]; then
    exit 0
fi
command -v openssl >/dev/null || { echo "openssl is needed, for the keys of service accounts" >&2; exit 1; }
command -v go >/dev/null || { echo "go is needed to compile the Kubernetes API server" >&2; exit 1; }
rm -rf "$dir/installed" "$dir/bin" "$dir/source" "$dir/etcd"
mkdir "$dir/bin" "$dir/etcd"

# Unpacked, not installed: the package would start a service of its own.
echo "unpacking etcd-server into $dir" >&2
download() { (cd "$dir/etcd" && apt-get download -qq "etcd-server=$etcd.*" >&2); }
if ! download; then
    as_root=
    [ "$(id -u)" -eq 0 ] || as_root=sudo
    $as_root apt-get update -qq >&2
    download
fi
dpkg-deb --extract "$dir"/etcd/etcd-server_*.deb "$dir/etcd"
mv "$dir/etcd/usr/bin/etcd" "$dir/bin/"
rm -rf "$dir/etcd"

echo "compiling kube-apiserver $kubernetes into $dir (about six minutes of CPU time)" >&2
export GOWORK=off GOFLAGS="-mod=mod -buildvcs=false -p=2" CGO_ENABLED=0
module=$(cd "$dir" && GOFLAGS=-mod=mod go mod download -json "k8s.io/kubernetes@v$kubernetes" |
    python3 -c 'import json, sys; print(json.load(sys.stdin)["Dir"])')
cp -r "$module" "$dir/source"
chmod -R u+w "$dir/source"
cd "$dir/source"
rm -rf go.work go.work.sum vendor
# In its own repository the module takes its siblings from ./staging, which is not in the module.
python3 - "$modules" <<'END'
import pathlib, re, sys
file = pathlib.Path("go.mod")
text = re.sub(r"(?ms)^replace \(.*?^\)\n", "", file.read_text())
text = re.sub(r"(?m)^replace .*=> \./staging.*\n", "", text)
file.write_text(re.sub(r"(?m)^(\s*(?:require )?k8s\.io/\S+) v0\.0\.0(?=\s)", rf"\1 {sys.argv[1]}", text))
END
version=k8s.io/component-base/version
# Without a version the server calls itself v0.0.0 and refuses to emulate any other.
nice -n 10 go build -trimpath -o "$dir/bin/kube-apiserver" \
    -ldflags "-s -w -X $version.gitVersion=v$kubernetes -X $version.gitMajor=1 -X $version.gitMinor=$(echo "$kubernetes" | cut -d. -f2)" \
    ./cmd/kube-apiserver
cd "$dir"
rm -rf "$dir/source"

# Written last: a broken installation is never taken for a finished one.
echo "$pins" >"$dir/installed"
