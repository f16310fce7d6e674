"""The Debian package, with systemd units, completions and manual pages."""

from archive import ROOT, Entry, epoch, gzipped, tar, xzed
from contents import COMPLETIONS, SUMMARY, documents, shared_files, version

# Debian keeps zsh's completions of packages apart from the administrator's.
PLACES = {**COMPLETIONS, "zsh": "share/zsh/vendor-completions/_{0}"}


def build(programs, target, out):
    architecture = target.debian
    files = [Entry(f"./{one.name}", one.data, one.mode, one.link) for one in _files(programs)]
    size = sum(len(one.data) for one in files) // 1024
    control = (
        f"Package: muster\nVersion: {version()}\nArchitecture: {architecture}\nSection: utils\nPriority: optional\n"
        f"Maintainer: The muster authors <muster@example.invalid>\nInstalled-Size: {size}\n"
        f"Depends: {', '.join(_depends(programs))}\nRecommends: ca-certificates\nDescription: {SUMMARY}\n"
        " muster shows AI agents a handful of meta-tools (search, describe, call) instead of hundreds of\n"
        " definitions, and runs every call through one guarded path. climax, the same program under another\n"
        " name, turns any CLI into MCP tools.\n"
    )
    members = [
        ("debian-binary", b"2.0\n"),
        ("control.tar.gz", gzipped(tar([Entry("./control", control.encode())]))),
        ("data.tar.xz", xzed(tar(files), target.processor)),
    ]
    file = out / f"muster_{version()}_{architecture}.deb"
    file.write_bytes(_ar(members))
    return [file]


def _depends(programs):
    yield "libc6 (>= {}.{})".format(*programs.glibc)
    if b"libgcc_s.so.1" in programs.muster:
        yield "libgcc-s1"


def _files(programs):
    yield Entry("usr/bin/muster", programs.muster, 0o755)
    yield Entry("usr/bin/climax", link="muster")
    yield Entry("usr/share/doc/muster/copyright", documents()["LICENSE"])
    yield Entry("usr/share/doc/muster/changelog.gz", gzipped(documents()["CHANGELOG.md"]))
    yield from shared_files(programs, "usr", PLACES)
    units = ROOT / "packaging/systemd"
    yield Entry("usr/lib/systemd/system/muster.service", (units / "muster.service").read_bytes())
    yield Entry("usr/lib/systemd/user/muster.service", (units / "muster-user.service").read_bytes())


def _ar(members):
    out = [b"!<arch>\n"]
    for name, data in members:
        out.append(f"{name:<16}{epoch():<12}{0:<6}{0:<6}{100644:<8}{len(data):<10}`\n".encode())
        out.append(data)
        if len(data) % 2:
            out.append(b"\n")
    return b"".join(out)
