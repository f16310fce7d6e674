// The pages, and what a user does on them, with and without JavaScript.

export const PAGES = {
  overview: "/console",
  servers: "/console/servers",
  server: "/console/servers/notes",
  "server-broken": "/console/servers/broken",
  "server-new": "/console/servers/-/new",
  tools: "/console/tools",
  search: "/console/tools?q=delete+a+note",
  tool: "/console/tools/x_notes_delete_note",
  calls: "/console/calls",
  "calls-filtered": "/console/calls?status=error",
  workflows: "/console/workflows",
  workflow: "/console/workflows/morning",
  services: "/console/services",
  service: "/console/services/mcp-aggregator",
  events: "/console/events",
  policies: "/console/policies",
  "policy-yes": "/console/policies?tool=x_notes_read_note&arguments=%7B%22title%22%3A%22Plan%22%7D&user=ann%40ops.example.com",
  "policy-no": "/console/policies?tool=x_notes_delete_note&user=bob%40example.com",
  people: "/console/people",
  "server-import": "/console/servers/-/import",
  "workflow-new": "/console/workflows/-/new",
  settings: "/console/settings",
};

/** Follows a form or a link and waits for the page behind it. */
async function go(page, locator) {
  await Promise.all([page.waitForNavigation(), locator.click()]);
}

export async function act(view, setting, { check, inspect, gate }) {
  const { page, origin, where } = view;
  const visit = (url) => page.goto(origin + url);
  const says = async (text, what) => check((await page.locator("main").innerText()).includes(text), `${where}: ${what}: ${text}`);

  // Search as an agent does, and try a tool.
  await visit("/console/tools");
  await page.getByRole("searchbox").fill("read a note");
  await go(page, page.getByRole("button", { name: "Search" }));
  await says("found", "the verdict of a search");
  await go(page, page.getByRole("link", { name: "x_notes_read_note" }));
  await page.getByLabel("title").fill("<b>Plan</b>");
  await go(page, page.getByRole("button", { name: "Call the tool" }));
  await says("You asked for <b>Plan</b>", "the result of a call");
  await says("<script>document.title", "markup of a tool as text");
  check((await page.title()) !== "owned", `${where}: the script of a tool ran`);
  check((await page.locator("main script, main img").count()) === 0, `${where}: markup of a tool is in the page`);
  await says("muster call x_notes_read_note --json", "the call as a command");
  await inspect(view, "tool-result", setting);

  await visit("/console/tools/x_notes_list_notes");
  await page.getByLabel("tags").fill("a\nb");
  await go(page, page.getByRole("button", { name: "Call the tool" }));
  check((await page.locator(".tree details").count()) > 1, `${where}: JSON as a tree`);
  await visit("/console/tools/x_notes_draw");
  await go(page, page.getByRole("button", { name: "Call the tool" }));
  const width = await page.locator("img.picture").evaluate((image) => image.naturalWidth);
  check(width === 1, `${where}: the picture is shown`);
  await inspect(view, "tool-picture", setting);
  await visit("/console/tools/x_notes_sing");
  await go(page, page.getByRole("button", { name: "Call the tool" }));
  if (setting.js) {
    const seconds = await page.locator("main audio").evaluate((audio) => new Promise((resolve) => {
      if (audio.readyState > 0) resolve(audio.duration);
      audio.addEventListener("loadedmetadata", () => resolve(audio.duration));
      audio.addEventListener("error", () => resolve(audio.error.message));
    }));
    check(seconds === 0.001, `${where}: the sound can be played: ${seconds}`);
  }
  check(await page.locator("main audio[controls]").isVisible(), `${where}: the sound is shown`);

  // Calls are recorded in the background.
  do await visit("/console/calls?tool=x_notes_draw");
  while (!(await page.locator("#calls td a").count()));
  await go(page, page.locator("#calls td a").first());
  await says("x_notes_draw", "a call of the past");
  await inspect(view, "call", setting);

  // Servers: add one, stop it, start it, delete it.
  await visit("/console/servers");
  await go(page, page.getByRole("link", { name: "Add a server" }));
  await page.getByLabel("name required").fill("Not a name!");
  await page.getByLabel("type").first().selectOption("stdio");
  await go(page, page.getByRole("button", { name: "Add the server" }));
  check((await page.locator(".notice.bad").count()) === 1, `${where}: a wrong definition is refused`);
  await inspect(view, "server-refused", setting);
  await page.getByLabel("name required").fill("extra");
  await page.getByLabel("command", { exact: false }).first().fill("true");
  await go(page, page.getByRole("button", { name: "Add the server" }));
  await says("The server was added", "a new server");
  await go(page, page.getByRole("button", { name: "Enable" }).or(page.getByRole("button", { name: "Restart" })));
  await visit("/console/servers/extra");
  await page.getByText("Delete…").click();
  await go(page, page.getByRole("button", { name: "Delete it and its file" }));
  await says("The server was deleted", "a deleted server");

  await visit("/console/servers/notes");
  await go(page, page.getByRole("button", { name: "Restart" }));
  await says("It was restarted", "a restart");
  await says("running", "the state after a restart");

  // Workflows: run one and look at the run.
  await visit("/console/workflows/morning");
  await page.getByLabel("title").fill("Plan");
  await go(page, page.getByRole("button", { name: "Run the workflow" }));
  await says("succeeded", "the run of a workflow");
  await visit("/console/workflows/morning");
  await go(page, page.locator("#runs td a").first());
  await says("Run of morning", "a run");
  await inspect(view, "run", setting);

  // Select recorded calls and save them as a workflow.
  await visit("/console/calls?tool=x_notes_list_notes");
  // The oldest is no step of a workflow.
  await page.locator("#calls input[type=checkbox]").last().check();
  await go(page, page.getByRole("button", { name: "Create a workflow from the selected calls" }));
  await says("fill in the arguments", "what a draft lacks");
  await inspect(view, "workflow-draft", setting);
  await page.getByLabel("Name", { exact: true }).fill("recorded");
  await go(page, page.getByRole("button", { name: "Save the workflow" }));
  await says("The workflow was saved", "a workflow of recorded calls");
  gate.command("delete", "workflow", "recorded", "--yes");

  // Import servers of another client.
  await visit("/console/servers/-/import");
  await page.getByLabel("Configuration as JSON").fill("{}");
  await go(page, page.getByRole("button", { name: "Import the servers" }));
  await says("there is no object", "a configuration without servers");
  await page.getByLabel("Configuration as JSON").fill('{"mcpServers": {"brought": {"command": "true"}}}');
  await go(page, page.getByRole("button", { name: "Import the servers" }));
  await says("created successfully", "an imported server");
  gate.command("delete", "mcpserver", "brought", "--yes");

  // Ask the policy.
  await visit("/console/policies");
  await page.getByLabel("User").fill("bob@example.com");
  await page.getByLabel("Tool", { exact: true }).fill("x_notes_delete_note");
  await go(page, page.getByRole("button", { name: "Ask" }));
  await says("No", "the answer of the policy");
  check((await page.locator(".answer.bad .rule").innerText()) === "effect", `${where}: the rule that decides`);

  // A token is shown once.
  await visit("/console/people");
  await page.getByLabel("Name", { exact: true }).fill("ci");
  await go(page, page.getByRole("button", { name: "Create the token" }));
  const token = await page.locator(".once pre").innerText();
  check(/^mst_[\w-]{20,}$/.test(token), `${where}: the new token: ${token.length} letters, ${token.slice(0, 5)}…`);
  await inspect(view, "token-created", setting);
  await visit("/console/people");
  check(!(await page.content()).includes("mst_"), `${where}: a token is shown twice`);
  await inspect(view, "people-token", setting);
  await go(page, page.locator("#tokens tr", { hasText: "ci" }).getByRole("button", { name: "Revoke" }));
  await says("The token was revoked", "a revoked token");

  if (setting.width < 500) {
    await visit("/console");
    check(!(await page.locator("#menu").isVisible()), `${where}: the menu is closed`);
    await page.getByRole("link", { name: "Menu" }).click();
    await page.getByRole("link", { name: "Policies" }).waitFor();
    await inspect(view, "menu", setting);
  }
  if (setting.js) {
    // What happens elsewhere appears by itself, and a page that is not up to date says so.
    await visit("/console/calls?tool=x_notes_sing");
    const rows = await page.locator("#calls tbody tr").count();
    gate.command("call", "x_notes_sing");
    await page.locator("#calls tbody tr").nth(rows).waitFor();
    await view.context.setOffline(true);
    await page.locator("#stale").waitFor();
    await inspect(view, "stale", setting);
    await view.context.setOffline(false);
    await page.locator("#stale").waitFor({ state: "hidden" });
    await visit("/console/tools");
    await page.keyboard.press("/");
    const focused = await page.evaluate(() => document.activeElement.getAttribute("type"));
    check(focused === "search", `${where}: / focuses the search`);
    await page.keyboard.press("Tab");
  }
  await visit("/console");
  await go(page, page.getByRole("button", { name: "Log out" }));
  await says("muster console", "logged out");
  const refused = await visit("/console");
  check(refused.status() === 403, `${where}: the session has ended`);
}
