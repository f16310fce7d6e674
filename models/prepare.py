#!/usr/bin/env python3
"""Makes data/tools.jsonl.gz from collected tool lists and the bundled CLI definitions.

    python3 models/prepare.py COLLECTED.jsonl... --sets ../shared/retrieval

Left out, so that no evaluation set is trained on: servers whose package name, or its part after the scope, is a server
of a set; servers of which more than a third of the tool names are those of one server of `livemcp_step` or
`mcpproxy45`; tools with the same description (the first 120 letters), or the same name and beginning of the
description, as a tool of any set; servers that lose more than a third of their tools so. Left out, too, are packages
under other licences than MIT, Apache-2.0, ISC and BSD.
"""
import argparse, collections, glob, gzip, io, json, os, re

import yaml

HERE = os.path.dirname(os.path.abspath(__file__))
SETS = ["livemcp_step_8k", "livemcp_step", "mcpproxy45", "metatool_multi", "sealtools_dev", "toollinkos"]
REAL = ["livemcp_step_8k", "livemcp_step", "mcpproxy45"]  # their servers are real ones
PLAIN = {"mcp", "mcp-server", "server", "core", "git", "files"}  # names that say nothing after a scope
LICENCES = [("Apache", "Apache-2.0"), ("MIT", "MIT"), ("ISC", "ISC"), ("BSD", "BSD")]
# Licence files of packages whose metadata names no licence.
READ = {
    "npm:@cloudinary/asset-management-mcp": "MIT", "npm:@winor30/mcp-server-datadog": "Apache-2.0", "pypi:astro-airflow-mcp": "Apache-2.0",
    "pypi:awslabs.well-architected-security-mcp-server": "Apache-2.0", "pypi:freshdesk-mcp": "MIT", "pypi:ida-pro-mcp": "MIT",
    "pypi:mcp-jenkins": "MIT", "pypi:mcp-obsidian": "MIT", "pypi:prefect-mcp": "MIT", "pypi:prometheus-mcp-server": "MIT",
}


def plain(text):
    return re.sub(r"[^a-z0-9]+", " ", text.lower()).strip()


def last(name):
    name = name.lower().split("/")[-1]
    return "" if name in PLAIN else name


class Known:
    """What the evaluation sets hold."""

    def __init__(self, folder):
        self.servers, self.descriptions, self.pairs, self.names = set(), set(), set(), collections.defaultdict(set)
        for name in SETS:
            for tool in map(json.loads, open(f"{folder}/{name}/tools.jsonl")):
                text = plain(tool["description"] or "")
                if name in REAL:
                    self.servers.add(tool["server"].lower())
                if name in REAL[1:]:
                    self.names[tool["server"]].add(plain(tool["name"]))
                if len(text) >= 20:
                    self.descriptions.add(text[:120])
                self.pairs.add((plain(tool["name"]), text[:40]))
        self.lasts = {last(s) for s in self.servers} - {""}

    def holds(self, tool):
        text = plain(tool["description"])
        return (len(text) >= 20 and text[:120] in self.descriptions) or (plain(tool["name"]), text[:40]) in self.pairs

    def reason(self, name, tools, rest):
        """Why a server is left out, or None."""
        if name.lower() in self.servers or last(name) in self.lasts:
            return "its name is in a set"
        if (len(tools) - len(rest)) * 3 > len(tools):
            return f"{len(tools) - len(rest)} of {len(tools)} tools are in a set"
        names = {plain(t["name"]) for t in tools}
        same, server = max(((len(names & v), k) for k, v in self.names.items()), default=(0, ""))
        if same > 1 and same * 3 > len(names):
            return f"{same} of {len(names)} tools are named as those of {server}"
        return None


def licence(entry):
    text = READ.get(entry["package"]) or " ".join(entry["licence"].split())
    if "GPL" in text or "FSL" in text:
        return None
    return next((name for word, name in LICENCES if word in text), None)


def entries(paths):
    for path in paths:
        for entry in map(json.loads, open(path)):
            if entry.get("tools"):
                yield entry
    for path in sorted(glob.glob(f"{HERE}/../configs/*.yaml")):
        config = yaml.safe_load(open(path))
        tools = [{"name": t["name"], "description": t.get("description", ""), "arguments": [a["name"] for a in t.get("args", [])]} for t in config["tools"]]
        yield {"package": f"muster:{os.path.basename(path)[:-5]}", "version": "main", "licence": "Apache-2.0", "tools": tools}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("collected", nargs="+")
    parser.add_argument("--sets", required=True)
    options = parser.parse_args()
    known, seen, servers, out = Known(options.sets), set(), set(), {}
    for entry in entries(options.collected):
        package = entry["package"]
        kind, name = package.split(":", 1)
        rest = [t for t in entry["tools"] if not known.holds(t)]
        reason = known.reason(name, entry["tools"], rest)
        signature = tuple(sorted(t["name"] for t in rest))
        if reason is None and signature in seen:
            continue
        seen.add(signature)
        allowed = licence(entry)
        if reason or not allowed:
            print(f"{package}: {reason or 'licence ' + repr(entry['licence'])}")
            continue
        server = name if package.startswith("npm:@") else name.split("/")[-1]
        if server in servers:
            server = f"{name}-{kind}"
        servers.add(server)
        for tool in rest:
            key = f"{server}/{tool['name']}"
            out.setdefault(key, {
                "id": key, "server": server, "name": tool["name"], "description": " ".join(tool["description"].split())[:600],
                "arguments": tool["arguments"][:24], "package": package, "version": entry["version"], "licence": allowed})
    packed = io.BytesIO()
    with gzip.GzipFile(fileobj=packed, mode="wb", mtime=0, compresslevel=9) as file:
        for key in sorted(out):
            file.write((json.dumps(out[key], ensure_ascii=False, separators=(",", ":")) + "\n").encode())
    open(f"{HERE}/data/tools.jsonl.gz", "wb").write(packed.getvalue())
    print(f"{len(servers)} servers, {len(out)} tools")


if __name__ == "__main__":
    main()
