"""What packages contain: the program, its launcher, manual pages, completions, licence."""

import dataclasses
import functools
import os
import pathlib
import re
import subprocess
import tempfile

from archive import ROOT, Entry, gzipped

SUMMARY = "One MCP endpoint in front of every CLI and every MCP server you have"
SHELLS = ("bash", "zsh", "fish", "powershell")
# Where shells look for completions below a prefix. PowerShell has no such place: its profile has to load the file.
COMPLETIONS = {
    "bash": "share/bash-completion/completions/{0}",
    "zsh": "share/zsh/site-functions/_{0}",
    "fish": "share/fish/vendor_completions.d/{0}.fish",
    "powershell": "share/muster/completions/{0}.ps1",
}


def version():
    return re.search(r'^version = "(.*)"$', (ROOT / "Cargo.toml").read_text(), re.M).group(1)


def repository():
    """The repository that publishes the packages, as GitHub's workflows name it."""
    return f"https://github.com/{os.environ.get('GITHUB_REPOSITORY', 'OWNER/muster')}"


@dataclasses.dataclass(frozen=True)
class Programs:
    """The built programs: `muster`, and the launcher that is `climax` where links are not possible."""

    folder: pathlib.Path

    @functools.cached_property
    def muster(self):
        return (self.folder / "muster").read_bytes()

    @functools.cached_property
    def climax(self):
        return (self.folder / "climax").read_bytes()

    @functools.cached_property
    def glibc(self):
        """The oldest glibc they run with, by the versions of the symbols they need; (0, 0) if none."""
        found = re.findall(rb"\0GLIBC_(\d+)\.(\d+)", self.muster + self.climax)
        return max(((int(major), int(minor)) for major, minor in found), default=(0, 0))

    @functools.cached_property
    def has_symbols(self):
        """Whether they have a symbol table. Those of the profile `dist`, which packages contain, have none."""
        return b"\0.symtab\0" in self.muster

    @functools.cached_property
    def man_pages(self):
        """Compressed manual pages by file name."""
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([self.folder / "muster", "man", folder], check=True, stdout=subprocess.DEVNULL)
            return {f"{page.name}.gz": gzipped(page.read_bytes()) for page in sorted(pathlib.Path(folder).iterdir())}

    @functools.cached_property
    def completions(self):
        """Completion scripts by shell and program."""
        return {(shell, program): self._completion(program, shell) for shell in SHELLS for program in ("muster", "climax")}

    def prepare(self):
        """Reads and makes everything above."""
        for name in ("muster", "climax", "glibc", "man_pages", "completions"):
            getattr(self, name)

    def _completion(self, program, shell):
        words = {"muster": ["completion", shell], "climax": ["climax", "completions", shell]}[program]
        return subprocess.run([self.folder / "muster", *words], check=True, capture_output=True).stdout


def documents():
    return {name: (ROOT / name).read_bytes() for name in ("LICENSE", "NOTICE", "README.md", "CHANGELOG.md")}


def shared_files(programs, prefix, completions=COMPLETIONS):
    """Manual pages and completions where programs look for them below a prefix such as `usr`."""
    for name, data in programs.man_pages.items():
        yield Entry(f"{prefix}/share/man/man1/{name}", data)
    for (shell, program), data in programs.completions.items():
        yield Entry(f"{prefix}/{completions[shell].format(program)}", data)
