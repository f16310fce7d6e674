"""The platforms that packages are for, and what each package format calls them."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Target:
    """A target of rustc; None where a format has no package for it."""

    triple: str
    # As Rust's `std::env::consts` and so `muster self-update` have them.
    system: str
    processor: str
    # The platform of a wheel; `{glibc}` is the version that the programs need.
    wheel: str
    # `os`, `cpu` and `libc` of a package.json.
    npm: tuple[str, str, str | None]
    debian: str | None = None
    # The processor of an OCI image.
    image: str | None = None

    @property
    def npm_name(self):
        system, processor, libc = self.npm
        return f"{system}-{processor}" + ("-musl" if libc == "musl" else "")


TARGETS = {
    target.triple: target
    for target in (
        Target("x86_64-unknown-linux-gnu", "linux", "x86_64", "manylinux_{glibc}_x86_64",
               ("linux", "x64", "glibc"), "amd64", "amd64"),
        Target("aarch64-unknown-linux-gnu", "linux", "aarch64", "manylinux_{glibc}_aarch64",
               ("linux", "arm64", "glibc"), "arm64", "arm64"),
        Target("x86_64-unknown-linux-musl", "linux", "x86_64", "musllinux_1_1_x86_64", ("linux", "x64", "musl")),
        Target("aarch64-unknown-linux-musl", "linux", "aarch64", "musllinux_1_1_aarch64", ("linux", "arm64", "musl")),
        Target("x86_64-apple-darwin", "macos", "x86_64", "macosx_10_12_x86_64", ("darwin", "x64", None)),
        Target("aarch64-apple-darwin", "macos", "aarch64", "macosx_11_0_arm64", ("darwin", "arm64", None)),
    )
}
