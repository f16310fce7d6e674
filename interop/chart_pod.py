"""Runs gateways as the pods of a release would: with the folder that a kubelet mounts and the arguments of the container."""

import os
import re
import secrets
import subprocess
import threading

import kube_apiserver  # noqa: F401  (makes `world` importable)
from world import Balancer, Process, call, free_port, request, tool, wait_for


def files(server, namespace, name):
    """The files of the ConfigMap of a release, by their paths."""
    data = server.get(f"/api/v1/namespaces/{namespace}/configmaps/{name}")["data"]
    return {path.replace("--", "/"): text for path, text in data.items()}


def mount(folder, contents):
    """Writes files as a kubelet mounts them: links to the current version of a folder, which is replaced as a whole."""
    version = f"..{secrets.token_hex(4)}"
    for path, text in contents.items():
        file = folder / version / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        file.chmod(0o440)
    (folder / "..next").symlink_to(version)
    (folder / "..next").replace(folder / "..data")
    for top in {path.split("/")[0] for path in contents}:
        if not (folder / top).is_symlink():
            (folder / top).symlink_to(f"..data/{top}")
    return folder


class Pod:
    """A gateway with the arguments of a Deployment's container."""

    def __init__(self, muster, container, config, folder):
        self.port, self.log = free_port(), folder / "log.txt"
        self.probe = container["readinessProbe"]["httpGet"]["path"]
        folder.mkdir()
        os.environ["XDG_STATE_HOME"] = str(folder / "xdg")
        here = {"--config-path=/etc/muster": f"--config-path={config}",
                "--state-path=/state/gateway": f"--state-path={folder}/state"}
        self.process = Process([muster, *[here.get(word, word) for word in container["args"]], f"--port={self.port}"], self.log)
        self.process.start()
        wait_for("the gateway", self.is_ready)

    @property
    def base(self):
        return f"http://127.0.0.1:{self.port}"

    def is_ready(self):
        if not self.process.alive():
            raise SystemExit(f"the gateway ended:\n{self.log.read_text()}")
        return self.status() == 200

    def status(self):
        return request(self.base + self.probe)[0]

    def complaints(self):
        """Warnings and errors in its log. It cannot write into its configuration, and says so once."""
        lines = re.findall(r"(?m)^.*\b(?:WARN|ERROR)\b.*$", self.log.read_text())
        return [line for line in lines if "the last use of tokens is not recorded" not in line]


def check_pods(tally, server, namespace, name, folder, muster):
    deployment = server.get(f"/apis/apps/v1/namespaces/{namespace}/deployments/{name}")
    container = deployment["spec"]["template"]["spec"]["containers"][0]
    contents = files(server, namespace, name)
    tokens = {user: create_token(muster, folder / user, user) for user in ("ci", "other")}
    check_admission(tally, Pod(muster, container, mount(folder / "mounted", {**contents, "tokens.json": tokens["ci"][1]}),
                               folder / "pod"), contents, folder / "mounted", tokens, f"{name}.{namespace}.svc")
    config = mount(folder / "shared", {**contents, "tokens.json": tokens["ci"][1]})
    check_upgrade(tally, lambda number: Pod(muster, container, config, folder / f"pod-{number}"), tokens["ci"][0])


def create_token(muster, folder, name):
    """A token, and the file with its digest."""
    done = subprocess.run([muster, "token", "create", name, "--config-path", folder], capture_output=True, text=True, check=True)
    return done.stdout.split()[-1], (folder / "tokens.json").read_text()


def check_admission(tally, pod, contents, config, tokens, service):
    """It admits tokens of the mounted Secret and nobody else, and notices when the Secret changes."""
    (ci, _), (other, other_file) = tokens["ci"], tokens["other"]
    try:
        tally.check("pod", "is ready at the path of its probe", 200, pod.status())
        tally.check("pod", "admits nobody without a token", 401, call(pod.base, None)[0])
        tally.check("pod", "admits a token of the Secret", 200, call(pod.base, ci)[0])
        tally.check("pod", "admits no other", 401, call(pod.base, other)[0])
        mount(config, {**contents, "tokens.json": other_file})
        tally.check("pod", "refuses a token that is gone from the Secret", 401, call(pod.base, ci)[0])
        tally.check("pod", "admits a token that is new there", 200, call(pod.base, other)[0])
        tally.check("pod", "answers to no foreign name", 403, called_by(pod, other, "attacker.example"))
        # The body is not a message: 400 says that the name is known.
        tally.check("pod", "answers to the name of its Service", 400, called_by(pod, other, service))
    finally:
        pod.process.stop()
    tally.check("pod", "has nothing to complain about", [], pod.complaints())


def called_by(pod, token, host):
    """The status of an empty request that names the gateway so."""
    head = {"Host": host, "Authorization": f"Bearer {token}", "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream"}
    return request(f"{pod.base}/mcp", b"{}", head)[0]


def check_upgrade(tally, start, token):
    """A pod that is replaced while clients call drops none of their calls, and finishes the one that takes long."""
    endpoints = [start(1)]
    old, balancer = endpoints[0], Balancer(endpoints)
    base, results, long_calls, done = f"http://127.0.0.1:{balancer.port}", [], [], threading.Event()

    def client():
        while not done.is_set():
            try:
                results.append(tool(base, token, "x_slow_wait", {"seconds": 0}))
            except OSError as error:
                results.append(str(error))

    pods = [old]
    try:
        wait_for("the server", lambda: tool(old.base, token, "x_slow_wait", {"seconds": 0}) == "done")
        clients = [threading.Thread(target=client) for _ in range(4)]
        long_call = threading.Thread(target=lambda: long_calls.append(tool(base, token, "x_slow_wait", {"seconds": 8})))
        for thread in [*clients, long_call]:
            thread.start()
        wait_for("some calls", lambda: len(results) > 20)
        pods.append(start(2))
        # What Kubernetes does: the new pod is an endpoint once it is ready, the old one no longer when it ends.
        endpoints.append(pods[1])
        endpoints.remove(old)
        # Its preStop hook waits for calls that were sent to it just before: each client has one.
        sent = len(results)
        wait_for("calls that were on their way", lambda: len(results) > sent + 2 * len(clients))
        before = len(results)
        child = old.process.child
        old.process.stop()
        wait_for("calls after the upgrade", lambda: len(results) > before + 20)
        long_call.join()
        done.set()
        for thread in clients:
            thread.join()
        tally.check("upgrade", "the old pod finished its calls", 0, child.returncode)
        tally.check("upgrade", "no call failed", [], sorted({result for result in results if result != "done"}))
        tally.check("upgrade", "the long call was answered", ["done"], long_calls)
        print(f"      {len(results)} calls during the upgrade")
    finally:
        done.set()
        for pod in pods:
            pod.process.stop()
