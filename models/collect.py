#!/usr/bin/env python3
"""Lists the tools of MCP servers published on npm and PyPI.

    python3 models/collect.py PACKAGES OUT.jsonl [--work DIR] [--jobs N]

PACKAGES holds one `npm:NAME [ARGUMENT...]` or `pypi:NAME [ARGUMENT...]` per line. Each package is installed without
running its install scripts, started over stdio as an unprivileged user without network, and asked for `tools/list`.
A server that stops because a setting is missing is started again with a placeholder for every variable that its
error names. One line of OUT per server: package, version, licence, tools (name, description, argument names), or the
reason why there are none. Packages that OUT already holds are skipped. Needs Linux, root (for `unshare`), npm and uv.
"""
import argparse, concurrent.futures, configparser, glob, json, os, re, select, shutil, subprocess, threading, time

START = 15
NEVER = {"PATH", "HOME", "NODE_OPTIONS", "PYTHONPATH", "LD_PRELOAD", "TMPDIR"}


def placeholder(name):
    if re.search(r"URL|HOST|ENDPOINT|SERVER|BASE|DOMAIN", name):
        return "https://example.com"
    if "EMAIL" in name:
        return "someone@example.com"
    if re.search(r"PORT$|COUNT|LIMIT", name):
        return "8080"
    if "REGION" in name:
        return "us-east-1"
    return "00000000-0000-4000-8000-000000000000"


def npm(name, home):
    subprocess.run(["npm", "install", "--prefix", home, "--ignore-scripts", "--no-audit", "--no-fund", "--omit=dev", name],
                   check=True, capture_output=True, timeout=240)
    root = f"{home}/node_modules/{name}"
    about = json.load(open(f"{root}/package.json"))
    bins = about.get("bin") or {}
    if isinstance(bins, str):
        bins = {name.split("/")[-1]: bins}
    if not bins and about.get("main"):
        bins = {"main": about["main"]}
    last = name.split("/")[-1]
    pick = sorted(bins, key=lambda b: (b != last, "mcp" not in b, "server" not in b, len(b)))
    if not pick:
        raise RuntimeError("no executable")
    licence = about.get("license") or about.get("licenses") or ""
    licence = licence if isinstance(licence, str) else json.dumps(licence)
    start = f"{root}/{bins[pick[0]]}"
    first = open(start, "rb").read(64)
    command = ["node", start] if b"node" in first or not first.startswith((b"#!", b"\x7fELF")) else [start]
    return about["version"], licence, command, {}


def pypi(name, home):
    install = ["uv", "pip", "install", "-q", "--target", f"{home}/lib", "--only-binary", ":all:", "--python", "/usr/bin/python3", name]
    # Many servers name no upper bound for the SDK and do not start with its second major version.
    if subprocess.run(install + ["mcp<2"], capture_output=True, timeout=240).returncode:
        subprocess.run(install, check=True, capture_output=True, timeout=240)
    plain = re.sub(r"[-_.]+", "[-_.]", re.escape(name).replace("\\", ""))
    infos = [i for i in glob.glob(f"{home}/lib/*.dist-info") if re.match(plain + r"-\d", os.path.basename(i), re.I)]
    about = open(f"{infos[0]}/METADATA", errors="replace").read().split("\n\n")[0]
    field = lambda key: (re.findall(rf"^{key}: (.*)", about, re.M) or [""])[0]
    licence = field("License-Expression") or "; ".join(re.findall(r"^Classifier: License :: (.*)", about, re.M)) or field("License")[:60]
    points = configparser.ConfigParser(delimiters=("=",))
    points.optionxform = str
    points.read(f"{infos[0]}/entry_points.txt")
    scripts = dict(points["console_scripts"]) if points.has_section("console_scripts") else {}
    pick = sorted(scripts, key=lambda s: (s.lower() != name.lower(), "mcp" not in s, len(s)))
    if not pick:
        raise RuntimeError("no executable")
    module, function = scripts[pick[0]].split("[")[0].strip().split(":")
    code = f"import sys; sys.argv[0]={pick[0]!r}; from {module} import {function.split('.')[0]} as f; sys.exit(f{''.join('.' + p for p in function.split('.')[1:])}())"
    return field("Version"), licence, ["/usr/bin/python3", "-c", code], {"PYTHONPATH": f"{home}/lib"}


def ask(command, env, home):
    """The tools that a server lists, or None and what it wrote to stderr."""
    inside = ["unshare", "-n", "sh", "-c", 'ip link set lo up 2>/dev/null; exec setpriv --reuid 65534 --regid 65534 --clear-groups "$@"', "sh"]
    errors = open(f"{home}/stderr", "w+b")
    child = subprocess.Popen(inside + command, env=env, cwd=f"{home}/home", stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors)
    watch = threading.Timer(START, child.kill)
    watch.start()
    tools, rest, asked = [], b"", 0

    def send(message):
        child.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        child.stdin.flush()

    try:
        send({"id": 0, "method": "initialize", "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "collect", "version": "1"}}})
        until = time.time() + START
        while time.time() < until:
            if not select.select([child.stdout], [], [], 1)[0]:
                continue
            chunk = os.read(child.stdout.fileno(), 1 << 16)
            if not chunk:
                break
            rest += chunk
            while b"\n" in rest:
                line, rest = rest.split(b"\n", 1)
                try:
                    message = json.loads(line)
                except ValueError:
                    continue
                if not isinstance(message, dict) or "id" not in message or "method" in message:
                    continue
                if message["id"] == 0:
                    send({"method": "notifications/initialized"})
                    asked += 1
                    send({"id": asked, "method": "tools/list"})
                elif "result" in message:
                    tools += message["result"].get("tools", [])
                    cursor = message["result"].get("nextCursor")
                    if not cursor or asked > 20:
                        return tools, ""
                    asked += 1
                    send({"id": asked, "method": "tools/list", "params": {"cursor": cursor}})
    except (BrokenPipeError, OSError):
        pass
    finally:
        watch.cancel()
        child.kill()
        child.wait()
        errors.seek(0)
        said = errors.read().decode(errors="replace") + rest.decode(errors="replace")
        errors.close()
    return None, said


def collect(line, work):
    spec, *arguments = line.split()
    kind, name = spec.split(":", 1)
    home = os.path.join(work, re.sub(r"[^A-Za-z0-9.-]", "_", spec))
    os.makedirs(f"{home}/home", exist_ok=True)
    os.chmod(f"{home}/home", 0o777)
    entry = {"package": spec}
    try:
        version, licence, command, extra = {"npm": npm, "pypi": pypi}[kind](name, home)
        env = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": f"{home}/home", "LANG": "C.UTF-8", **extra}
        given = [a for a in arguments if "=" not in a or a.startswith("-")]
        env.update(a.split("=", 1) for a in arguments if "=" in a and not a.startswith("-"))
        tools = None
        for _ in range(5):
            tools, said = ask(command + given, env, home)
            wanted = set(re.findall(r"\b[A-Z][A-Z0-9]*_[A-Z0-9_]{2,}\b", said)) - NEVER - set(env)
            if tools is not None or not wanted:
                break
            env.update({w: placeholder(w) for w in wanted})
        if tools is None:
            entry["error"] = " ".join(said.split())[-200:]
        else:
            entry.update(version=version, licence=licence, tools=[
                {"name": t["name"], "description": t.get("description") or "",
                 "arguments": list(((t.get("inputSchema") or {}).get("properties") or {}))} for t in tools])
    except Exception as error:
        entry["error"] = f"{type(error).__name__}: {str(error)[:200]}"
    shutil.rmtree(home, ignore_errors=True)
    return entry


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("packages")
    parser.add_argument("out")
    parser.add_argument("--work", default="/tmp/collect")
    parser.add_argument("--jobs", type=int, default=3)
    options = parser.parse_args()
    done = {json.loads(l)["package"] for l in open(options.out)} if os.path.exists(options.out) else set()
    lines = [l.strip() for l in open(options.packages) if l.strip() and l.split()[0] not in done]
    with open(options.out, "a") as out, concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for entry in pool.map(lambda l: collect(l, options.work), lines):
            out.write(json.dumps(entry, ensure_ascii=False) + "\n")
            out.flush()
            print(entry["package"], len(entry["tools"]) if "tools" in entry else entry["error"][:100], flush=True)


if __name__ == "__main__":
    main()
