// Runs the program of the platform package, which npm chooses by `os`, `cpu` and `libc`; there is no postinstall script.
"use strict";

const fs = require("node:fs");
const path = require("node:path");
const { spawn } = require("node:child_process");

const PLATFORMS = ["linux x64", "linux arm64", "darwin x64", "darwin arm64"];

// The names of the platform packages, the preferred one first. Programs for musl are static and run on any Linux.
function candidates() {
  const name = `@muster-mcp/${process.platform}-${process.arch}`;
  if (process.platform !== "linux") {
    return [name];
  }
  const processor = process.arch === "arm64" ? "aarch64" : "x86_64";
  const musl = fs.existsSync(`/lib/ld-musl-${processor}.so.1`);
  return musl ? [`${name}-musl`, name] : [name, `${name}-musl`];
}

function find() {
  const platform = `${process.platform} ${process.arch}`;
  if (!PLATFORMS.includes(platform)) {
    fail(`muster has no package for ${platform}; build it from source`);
  }
  for (const name of candidates()) {
    try {
      return path.join(path.dirname(require.resolve(`${name}/package.json`)), "bin", "muster");
    } catch {
      // Not installed: try the next one.
    }
  }
  fail(`the package ${candidates()[0]} is not installed; install muster-mcp again without --omit=optional`);
}

function fail(message) {
  console.error(`error: ${message}`);
  process.exit(1);
}

// Started as `climax`, the program is `climax`.
module.exports = function run(name) {
  const file = find();
  const words = process.argv.slice(2);
  // Where Node can, it becomes the program: no process stays between a client and its server.
  if (typeof process.execve === "function") {
    try {
      process.execve(file, [name, ...words], process.env);
    } catch {
      // Fall through to a child process.
    }
  }
  const child = spawn(file, words, { argv0: name, stdio: "inherit" });
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) {
    process.on(signal, () => child.kill(signal));
  }
  child.on("error", (error) => fail(`cannot start ${file}: ${error.message}`));
  child.on("exit", (code, signal) => {
    if (signal) {
      process.removeAllListeners(signal);
      process.kill(process.pid, signal);
    } else {
      process.exit(code);
    }
  });
};
