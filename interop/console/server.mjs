// An MCP server on standard input and output whose tools return what a page must not trust.
import readline from "node:readline";

const HOSTILE = "<script>document.title = 'owned'</script><img src=x onerror=\"document.title='owned'\">\u202e\u001b[31m";
// A PNG of one pixel.
const PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
// A WAV of eight samples.
const SOUND = "UklGRiwAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQgAAACAgICAgICAgA==";
const text = (value) => ({ type: "text", text: value });
const object = (properties, required = []) => ({ type: "object", properties, required });
const string = (description) => ({ type: "string", description });

const TOOLS = {
  read_note: {
    description: "Read a note by its title",
    inputSchema: object({ title: string("The title of the note"), lines: { type: "integer", default: 10 } }, ["title"]),
    annotations: { readOnlyHint: true },
    run: ({ title }) => ({ content: [text(`You asked for ${title}. ${HOSTILE}`)] }),
  },
  list_notes: {
    description: "List notes as JSON",
    inputSchema: object({ tags: { type: "array", items: { type: "string" }, description: "Only notes with these tags" } }),
    annotations: { readOnlyHint: true },
    run: ({ tags }) => ({ content: [text(JSON.stringify({ notes: [{ title: "Plan", tags: tags ?? [] }], total: 1 }))] }),
  },
  draw: {
    description: "Draw a picture",
    inputSchema: object({}),
    run: () => ({ content: [{ type: "image", mimeType: "image/png", data: PIXEL }] }),
  },
  sing: {
    description: "Sing a note",
    inputSchema: object({}),
    run: () => ({ content: [{ type: "audio", mimeType: "audio/wav", data: SOUND }] }),
  },
  delete_note: {
    description: `Delete a note for good ${HOSTILE}`,
    inputSchema: object({ title: string("The title"), force: { type: "boolean" } }, ["title"]),
    annotations: { destructiveHint: true },
    run: () => ({ isError: true, content: [text("there is no such note")] }),
  },
};

process.stderr.write(`notes are ready ${HOSTILE}\n`);
const reply = (id, body) => process.stdout.write(`${JSON.stringify({ jsonrpc: "2.0", id, ...body })}\n`);
for await (const line of readline.createInterface({ input: process.stdin })) {
  const { id, method, params } = JSON.parse(line);
  if (id === undefined) continue;
  if (method === "initialize") {
    const serverInfo = { name: "notes", version: "1" };
    reply(id, { result: { protocolVersion: params.protocolVersion, capabilities: { tools: {} }, serverInfo } });
  } else if (method === "tools/list") {
    const tools = Object.entries(TOOLS).map(([name, { run, ...tool }]) => ({ name, ...tool }));
    reply(id, { result: { tools } });
  } else if (method === "tools/call") {
    reply(id, { result: TOOLS[params.name].run(params.arguments ?? {}) });
  } else {
    reply(id, { error: { code: -32601, message: "Method not found" } });
  }
}
