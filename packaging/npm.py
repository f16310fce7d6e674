"""The npm packages: `muster-mcp`, and one package for each platform that it depends on optionally."""

import json

from archive import ROOT, Entry, gzipped, tar
from contents import SUMMARY, documents, repository, shared_files, version
from targets import TARGETS


def build(programs, target, out):
    return [_platform(programs, target, out), _main(programs, out)]


def _platform(programs, target, out):
    system, processor, libc = target.npm
    about = {
        "name": f"@muster-mcp/{target.npm_name}",
        "version": version(),
        "description": f"The programs of muster-mcp for {system} on {processor}",
        "license": "Apache-2.0",
        "repository": _repository(),
        "os": [system],
        "cpu": [processor],
        **({"libc": [libc]} if libc else {}),
        "files": ["bin"],
    }
    entries = [
        Entry("package/package.json", _json(about)),
        Entry("package/LICENSE", documents()["LICENSE"]),
        # Also `climax`: run.js starts it by that name.
        Entry("package/bin/muster", programs.muster, 0o755),
    ]
    return _pack(out / f"muster-mcp-{target.npm_name}-{version()}.tgz", entries)


def _main(programs, out):
    about = {
        "name": "muster-mcp",
        "version": version(),
        "description": SUMMARY,
        "license": "Apache-2.0",
        "repository": _repository(),
        "keywords": ["mcp", "ai", "agents", "cli", "gateway"],
        "bin": {"muster": "muster.js", "climax": "climax.js"},
        "man": [f"./share/man/man1/{name}" for name in programs.man_pages],
        "files": ["run.js", "muster.js", "climax.js", "share"],
        "engines": {"node": ">=18"},
        "optionalDependencies": {f"@muster-mcp/{target.npm_name}": version() for target in TARGETS.values()},
    }
    start = '#!/usr/bin/env node\nrequire("./run.js")("{0}");\n'
    entries = [
        Entry("package/package.json", _json(about)),
        Entry("package/README.md", documents()["README.md"]),
        Entry("package/LICENSE", documents()["LICENSE"]),
        Entry("package/run.js", (ROOT / "packaging/npm/run.js").read_bytes()),
        *shared_files(programs, "package"),
        *(Entry(f"package/{name}.js", start.format(name).encode(), 0o755) for name in ("muster", "climax")),
    ]
    return _pack(out / f"muster-mcp-{version()}.tgz", entries)


def _repository():
    """npm refuses the provenance of a package that names no repository, or another one."""
    return {"type": "git", "url": f"git+{repository()}.git"}


def _pack(file, entries):
    file.write_bytes(gzipped(tar(entries)))
    return file


def _json(value):
    return (json.dumps(value, indent=2) + "\n").encode()
