"""What every package contains: the program, its launcher, manual pages, completions, licence."""

import dataclasses
import pathlib
import re
import subprocess
import tempfile

from archive import ROOT, Entry, gzipped

NAME = "muster"
SUMMARY = "One MCP endpoint in front of every CLI and every MCP server you have"


def version():
    return re.search(r'^version = "(.*)"$', (ROOT / "Cargo.toml").read_text(), re.M).group(1)


@dataclasses.dataclass
class Programs:
    """The built programs: `muster`, and the launcher that is `climax` where links are not possible."""

    folder: pathlib.Path

    def muster(self):
        return (self.folder / "muster").read_bytes()

    def climax(self):
        return (self.folder / "climax").read_bytes()

    def man_pages(self):
        """Compressed manual pages by file name."""
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([self.folder / "muster", "man", folder], check=True, stdout=subprocess.DEVNULL)
            return {f"{page.name}.gz": gzipped(page.read_bytes()) for page in sorted(pathlib.Path(folder).iterdir())}

    def completion(self, program, shell):
        words = {"muster": ["completion", shell], "climax": ["climax", "completions", shell]}[program]
        shown = subprocess.run([self.folder / "muster", *words], check=True, capture_output=True)
        return shown.stdout

    def completions(self):
        """Completion scripts by path below a completions folder."""
        names = {"bash": "{0}.bash", "zsh": "_{0}", "fish": "{0}.fish", "powershell": "{0}.ps1"}
        return {
            (shell, program): (pattern.format(program), self.completion(program, shell))
            for shell, pattern in names.items()
            for program in ("muster", "climax")
        }


def documents():
    return {name: (ROOT / name).read_bytes() for name in ("LICENSE", "README.md", "CHANGELOG.md")}


def tree(programs, prefix):
    """The files of the tarball below a prefix."""
    yield Entry(f"{prefix}/muster", programs.muster(), 0o755)
    yield Entry(f"{prefix}/climax", link="muster")
    for name, data in documents().items():
        yield Entry(f"{prefix}/{name}", data)
    for name, data in programs.man_pages().items():
        yield Entry(f"{prefix}/man/man1/{name}", data)
    for (shell, _), (name, data) in programs.completions().items():
        yield Entry(f"{prefix}/completions/{shell}/{name}", data)
