// Runs a program of the platform package, which npm chooses by `os` and `cpu`; there is no postinstall script.
"use strict";

const path = require("node:path");
const { spawn } = require("node:child_process");

const PACKAGES = {
  "linux x64": "@muster-mcp/linux-x64",
  "linux arm64": "@muster-mcp/linux-arm64",
  "darwin x64": "@muster-mcp/darwin-x64",
  "darwin arm64": "@muster-mcp/darwin-arm64",
};

function find(program) {
  const platform = `${process.platform} ${process.arch}`;
  const name = PACKAGES[platform];
  if (!name) {
    fail(`muster has no package for ${platform}; build it from source`);
  }
  try {
    return path.join(path.dirname(require.resolve(`${name}/package.json`)), "bin", program);
  } catch {
    fail(`the package ${name} is not installed; install muster-mcp again without --omit=optional`);
  }
}

function fail(message) {
  console.error(`error: ${message}`);
  process.exit(1);
}

module.exports = function run(program) {
  const file = find(program);
  const words = process.argv.slice(2);
  // Where Node can, it becomes the program: no process stays between a client and its server.
  if (typeof process.execve === "function") {
    try {
      process.execve(file, [program, ...words], process.env);
    } catch {
      // Fall through to a child process.
    }
  }
  const child = spawn(file, words, { stdio: "inherit" });
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
