"""The Homebrew formula, made from the tarballs in the output folder."""

import tarball
from archive import sha256
from contents import SUMMARY, repository, version
from targets import TARGETS

# Homebrew's names for systems and processors.
BLOCKS = {"on_macos": "apple-darwin", "on_linux": "unknown-linux-gnu"}
PROCESSORS = {"on_arm": "aarch64", "on_intel": "x86_64"}


def build(out):
    lines = [
        "class Muster < Formula",
        f'  desc "{SUMMARY}"',
        f'  homepage "{repository()}"',
        f'  version "{version()}"',
        '  license "Apache-2.0"',
    ]
    for block, system in BLOCKS.items():
        found = [row for name, processor in PROCESSORS.items() for row in _download(name, f"{processor}-{system}", out)]
        if found:
            lines += ["", f"  {block} do", *found, "  end"]
    lines += [
        "",
        "  def install",
        '    bin.install "bin/muster"',
        '    bin.install_symlink "muster" => "climax"',
        '    man1.install Dir["share/man/man1/*"]',
        '    bash_completion.install Dir["share/bash-completion/completions/*"]',
        '    zsh_completion.install Dir["share/zsh/site-functions/*"]',
        '    fish_completion.install Dir["share/fish/vendor_completions.d/*"]',
        "  end",
        "",
        "  test do",
        '    assert_match version.to_s, shell_output("#{bin}/muster --version")',
        '    assert_match "git", shell_output("#{bin}/climax list")',
        "  end",
        "end",
    ]
    file = out / "muster.rb"
    file.write_text("\n".join(lines) + "\n")
    return [file]


def _download(processor, triple, out):
    file = out / f"{tarball.name(TARGETS[triple])}.tar.xz"
    if not file.exists():
        return []
    return [
        f"    {processor} do",
        f'      url "{repository()}/releases/download/v{version()}/{file.name}"',
        f'      sha256 "{sha256(file.read_bytes())}"',
        "    end",
    ]
