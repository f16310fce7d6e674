#!/usr/bin/env python3
"""Installs every package from its file in a bare Debian and uses it.

    trial.py PACKAGES          the folder that scripts/package wrote
    trial.py --prepare         only installs the tools and downloads the roots; fails where it cannot

Each package is installed where Rust was never installed. `climax git` must list its tools and answer a call of one,
`muster serve` must answer `/health`, and manual pages and completions must be where they belong. Prints how long it takes
from the install command to the first answered call; above five seconds fails, unless the machine is overloaded. Needs root
or user namespaces; installs mmdebstrap, bubblewrap and skopeo from Debian's packages if they are missing.
"""

import argparse
import hashlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import urllib.request

CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "muster-test/roots"
# The packages of each root beyond what every Debian has.
ROOTS = {"bare": [], "python": ["python3-venv"]}
TOOLS = {"mmdebstrap": "mmdebstrap", "bwrap": "bubblewrap", "skopeo": "skopeo"}
PORT = 18090
CLIENT = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "trial", "version": "1"}}


class Failed(Exception):
    """A package does not work; the text says why."""


def install_tools():
    missing = [package for program, package in TOOLS.items() if not shutil.which(program)]
    if missing:
        subprocess.run(["apt-get", "install", "-y", "-qq", *missing], check=True, stdout=subprocess.DEVNULL)


def prepare():
    install_tools()
    subprocess.run(["bwrap", "--ro-bind", "/", "/", "--unshare-pid", "true"], check=True)
    for name in ROOTS:
        downloaded(name)


def downloaded(name):
    """The archive of a Debian root."""
    archive = CACHE / f"{name}.tar"
    if not archive.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        partial = archive.with_suffix(".part.tar")
        command = ["mmdebstrap", "--quiet", "--variant=minbase", *_included(name), "bookworm", partial]
        subprocess.run(command, check=True)
        partial.rename(archive)
    return archive


def root(name, folder):
    """A fresh copy of a Debian root."""
    archive = downloaded(name)
    target = folder / name
    target.mkdir()
    subprocess.run(["tar", "-xf", archive, "-C", target, "--exclude=./dev/*"], check=True)
    return target


def _included(name):
    return [f"--include={','.join(ROOTS[name])}"] if ROOTS[name] else []


def inside(place, words, extra=()):
    """The command that runs words in a root: no network names of the host, no environment."""
    return [
        "bwrap", "--bind", str(place), "/", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--tmpfs", "/run",
        "--unshare-pid", "--die-with-parent", "--clearenv", "--setenv", "PATH", "/opt/muster/bin:/opt/venv/bin:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin",
        "--setenv", "HOME", "/root", *extra, "--", *words,
    ]


def run(place, *words, extra=()):
    done = subprocess.run(inside(place, words, extra), capture_output=True, text=True)
    if done.returncode != 0:
        raise Failed(f"{' '.join(words)}: exit {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def first_call(place, words, extra=()):
    """Starts `climax git` on pipes, calls a tool, and ends it; returns the time of the answer."""
    process = subprocess.Popen(inside(place, words, extra), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def answer(method, params):
        request = {"jsonrpc": "2.0", "id": method, "method": method, "params": params}
        process.stdin.write(json.dumps(request) + "\n")
        process.stdin.flush()
        answered = json.loads(process.stdout.readline() or "null")
        if not answered or "result" not in answered:
            raise Failed(f"{' '.join(words)}: no answer to {method}: {answered}")
        return answered["result"]

    try:
        answer("initialize", CLIENT)
        process.stdin.write(json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"}) + "\n")
        names = [tool["name"] for tool in answer("tools/list", {})["tools"]]
        if "climax_search" not in names:
            raise Failed(f"{' '.join(words)}: unexpected tools {names}")
        found = answer("tools/call", {"name": "climax_search", "arguments": {"query": "show the history of commits"}})
        if found.get("isError") or "git_log" not in json.dumps(found):
            raise Failed(f"{' '.join(words)}: the search did not find git_log: {found}")
        return time.monotonic()
    finally:
        process.stdin.close()
        process.wait(timeout=10)


def gateway_answers(place, words, extra=()):
    process = subprocess.Popen(inside(place, words, extra), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        printed = []
        for line in process.stdout:
            printed.append(line)
            if "is listening on" in line:
                break
        else:
            raise Failed(f"{' '.join(words)} ended before it listened:\n{''.join(printed)}")
        with urllib.request.urlopen(f"http://127.0.0.1:{PORT}/health", timeout=10) as answer:
            if answer.status != 200:
                raise Failed(f"/health answers {answer.status}")
    finally:
        process.terminate()
        process.wait(timeout=15)


def installed(place, prefix, zsh="share/zsh/site-functions"):
    """Manual pages and completions of every shell, for both programs."""
    shared = place / prefix
    for name in ("muster", "climax"):
        for path in (f"share/man/man1/{name}.1.gz", f"share/bash-completion/completions/{name}", f"{zsh}/_{name}",
                     f"share/fish/vendor_completions.d/{name}.fish", f"share/muster/completions/{name}.ps1"):
            if not (shared / path).is_file() or (shared / path).stat().st_size == 0:
                raise Failed(f"/{prefix}/{path} is missing")


def copy(packages, pattern, place):
    found = sorted(packages.glob(pattern))
    if len(found) != 1:
        raise Failed(f"expected one file {pattern}, found {[file.name for file in found]}")
    target = place / "srv" / found[0].name
    shutil.copy(found[0], target)
    return f"/srv/{found[0].name}"


def same_files(packages):
    """The tarball with xz, which a bare Debian cannot unpack, has the files of the other."""
    one, other = (contents(packages, f"muster-*.tar.{kind}") for kind in ("gz", "xz"))
    if one != other:
        raise Failed(f"the tarballs differ in {sorted(name for name, _ in one ^ other)}")


def contents(packages, pattern):
    [file] = packages.glob(pattern)
    with tarfile.open(file) as archive:
        members = [(member, archive.extractfile(member) if member.isfile() else None) for member in archive]
        return {(member.name, file and hashlib.file_digest(file, "sha256").hexdigest()) for member, file in members}


def tarball(packages, folder):
    place = root("bare", folder)
    file = copy(packages, "muster-*.tar.gz", place)
    same_files(packages)
    began = time.monotonic()
    run(place, "sh", "-c", f"mkdir /opt/muster && tar -xzf {file} -C /opt/muster --strip-components=1")
    installed(place, "opt/muster")
    return place, began, ["climax"], ["muster"], ()


def deb(packages, folder):
    place = root("bare", folder)
    file = copy(packages, "muster_*.deb", place)
    began = time.monotonic()
    run(place, "dpkg", "-i", file)
    installed(place, "usr", zsh="share/zsh/vendor-completions")
    for unit in ("system", "user"):
        if not (place / f"usr/lib/systemd/{unit}/muster.service").is_file():
            raise Failed(f"the systemd {unit} unit is missing")
    return place, began, ["climax"], ["muster"], ()


def wheel(packages, folder):
    place = root("python", folder)
    file = copy(packages, "muster_mcp-*.whl", place)
    run(place, "python3", "-m", "venv", "/opt/venv")
    began = time.monotonic()
    run(place, "/opt/venv/bin/pip", "install", "--quiet", "--no-index", file)
    installed(place, "opt/venv")
    return place, began, ["climax"], ["muster"], ()


def npm(packages, folder):
    """With Node and npm of this machine: Debian's npm has hundreds of packages of its own."""
    place = root("bare", folder)
    node = pathlib.Path(shutil.which("node") or "node").resolve()
    modules = pathlib.Path(shutil.which("npm") or "npm").resolve().parent.parent
    shutil.copy(node, place / "usr/local/bin/node")
    shutil.copytree(modules, place / "usr/local/lib/node_modules/npm", symlinks=True)
    (place / "usr/local/bin/npm").symlink_to("../lib/node_modules/npm/bin/npm-cli.js")
    files = [copy(packages, pattern, place) for pattern in ("muster-mcp-linux-*.tgz", "muster-mcp-[0-9]*.tgz")]
    began = time.monotonic()
    run(place, "npm", "install", "--global", "--offline", "--omit=optional", "--no-fund", "--no-audit", *files)
    installed(place, "usr/local/lib/node_modules/muster-mcp")
    if not (place / "usr/local/share/man/man1/muster.1.gz").exists():
        raise Failed("npm did not install the manual pages")
    return place, began, ["climax"], ["muster"], ()


def image(packages, folder):
    """The image unpacked, as its own user, with a read-only root."""
    file = next(iter(sorted(packages.glob("muster-*.oci.tar"))))
    layers, files = folder / "layers", folder / "rootfs"
    files.mkdir()
    tag = file.name.removeprefix("muster-").rsplit("-", 1)[0]
    began = time.monotonic()
    # The library of podman reads the image, checks its digests and decompresses its layers.
    copy_image = ["skopeo", "--insecure-policy", "copy", "--quiet", "--dest-decompress"]
    subprocess.run([*copy_image, f"oci-archive:{file}:{tag}", f"dir:{layers}"], check=True)
    for layer in json.loads((layers / "manifest.json").read_text())["layers"]:
        subprocess.run(["tar", "-xf", layers / layer["digest"].removeprefix("sha256:"), "-C", files], check=True)
    for name in ("proc", "dev", "tmp", "run", "config", "state", "home"):
        (files / name).mkdir(exist_ok=True)
    extra = ("--ro-bind", str(files), "/", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--tmpfs", "/state", "--tmpfs", "/config",
             "--unshare-user", "--uid", "65532", "--gid", "65532", "--setenv", "XDG_STATE_HOME", "/state")
    return files, began, ["/usr/bin/climax"], ["/usr/bin/muster"], extra


KINDS = {"tarball": tarball, "deb": deb, "wheel": wheel, "npm": npm, "image": image}
MOST_SECONDS = 5


def trial(kind, packages, folder):
    place, began, climax, muster, extra = KINDS[kind](packages, folder)
    answered = first_call(place, [*climax, "git"], extra)
    gateway_answers(place, [*muster, "serve", "--port", str(PORT), "--state-path", "/tmp/state"], extra)
    return answered - began


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("packages", type=pathlib.Path, nargs="?")
    parser.add_argument("--prepare", action="store_true")
    args = parser.parse_args()
    prepare()
    if args.prepare:
        return
    if not args.packages:
        parser.error("name the folder that scripts/package wrote")
    packages = args.packages
    failed = 0
    for kind in KINDS:
        with tempfile.TemporaryDirectory(prefix="muster-trial-") as folder:
            try:
                seconds = trial(kind, packages, pathlib.Path(folder))
                # Where more work waits than there are cores, the time says nothing about the package.
                if seconds > MOST_SECONDS and os.getloadavg()[0] <= (os.cpu_count() or 1):
                    raise Failed(f"{seconds:.2f} s from the install command to the first answered call")
            except (Failed, subprocess.CalledProcessError, OSError, ValueError) as error:
                failed += 1
                print(f"{kind:8} FAILED: {error}")
                continue
        print(f"{kind:8} ok: {seconds:.2f} s from the install command to the first answered call")
    print(f"{len(KINDS) - failed} passed, {failed} failed")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
