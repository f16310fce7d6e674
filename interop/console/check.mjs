// Drives a real browser through every page and action of the console.
//
//   node check.mjs MUSTER       with playwright-core and axe-core below $MUSTER_CONSOLE_DIR (target/console)
//
// Every page is visited with and without JavaScript, at 360 and 1440 pixels, light and dark. It must fit the screen,
// load nothing from elsewhere, violate no security policy, and have no accessibility problem that axe-core finds.
// Screenshots are in target/console-screenshots.
import { spawn, execFileSync } from "node:child_process";
import fs from "node:fs";
import { createRequire } from "node:module";
import os from "node:os";
import path from "node:path";
import readline from "node:readline";
import { fileURLToPath } from "node:url";
import { PAGES, act } from "./actions.mjs";

const here = path.dirname(fileURLToPath(import.meta.url));
const root = path.resolve(here, "../..");
const modules = process.env.MUSTER_CONSOLE_DIR ?? path.join(root, "target/console");
const require = createRequire(path.join(modules, "package.json"));
const { chromium } = require("playwright-core");
const AXE = fs.readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");
const SHOTS = path.join(root, "target/console-screenshots");
const muster = path.resolve(process.argv[2] ?? path.join(root, "target/debug/muster"));

let passed = 0;
const failures = [];
function check(holds, what) {
  if (holds) passed += 1;
  else {
    failures.push(what);
    console.error(`FAILED: ${what}`);
  }
}

/** A gateway with servers in every state. */
async function gateway(folder) {
  const write = (name, text) => {
    const file = path.join(folder, name);
    fs.mkdirSync(path.dirname(file), { recursive: true });
    fs.writeFileSync(file, text);
  };
  write("config.yaml", "aggregator: {port: 0}\nclis: {bundled: none}\n");
  const notes = [process.execPath, path.join(here, "server.mjs")];
  write("mcpservers/notes.yaml", `{name: notes, type: stdio, autoStart: true, description: Notes of the team,
    command: ${notes[0]}, args: [${notes[1]}], env: {NOTES_TOKEN: very-secret-canary}}`);
  write("mcpservers/broken.yaml", "{name: broken, type: stdio, autoStart: true, command: /nonexistent/program}");
  write("mcpservers/later.yaml", `{name: later, type: stdio, autoStart: false, command: ${notes[0]}, args: [${notes[1]}]}`);
  write("mcpservers/pending.yaml", "{name: pending, type: stdio, autoStart: true, command: 'true', approval: pending}");
  write("workflows/morning.yaml", `{name: morning, description: Reads the notes of the day,
    args: {title: {type: string, required: true, description: The note to begin with}},
    steps: [{id: list, tool: x_notes_list_notes}, {id: read, tool: x_notes_read_note, args: {title: '{{ .input.title }}'}}]}`);
  write("policies/main.yaml", `default: enabled
effect: write
tools:
  notes/read_note: {args: {title: {pattern: '[^!]+'}}}
callers:
  - users: ["*@ops.example.com"]
    effect: destructive
  - groups: [developers]
    toolset: reading
  - tokens: [admin]
    operator: true
  - anonymous: true
    effect: destructive
`);
  write("toolsets/reading.yaml", "description: For reviews\nservers: [notes]\neffect: read\n");
  const env = { ...process.env, HOME: folder };
  for (const name of ["XDG_STATE_HOME", "MUSTER_ACCESS", "MUSTER_STATE_PATH", "MUSTER_CONTEXT"]) delete env[name];
  const child = spawn(muster, ["serve", "--config-path", folder], { env, stdio: ["ignore", "ignore", "pipe"] });
  const lines = readline.createInterface({ input: child.stderr });
  const url = await new Promise((resolve, reject) => {
    child.on("exit", (code) => reject(new Error(`the gateway ended with ${code}`)));
    lines.on("line", (line) => {
      const found = /listening on (\S+)/.exec(line);
      if (found) resolve(found[1]);
    });
  });
  const command = (...words) =>
    execFileSync(muster, [...words, "--endpoint", url], { env, encoding: "utf8" }).trim();
  return { url, child, command, login: () => command("console", "--no-open") };
}

/** A page in a browser context of its own, logged in. */
async function open(browser, gate, { js, width, scheme }) {
  const context = await browser.newContext({
    javaScriptEnabled: js,
    viewport: { width, height: width < 500 ? 740 : 900 },
    colorScheme: scheme,
  });
  const page = await context.newPage();
  const where = `${js ? "js" : "no-js"} ${width} ${scheme}`;
  page.on("console", (line) => check(line.type() !== "error" || /status of 4|INTERNET_DISCONNECTED/.test(line.text()), `${where}: ${line.text()}`));
  page.on("pageerror", (error) => check(false, `${where}: ${error}`));
  const url = gate.login();
  const origin = new URL(url).origin;
  page.on("request", (request) => {
    const known = request.url().startsWith(`${origin}/console`) || request.url().startsWith("data:");
    check(known, `${where}: a request to ${request.url()}`);
  });
  await page.goto(url);
  return { page, origin, where, context };
}

/** Checks the page that is shown, and takes a picture of it. */
async function inspect({ page, where }, name, { js, width, scheme }) {
  const at = `${name} ${where}`;
  check((await page.title()).endsWith("· muster"), `${at}: the title is ${await page.title()}`);
  check((await page.locator("main h1").count()) >= 1, `${at}: a heading`);
  const wide = await page.evaluate(() => document.documentElement.scrollWidth);
  check(wide <= width, `${at}: ${wide} pixels wide`);
  const text = await page.content();
  check(!text.includes("very-secret-canary"), `${at}: a secret`);
  if (js) {
    await page.evaluate(AXE);
    const { violations } = await page.evaluate(() => globalThis.axe.run());
    for (const found of violations) {
      check(false, `${at}: ${found.id}: ${found.help}: ${found.nodes.map((node) => node.html).slice(0, 3).join(" ")}`);
    }
    check(violations.length === 0, `${at}: axe`);
    await page.screenshot({ path: path.join(SHOTS, `${name}-${width}-${scheme}.png`), fullPage: true });
  }
}

const folder = fs.mkdtempSync(path.join(os.tmpdir(), "muster-console-"));
fs.mkdirSync(SHOTS, { recursive: true });
const gate = await gateway(folder);
const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
  args: ["--no-sandbox", "--disable-gpu"],
});
try {
  const settings = [
    { js: true, width: 1440, scheme: "light" },
    { js: true, width: 360, scheme: "dark" },
    { js: true, width: 360, scheme: "light" },
    { js: true, width: 1440, scheme: "dark" },
    { js: false, width: 1440, scheme: "light" },
    { js: false, width: 360, scheme: "light" },
  ];
  for (const setting of settings) {
    const view = await open(browser, gate, setting);
    for (const [name, url] of Object.entries(PAGES)) {
      const reply = await view.page.goto(view.origin + url);
      check(reply.status() === 200, `${url}: ${reply.status()}`);
      await inspect(view, name, setting);
      const json = await view.page.request.get(`${view.origin}${url}${url.includes("?") ? "&" : "?"}format=json`);
      check(json.headers()["content-type"] === "application/json" && (await json.json()), `${url}: JSON`);
    }
    await act(view, setting, { check, inspect, gate });
    await view.context.close();
  }
} finally {
  await browser.close();
  gate.child.removeAllListeners("exit");
  gate.child.kill();
  fs.rmSync(folder, { recursive: true, force: true, maxRetries: 10 });
}
console.log(`${passed} passed, ${failures.length} failed`);
process.exit(failures.length ? 1 : 0);
