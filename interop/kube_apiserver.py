#!/usr/bin/env python3
"""A real Kubernetes API server with an etcd of its own, on loopback ports, for tests.

    kube_apiserver.py [--user NAME[:GROUP,...]]...

Installs both programs on first use (`install_kubernetes.sh`). As a program it starts them, prints one line of JSON
(`url`, `ca`, `kubeconfig` of an administrator, `tokens` by user name, `audit` log) and runs until its stdin ends, so that
a test that dies leaves nothing behind. As a module it gives `ApiServer`.

There is no controller manager, scheduler or kubelet: objects are validated, stored, watched and authorized, but no pod
runs, nothing is garbage collected, and a namespace that is deleted stays.
"""

import argparse
import contextlib
import json
import os
import pathlib
import re
import secrets
import signal
import ssl
import subprocess
import sys
import tempfile
import urllib.error
import urllib.parse
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "oauth"))

from world import Process, free_port, wait_for  # noqa: E402

ADMIN = "admin"
# An API server compiles its schemas while it starts, which takes long on a busy machine.
START_LIMIT = 180
YAML, JSON = "application/apply-patch+yaml", "application/json"


def install():
    """The folder of the programs; compiles them when they are not there yet."""
    subprocess.run([HERE / "install_kubernetes.sh"], check=True)
    if found := os.environ.get("MUSTER_KUBERNETES_DIR"):
        return pathlib.Path(found) / "bin"
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "muster-test"
    version = re.search(r"^kubernetes=(\S+)", (HERE / "install_kubernetes.sh").read_text(), re.M)[1]
    return cache / f"kubernetes-{version}" / "bin"


class Refused(AssertionError):
    """The API server answered with an error; `status` is its HTTP status."""

    def __init__(self, what, status, body):
        super().__init__(f"{what}: {status} {body.get('message', body) if isinstance(body, dict) else body}")
        self.status, self.body = status, body


class ApiServer:
    """An API server that keeps its address, its objects and its tokens when it is restarted.

    `users` are names with their groups. An administrator `admin` always exists. Use it in a `with` statement, or call
    `start` and `stop`.
    """

    def __init__(self, folder, users=None):
        self.folder, self.port = pathlib.Path(folder).resolve(), free_port()
        self.users = {ADMIN: ["system:masters"], **(users or {})}
        self.tokens = {user: secrets.token_urlsafe(24) for user in self.users}
        self.audit = self.folder / "audit.jsonl"
        self.programs = None
        self.etcd = self.server = None
        self.resources = {}

    @property
    def url(self):
        return f"https://127.0.0.1:{self.port}"

    @property
    def ca(self):
        """The certificate of the server together with that of the authority which signed it."""
        return self.folder / "certificates/apiserver.crt"

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        self.stop()

    def start(self):
        """Starts both programs, and waits until the API server is ready."""
        self.programs = install()
        self.folder.mkdir(parents=True, exist_ok=True)
        client, peer = (f"http://127.0.0.1:{free_port()}" for _ in range(2))
        self.etcd = Process([
            str(self.programs / "etcd"), "--data-dir", str(self.folder / "etcd"), "--unsafe-no-fsync",
            "--listen-client-urls", client, "--advertise-client-urls", client,
            "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", f"default={peer}",
            "--log-level", "error",
        ], self.folder / "etcd.txt").start()
        self.server = Process(self.command(client), self.folder / "apiserver.txt")
        try:
            self.start_server()
        except BaseException:
            self.stop()
            raise
        return self

    def command(self, etcd):
        key, tokens, policy = (self.folder / name for name in ("serviceaccounts.key", "tokens.csv", "audit.json"))
        if not key.exists():
            subprocess.run(["openssl", "genrsa", "-out", key, "2048"], check=True, stderr=subprocess.DEVNULL)
        tokens.write_text("".join(
            f'{self.tokens[user]},{user},{user},"{",".join(groups)}"\n' for user, groups in self.users.items()))
        tokens.chmod(0o600)
        policy.write_text(json.dumps({"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": [
            # What the API server does by itself says nothing about a client.
            {"level": "None", "users": ["system:apiserver"]},
            {"level": "None", "nonResourceURLs": ["/readyz*", "/livez*"]},
            {"level": "Metadata", "omitStages": ["RequestReceived", "ResponseStarted"]}]}))
        return [
            str(self.programs / "kube-apiserver"), "--etcd-servers", etcd, "--bind-address", "127.0.0.1",
            "--secure-port", str(self.port), "--cert-dir", str(self.folder / "certificates"),
            "--service-account-issuer", "https://kubernetes.default.svc",
            "--service-account-key-file", str(key), "--service-account-signing-key-file", str(key),
            "--service-cluster-ip-range", "10.96.0.0/16", "--authorization-mode", "RBAC",
            "--token-auth-file", str(tokens), "--disable-admission-plugins", "ServiceAccount",
            "--audit-policy-file", str(policy), "--audit-log-path", str(self.audit), "--audit-log-mode", "blocking",
            # Watches end at once when the server stops, as they do when a node dies.
            "--shutdown-delay-duration", "0s", "--v", "0",
        ]

    def start_server(self):
        """Starts the API server, whose etcd runs, and waits until it is ready."""
        self.server.start()
        wait_for("the API server", self.ready, START_LIMIT)

    def ready(self):
        if not self.server.alive():
            raise SystemExit(f"the API server ended:\n{self.server.log.read_text()[-2000:]}")
        with urllib.request.urlopen(f"{self.url}/readyz", context=self.context(), timeout=5) as answer:
            if answer.status != 200:
                return False
        # The API server creates this namespace some time after it is ready.
        return self.request("GET", "/api/v1/namespaces/default")[0] == 200

    def stop_server(self, how=signal.SIGTERM):
        """Stops the API server alone, as an outage that loses no object does; `SIGKILL` breaks every connection."""
        self.server.stop(how)

    def restart(self, how=signal.SIGTERM):
        self.stop_server(how)
        self.start_server()

    def stop(self):
        for process in (self.server, self.etcd):
            if process:
                process.stop(signal.SIGKILL)

    def context(self):
        return ssl.create_default_context(cafile=self.ca)

    def request(self, method, path, body=None, token=None, content_type=JSON):
        """Status and body of a request, with the administrator's token unless another is given."""
        headers = {"Authorization": f"Bearer {token or self.tokens[ADMIN]}", "Accept": JSON, "Content-Type": content_type}
        if body is not None and not isinstance(body, (bytes, str)):
            body = json.dumps(body)
        if isinstance(body, str):
            body = body.encode()
        asked = urllib.request.Request(self.url + path, body, headers, method=method)
        try:
            with urllib.request.urlopen(asked, context=self.context(), timeout=60) as answer:
                status, text = answer.status, answer.read().decode()
        except urllib.error.HTTPError as answer:
            status, text = answer.code, answer.read().decode()
        with contextlib.suppress(ValueError):
            return status, json.loads(text)
        return status, text

    def get(self, path, token=None):
        """The object at a path; raises `Refused` when there is none."""
        return self.expect("GET", path, None, token, JSON)

    def expect(self, method, path, body, token, content_type):
        status, answer = self.request(method, path, body, token, content_type)
        if status >= 400:
            raise Refused(f"{method} {path}", status, answer)
        return answer

    def create_namespace(self, name):
        self.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        return name

    def service_account(self, namespace, name, seconds=3600):
        """The token of a service account, which is created when there is none."""
        self.apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": namespace}})
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token"
        asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": seconds}}
        return self.expect("POST", path, asked, None, JSON)["status"]["token"]

    def path_of(self, version, kind, namespace, name=""):
        """The path of an object, found by discovery."""
        if (version, kind) not in self.resources:
            base = f"/api/{version}" if "/" not in version else f"/apis/{version}"
            for entry in self.get(base)["resources"]:
                if "/" not in entry["name"]:
                    self.resources[version, entry["kind"]] = (base, entry["name"], entry["namespaced"])
        if (version, kind) not in self.resources:
            raise Refused(f"{version} {kind}", 404, "the API server has no such kind")
        base, plural, namespaced = self.resources[version, kind]
        scope = f"/namespaces/{namespace}" if namespaced else ""
        return f"{base}{scope}/{plural}" + (f"/{name}" if name else "")

    def apply(self, manifest, namespace="default", token=None, dry_run=False):
        """Applies an object, or text of one or more YAML documents in block style, on the server; gives what it stored."""
        if isinstance(manifest, str):
            documents = [part for part in re.split(r"(?m)^---.*$", manifest) if re.search(r"(?m)^kind:", part)]
            return [self.apply_one(text, *identity(text), namespace, token, dry_run) for text in documents]
        meta = manifest["metadata"]
        place = (manifest["apiVersion"], manifest["kind"], meta["name"], meta.get("namespace"))
        return self.apply_one(json.dumps(manifest), *place, namespace, token, dry_run)

    def apply_one(self, text, version, kind, name, own_namespace, namespace, token, dry_run):
        query = {"fieldManager": "tests", "force": "true", "fieldValidation": "Strict"}
        if dry_run:
            query["dryRun"] = "All"
        path = self.path_of(version, kind, own_namespace or namespace, name)
        stored = self.expect("PATCH", f"{path}?{urllib.parse.urlencode(query)}", text, token, YAML)
        if kind == "CustomResourceDefinition" and not dry_run:
            wait_for(f"the kind of {name}", lambda: self.established(name))
        return stored

    def established(self, name):
        crd = self.get(f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}")
        conditions = {c["type"]: c["status"] for c in crd.get("status", {}).get("conditions") or []}
        if conditions.get("Established") != "True":
            return False
        # Established comes before the kind is served.
        spec = crd["spec"]
        served = [v["name"] for v in spec["versions"] if v["served"]]
        return all(self.request("GET", f"/apis/{spec['group']}/{v}/{spec['names']['plural']}")[0] == 200 for v in served)

    def kubeconfig(self, path, token=None, namespace="default"):
        """Writes a kubeconfig for a token (the administrator's unless given), and gives its path."""
        entry = {"cluster": "test", "user": "test", "namespace": namespace}
        path = pathlib.Path(path)
        path.write_text(json.dumps({
            "apiVersion": "v1", "kind": "Config", "current-context": "test",
            "clusters": [{"name": "test", "cluster": {"server": self.url, "certificate-authority": str(self.ca)}}],
            "users": [{"name": "test", "user": {"token": token or self.tokens[ADMIN]}}],
            "contexts": [{"name": "test", "context": entry}]}))
        path.chmod(0o600)
        return path

    def requests_of(self, user):
        """Requests of a user so far, as `(decision, verb, resource, namespace)`; decision is `allow` or `forbid`.

        A service account's user is `system:serviceaccount:NAMESPACE:NAME`. A watch is in it once it has ended.
        """
        found = []
        for line in self.audit.read_text().splitlines():
            event = json.loads(line)
            if event["user"].get("username") != user:
                continue
            at = event.get("objectRef", {})
            resource = "/".join(filter(None, (at.get("resource"), at.get("subresource"))))
            decision = event.get("annotations", {}).get("authorization.k8s.io/decision", "allow")
            found.append((decision, event["verb"], resource or event["requestURI"], at.get("namespace", "")))
        return found

    def denied(self, user):
        """Requests of a user that the API server refused for want of rights."""
        return [request[1:] for request in self.requests_of(user) if request[0] == "forbid"]


def identity(text):
    """apiVersion, kind, name and namespace of a YAML document in block style."""
    def field(pattern, among=text):
        found = re.search(pattern, among, re.M)
        return found[1].strip("\"'") if found else None

    meta = field(r"^metadata:[ \t]*\n((?:[ \t]+.*\n|\n)*)", text + "\n") or ""
    # Annotations and labels are deeper than the fields of metadata itself.
    indent = field(r"^( +)\S", meta) or "  "
    return (field(r"^apiVersion:\s*(\S+)"), field(r"^kind:\s*(\S+)"),
            field(rf"^{indent}name:\s*(\S+)", meta), field(rf"^{indent}namespace:\s*(\S+)", meta))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--user", action="append", default=[], metavar="NAME[:GROUP,...]", help="a user with a token")
    users = {}
    for word in parser.parse_args().user:
        name, _, groups = word.partition(":")
        users[name] = [group for group in groups.split(",") if group]
    # A signal ends the `with` statements, and with them both programs.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    with tempfile.TemporaryDirectory(prefix="muster-kube-") as folder, ApiServer(folder, users) as server:
        print(json.dumps({
            "url": server.url, "ca": str(server.ca), "kubeconfig": str(server.kubeconfig(f"{folder}/kubeconfig")),
            "tokens": server.tokens, "audit": str(server.audit)}), flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()
