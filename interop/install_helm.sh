#!/bin/sh
# Installs what checks of the Helm chart need: helm, helm-unittest, kubeconform, and the definitions of kinds that others
# define (crds/).
#
#   install_helm.sh       into $MUSTER_HELM_DIR (default: ~/.cache/muster-test/helm)
#
# They are compiled from their Go modules, once, in about four minutes of CPU time. Does nothing when these versions are
# already there. Two calls at a time wait for each other.
set -eu

pins="helm.sh/helm/v4@v4.3.1
github.com/helm-unittest/helm-unittest@v1.1.2
github.com/yannh/kubeconform@v0.8.0"
# Modules with a definition in them, and its path.
definitions="sigs.k8s.io/gateway-api@v1.6.3 config/crd/standard/gateway.networking.k8s.io_httproutes.yaml
github.com/envoyproxy/gateway@v1.9.1 charts/gateway-helm/charts/crds/crds/generated/gateway.envoyproxy.io_backendtrafficpolicies.yaml
github.com/cilium/cilium@v1.20.2 pkg/k8s/apis/cilium.io/client/crds/v2/ciliumnetworkpolicies.yaml
github.com/prometheus-operator/prometheus-operator@v0.85.0 example/prometheus-operator-crd/monitoring.coreos.com_servicemonitors.yaml"

cache=${XDG_CACHE_HOME:-$HOME/.cache}/muster-test
dir=${MUSTER_HELM_DIR:-$cache/helm}

mkdir -p "$dir"
dir=$(cd "$dir" && pwd)
exec 9>"$dir/lock"
flock 9
if [ "$(cat "$dir/installed" 2>/dev/null)" = "$pins $definitions" ]; then
    exit 0
fi
command -v go >/dev/null || { echo "go is needed to compile helm, helm-unittest and kubeconform" >&2; exit 1; }
rm -rf "$dir/installed" "$dir/bin" "$dir/crds" "$dir/source"

# The folder of a module, which is downloaded.
folder() {
    (cd "$dir" && go mod download -json "$1") | python3 -c 'import json, sys; print(json.load(sys.stdin)["Dir"])'
}

# A module is built in a copy of itself: `go install` refuses one whose go.mod replaces another.
export GOWORK=off GOFLAGS="-mod=mod -buildvcs=false -p=2" CGO_ENABLED=0
for pin in $pins; do
    cp -r "$(folder "$pin")" "$dir/source"
    chmod -R u+w "$dir/source"
    cd "$dir/source"
    program=${pin%@*}
    program=$(basename "${program%/v4}")
    echo "compiling $program ${pin#*@} into $dir" >&2
    nice -n 10 go build -trimpath -ldflags "-s -w" -o "$dir/bin/$program" "./cmd/$program" >&2
    cd "$dir"
    rm -rf "$dir/source"
done

mkdir "$dir/crds"
echo "$definitions" | while read -r pin path; do
    cp "$(folder "$pin")/$path" "$dir/crds/"
done
chmod -R u+w "$dir/crds"

# Written last: a broken installation is never taken for a finished one.
echo "$pins $definitions" >"$dir/installed"
