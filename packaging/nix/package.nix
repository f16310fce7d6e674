# The programs from this tree, with manual pages and completions. Tests need a home, a network and other programs: they
# are run by scripts/test instead.
{
  lib,
  rustPlatform,
  installShellFiles,
}:

rustPlatform.buildRustPackage {
  pname = "muster";
  version = (lib.importTOML ../../Cargo.toml).workspace.package.version;
  src = lib.cleanSource ../..;
  cargoLock.lockFile = ../../Cargo.lock;
  # Optimised across all crates, as every package.
  buildType = "dist";
  cargoBuildFlags = [
    "--package"
    "muster"
  ];
  doCheck = false;
  nativeBuildInputs = [ installShellFiles ];

  postInstall = ''
    # The launcher finds the program beside it; a link needs no launcher.
    ln -sf muster $out/bin/climax
    $out/bin/muster man pages
    installManPage pages/*
    for shell in bash zsh fish; do
      installShellCompletion --cmd muster --$shell <($out/bin/muster completion $shell)
      installShellCompletion --cmd climax --$shell <($out/bin/climax completions $shell)
    done
  '';

  meta = {
    description = "One MCP endpoint in front of every CLI and every MCP server you have";
    license = lib.licenses.asl20;
    mainProgram = "muster";
    platforms = lib.platforms.linux ++ lib.platforms.darwin;
  };
}
