"""The software bill of materials: every crate that the programs are built from, as CycloneDX 1.5."""

import json
import subprocess
import tomllib
import uuid

from archive import ROOT, timestamp
from contents import SUMMARY, version


def build(_programs, target, out):
    file = out / f"muster-{version()}-{target.triple}.cdx.json"
    file.write_text(json.dumps(document(target), indent=1, sort_keys=True) + "\n")
    return [file]


def document(target):
    packages, edges, root = _graph(target)
    checksums = _checksums()
    linked, rest = set(), [root]
    while rest:
        one = rest.pop()
        if one not in linked:
            linked.add(one)
            rest += edges[one]
    rows = sorted(linked, key=lambda one: _reference(packages[one]))
    components = [_component(packages[one], checksums) for one in rows if one != root]
    dependencies = [
        {"ref": _reference(packages[one]), "dependsOn": sorted(_reference(packages[other]) for other in edges[one])}
        for one in rows
    ]
    about = {**_component(packages[root], checksums), "type": "application", "description": SUMMARY}
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        # The same for the same contents: a random number would make every build differ.
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, json.dumps([target.triple, about, components]))}",
        "version": 1,
        "metadata": {"timestamp": timestamp(), "component": about},
        "components": components,
        "dependencies": dependencies,
    }


def _graph(target):
    """Packages by id, what each depends on (its tests and build script aside), and the id of muster."""
    command = ["cargo", "metadata", "--locked", "--format-version=1", f"--filter-platform={target.triple}"]
    shown = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    data = json.loads(shown)
    packages = {one["id"]: one for one in data["packages"]}
    edges = {
        node["id"]: [one["pkg"] for one in node["deps"] if any(kind["kind"] is None for kind in one["dep_kinds"])]
        for node in data["resolve"]["nodes"]
    }
    root = next(key for key, one in packages.items() if one["name"] == "muster")
    return packages, edges, root


def _component(package, checksums):
    name, number = package["name"], package["version"]
    component = {"type": "library", "bom-ref": _reference(package), "name": name, "version": number}
    if package["source"]:
        component["purl"] = f"pkg:cargo/{name}@{number}"
    if package["license"]:
        # Older manifests separate alternatives with a slash.
        component["licenses"] = [{"expression": package["license"].replace("/", " OR ")}]
    if checksum := checksums.get((name, number)):
        component["hashes"] = [{"alg": "SHA-256", "content": checksum}]
    return component


def _reference(package):
    return f"{package['name']}@{package['version']}"


def _checksums():
    lock = tomllib.loads((ROOT / "Cargo.lock").read_text())
    return {(one["name"], one["version"]): one.get("checksum") for one in lock["package"]}
