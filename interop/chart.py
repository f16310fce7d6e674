#!/usr/bin/env python3
"""Checks the Helm chart: against its schema, its unit tests and a real Kubernetes API server.

    chart.py [MUSTER]

Every file of values in charts/muster/tests/values is rendered, validated by kubeconform with schemas that a real API
server published, and installed, upgraded and uninstalled on that server. Its pods must satisfy the pod security standard
`restricted`, and its role must give exactly the rights that it says. With MUSTER, the program must accept every
config.yaml of the chart without a warning, and a gateway runs as its pod would. Exit status 1 when a check failed; the last line is `N passed, N failed`.
"""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import tomllib

from chart_pod import check_pods, files, mount
from check import Tally
from kube_apiserver import ApiServer
from world import wait_for

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent
CHART = ROOT / "charts/muster"
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "muster-test"
TOOLS = pathlib.Path(os.environ.get("MUSTER_HELM_DIR") or CACHE / "helm")
# Those that values name.
NAMESPACES = ("agents", "team-a", "team-b")
SLOW = '''
import json, sys, threading, time
turn = threading.Lock()

def say(answer):
    with turn:
        print(json.dumps(answer), flush=True)

def wait(answer, seconds):
    time.sleep(seconds)
    say({**answer, "result": {"content": [{"type": "text", "text": "done"}]}})

# It takes a while to start, as many do.
time.sleep(2)
for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    method, params = asked["method"], asked.get("params", {})
    answer = {"jsonrpc": "2.0", "id": asked["id"]}
    if method == "initialize":
        answer["result"] = {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}},
                            "serverInfo": {"name": "slow", "version": "1"}}
    elif method == "tools/list":
        answer["result"] = {"tools": [{"name": "wait", "inputSchema": {"type": "object"}}]}
    elif method == "tools/call":
        threading.Thread(target=wait, args=(answer, params["arguments"]["seconds"])).start()
        continue
    else:
        answer["error"] = {"code": -32601, "message": "no such method"}
    say(answer)
'''
RESTRICTED = {"pod-security.kubernetes.io/enforce": "restricted"}


class Helm:
    """helm with a home of its own, for an API server."""

    def __init__(self, folder, kubeconfig):
        self.env = {**os.environ, "KUBECONFIG": str(kubeconfig), "HOME": str(folder), "XDG_CACHE_HOME": str(folder / "cache"),
                    "XDG_CONFIG_HOME": str(folder / "config"), "XDG_DATA_HOME": str(folder / "data")}

    def __call__(self, *words, program="helm"):
        """Exit status, output and complaints."""
        done = subprocess.run([TOOLS / "bin" / program, *map(str, words)], capture_output=True, text=True, env=self.env)
        return done.returncode, done.stdout, done.stderr


def main():
    muster = sys.argv[1] if len(sys.argv) > 1 else None
    subprocess.run([HERE / "install_helm.sh"], check=True)
    tally = Tally()
    with tempfile.TemporaryDirectory(prefix="muster-chart-") as name, ApiServer(pathlib.Path(name) / "api") as server:
        folder = pathlib.Path(name)
        helm = Helm(folder, server.kubeconfig(folder / "kubeconfig"))
        for file in sorted((TOOLS / "crds").glob("*.yaml")):
            server.apply(file.read_text())
        own = sorted((CHART / "crds").glob("*.yaml"))
        for file in own:
            server.apply(file.read_text())
        check_metadata(tally)
        check_units(tally, helm)
        check_guide(tally, helm, folder)
        matrix = sorted((CHART / "tests/values").glob("*.yaml"))
        schemas = write_schemas(server, folder / "schemas")
        for values in matrix:
            check_rendering(tally, helm, folder, values, schemas)
            check_installation(tally, helm, server, values)
            if muster:
                check_settings(tally, server, folder, values, muster)
        check_rights(tally, server, "everything", "agents")
        for values in matrix:
            check_removal(tally, helm, server, values)
        if muster:
            namespace = server.create_namespace("chart-pod")
            helm("install", "pod", CHART, "--namespace", namespace, "--values", values_of_pod(folder))
            check_pods(tally, server, namespace, "pod-muster", folder, muster)
    print(f"{tally.passed} passed, {tally.failed} failed")
    return 1 if tally.failed else 0


def check_metadata(tally):
    """The chart has the version of the program, and its schema knows the values and nothing else."""
    version = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["version"]
    chart = (CHART / "Chart.yaml").read_text()
    for field in ("version", "appVersion"):
        tally.check("Chart.yaml", field, version, re.search(rf"^{field}: (\S+)", chart, re.M)[1])
    schema = json.loads((CHART / "values.schema.json").read_text())
    known = {name for name in schema["properties"] if name != "global"}
    given = set(re.findall(r"^(\w+):", (CHART / "values.yaml").read_text(), re.M))
    tally.check("values.schema.json", "the values", sorted(known), sorted(given))


def check_units(tally, helm):
    status, said, complaints = helm("--strict", CHART, program="helm-unittest")
    print(said, end="")
    tally.check("unit tests", "pass", (0, ""), (status, complaints))


def check_guide(tally, helm, folder):
    """The examples of the guide are values that the chart accepts, besides those of a release with tokens."""
    page = (ROOT / "docs/guides/run-on-kubernetes.md").read_text()
    for number, block in enumerate(re.findall(r"(?ms)^```yaml\n(# values\.yaml\n.*?)^```", page), 1):
        values = folder / f"example-{number}.yaml"
        values.write_text(block)
        # A ServiceMonitor or a number of replicas depends on what another example switches on.
        valkey = f"valkey.enabled={str('storage:' not in block).lower()}"
        options = ["--values", CHART / "tests/values/tokens.yaml", "--set", valkey, "--values", values]
        status, _, complaints = helm("template", "example", CHART, *options)
        tally.check("guide", f"example {number} is rendered", (0, ""), (status, complaints))


def write_schemas(server, folder):
    """JSON schemas of every kind that the API server knows, as kubeconform wants them: one file each, unknown fields
    refused."""
    folder.mkdir()
    wait_for("the schemas of all kinds", lambda: not unpublished(server))
    paths = server.get("/openapi/v3")["paths"]
    for path, entry in paths.items():
        if not re.fullmatch(r"api/v1|apis/[^/]+/[^/]+", path):
            continue
        schemas = server.get(entry["serverRelativeURL"])["components"].get("schemas", {})
        text = json.dumps(strict(schemas)).replace("#/components/schemas/", "#/definitions/")
        definitions = json.loads(text)
        for name, schema in schemas.items():
            for kind in schema.get("x-kubernetes-group-version-kind", []):
                # `KindSuffix` of kubeconform has the first word of the group.
                group = f"-{kind['group'].split('.')[0]}" if kind["group"] else ""
                file = folder / f"{kind['kind']}{group}-{kind['version']}.json".lower()
                file.write_text(json.dumps({"$ref": f"#/definitions/{name}", "definitions": definitions}))
    return f"{folder}/{{{{.ResourceKind}}}}{{{{.KindSuffix}}}}.json"


def unpublished(server):
    """Defined kinds whose schemas the API server does not publish yet."""
    paths = server.get("/openapi/v3")["paths"]
    for crd in server.get("/apis/apiextensions.k8s.io/v1/customresourcedefinitions")["items"]:
        for version in crd["spec"]["versions"]:
            entry = paths.get(f"apis/{crd['spec']['group']}/{version['name']}")
            if version["served"] and (not entry or f'"kind":"{crd["spec"]["names"]["kind"]}"' not in json.dumps(
                    server.get(entry["serverRelativeURL"]), separators=(",", ":"))):
                return True
    return False


def strict(schema):
    """The schema with fields that it does not name refused."""
    if isinstance(schema, list):
        return [strict(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    # Alternatives name only the fields that they are about.
    done = {key: part if key in ("oneOf", "anyOf", "allOf", "not") else strict(part) for key, part in schema.items()}
    if isinstance(done.get("properties"), dict) and "additionalProperties" not in done \
            and not done.get("x-kubernetes-preserve-unknown-fields"):
        done["additionalProperties"] = False
    return done


def release(values):
    """The name of the release of a file of values, and of its namespace."""
    return values.stem, f"chart-{values.stem}"


def check_rendering(tally, helm, folder, values, schemas):
    name, namespace = release(values)
    status, said, complaints = helm("lint", "--strict", "--quiet", CHART, "--values", values)
    tally.check(name, "helm lint has nothing to say", (0, ""), (status, said + complaints))
    status, said, complaints = helm("template", name, CHART, "--namespace", namespace, "--values", values)
    tally.check(name, "is rendered", (0, ""), (status, complaints))
    manifests = folder / f"{name}.yaml"
    manifests.write_text(said)
    status, said, complaints = conform(helm, schemas, manifests)
    print(said, end="")
    tally.check(name, "kubeconform accepts it", (0, ""), (status, complaints))
    # The schemas are made here: they must refuse something, too.
    manifests.write_text(manifests.read_text().replace("  selector:\n", "  selektor:\n", 1))
    status, said, _ = conform(helm, schemas, manifests)
    tally.check(name, "kubeconform notices a misspelt field", (1, True), (status, "'selektor' not allowed" in said))


def conform(helm, schemas, manifests):
    return helm("-strict", "-summary", "-schema-location", schemas, manifests, program="kubeconform")


def check_installation(tally, helm, server, values):
    """What helm installs is accepted by the API server, and an upgrade changes nothing by itself."""
    name, namespace = release(values)
    for needed in (namespace, *NAMESPACES):
        server.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": needed, "labels": RESTRICTED}})
    options = [name, CHART, "--namespace", namespace, "--values", values]
    status, said, complaints = helm("install", *options)
    tally.check(name, "is installed", (0, ""), (status, complaints))
    if status:
        return
    before = generated(server, namespace)
    tally.check(name, "pods are admitted where only restricted ones are", [], refused_pods(server, namespace))
    status, said, complaints = helm("upgrade", *options)
    tally.check(name, "is upgraded", (0, ""), (status, complaints))
    tally.check(name, "an upgrade keeps secrets and replaces no pod", before, generated(server, namespace))


def check_removal(tally, helm, server, values):
    """Nothing is left of a release but the Secrets that it made, without which what is stored would be lost."""
    name, namespace = release(values)
    secrets = [secret["metadata"] for secret in server.get(f"/api/v1/namespaces/{namespace}/secrets")["items"]]
    kept = sorted(f"secret {meta['name']}" for meta in secrets if "helm.sh/resource-policy" in meta.get("annotations", {}))
    status, _, complaints = helm("uninstall", name, "--namespace", namespace)
    tally.check(name, "is uninstalled", (0, ""), (status, complaints))
    tally.check(name, "only its Secrets are left", kept, sorted(generated(server, namespace)))


def generated(server, namespace):
    """The data of Secrets except helm's own, and the templates of pods."""
    secrets = server.get(f"/api/v1/namespaces/{namespace}/secrets")["items"]
    found = {f"secret {s['metadata']['name']}": s["data"] for s in secrets if not s["type"].startswith("helm.sh")}
    for kind in ("deployments", "statefulsets"):
        for item in server.get(f"/apis/apps/v1/namespaces/{namespace}/{kind}")["items"]:
            found[f"{kind} {item['metadata']['name']}"] = item["spec"]["template"]
    return found


def refused_pods(server, namespace):
    """Why pods of the Deployment and the StatefulSet would be refused."""
    found = []
    for kind in ("deployments", "statefulsets"):
        for item in server.get(f"/apis/apps/v1/namespaces/{namespace}/{kind}")["items"]:
            spec = item["spec"]["template"]["spec"]
            # The volume of a claim, which the controller of StatefulSets would make.
            claims = [claim["metadata"]["name"] for claim in item["spec"].get("volumeClaimTemplates", [])]
            spec["volumes"] += [{"name": claim, "persistentVolumeClaim": {"claimName": claim}} for claim in claims]
            # Admission of priority classes asks for one that exists.
            spec.pop("priorityClassName", None)
            pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "pod"}, "spec": spec}
            status, answer = server.request("POST", f"/api/v1/namespaces/{namespace}/pods?dryRun=All", pod)
            if status != 201:
                found.append(f"{kind}: {answer.get('message')}")
    return found


def check_rights(tally, server, name, namespace):
    """The service account may do what its role says in its namespaces, and nothing elsewhere."""
    user = f"system:serviceaccount:chart-{name}:{name}-muster"

    def may(verb, group, resource, where, subresource="", named=""):
        attributes = {"verb": verb, "group": group, "resource": resource, "namespace": where, "subresource": subresource,
                      "name": named}
        review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
                  "spec": {"user": user, "resourceAttributes": attributes}}
        return server.request("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", review)[1]["status"]["allowed"]

    own, leases = "muster.giantswarm.io", "coordination.k8s.io"
    plurals = re.findall(r"(?m)^    plural: (\S+)", "".join(file.read_text() for file in (CHART / "crds").glob("*.yaml")))
    allowed = [
        *[(verb, own, kind, namespace) for kind in plurals for verb in ("get", "list", "watch", "create", "update", "delete")],
        ("patch", own, "mcpservers", namespace, "status"), ("patch", own, "workflowexecutions", namespace), ("create", "", "events", namespace),
        ("create", leases, "leases", namespace),
        *[(verb, "", "secrets", where, "", named) for verb in ("get", "watch") for named in ("github-token", "dex-client")
          for where in (namespace, "team-a", "team-b")]]
    denied = [
        # A watch without a name would show every Secret.
        ("watch", "", "secrets", namespace), ("watch", "", "secrets", "team-a"), ("get", "", "secrets", namespace, "", "other"),
        ("watch", "", "secrets", namespace, "", "other"), ("list", "", "secrets", namespace),
        ("create", "", "secrets", namespace), ("delete", "", "secrets", "team-a"),
        ("get", "", "secrets", "default"), ("get", "", "secrets", "kube-system"), ("list", own, "mcpservers", "default"),
        ("list", own, "mcpservers", ""), ("list", "", "pods", namespace), ("create", "", "pods", namespace),
        ("list", own, "workflowexecutions", "default"), ("patch", own, "workflowexecutions", namespace, "status"),
        ("deletecollection", own, "mcpservers", namespace), ("patch", own, "mcpservers", namespace),
        ("update", leases, "leases", namespace), ("delete", leases, "leases", namespace),
        ("create", "rbac.authorization.k8s.io", "rolebindings", namespace),
        ("create", "", "serviceaccounts", namespace, "token")]
    tally.check("rights", "what is needed is allowed", [], [ask for ask in allowed if not may(*ask)])
    tally.check("rights", "what is not needed is denied", [], [ask for ask in denied if may(*ask)])


def check_settings(tally, server, folder, values, muster):
    """`muster` reads the configuration directory that the pod would have without a complaint."""
    name, namespace = release(values)
    config = mount(folder / f"config-{name}", files(server, namespace, f"{name}-muster"))
    done = subprocess.run([muster, "validate", config], capture_output=True, text=True)
    said = done.stdout + done.stderr
    good = done.returncode == 0 and re.search(r"(?m)^\d+ files?, 0 errors, 0 warnings$", said) is not None
    tally.check(name, "its configuration is valid", (True, ""), (good, "" if good else said))


def values_of_pod(folder):
    """Values of a release without the API server, with tokens and a server whose calls take a while."""
    program = folder / "slow.py"
    program.write_text(SLOW)
    slow = json.dumps({"type": "stdio", "autoStart": True, "command": sys.executable, "args": [str(program)]})
    values = folder / "pod-values.yaml"
    values.write_text(json.dumps({"muster": {
        "kubernetes": False, "tokens": {"existingSecret": "tokens"}, "files": {"mcpservers/slow.yaml": slow}}}))
    return values


if __name__ == "__main__":
    sys.exit(main())
