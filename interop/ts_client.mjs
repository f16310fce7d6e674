// Drives an MCP server with the TypeScript SDK's client; see README.md for the output.
//
//   ts_client.mjs legacy|modern|auto [--calls JSON] -- SERVER_COMMAND...|URL

import { createRequire } from 'node:module';
import { join } from 'node:path';
import { parseArgs } from 'node:util';

// The packages live in the cache folder, not next to this file, where a plain import would look.
const cache = process.env.MUSTER_INTEROP_DIR ?? join(import.meta.dirname, '..', 'target', 'interop');
const require = createRequire(join(cache, 'node', 'package.json'));
const { Client, ProtocolError, StreamableHTTPClientTransport } = require('@modelcontextprotocol/client');
const { StdioClientTransport } = require('@modelcontextprotocol/client/stdio');

// Over stdio both `auto` and a pin ask `server/discover` in a throw-away second server process,
// so the server that is then used sees an ordinary request first.
const MODES = { legacy: 'legacy', modern: { pin: '2026-07-28' }, auto: 'auto' };

const LIMIT = { timeout: 20_000 };

// What was being done when it failed: the reason alone does not tell.
let stage = 'connect';

// The SDK writes hints to the console; stdout is for the one document.
console.log = console.info = console.debug = console.error;

async function call(client, { name, arguments: args }) {
    let result;
    try {
        result = await client.callTool({ name, arguments: args ?? {} }, LIMIT);
    } catch (error) {
        if (!(error instanceof ProtocolError)) throw error;
        return { error: { code: error.code, message: error.message } };
    }
    return {
        isError: result.isError ?? false,
        text: result.content.filter(block => block.type === 'text').map(block => block.text).join('\n'),
        content: result.content,
        structuredContent: result.structuredContent ?? null
    };
}

function transport([command, ...args]) {
    if (/^https?:/.test(command)) return new StreamableHTTPClientTransport(new URL(command));
    return new StdioClientTransport({ command, args });
}

async function drive(era, calls, command) {
    const client = new Client({ name: 'interop', version: '1' }, { versionNegotiation: { mode: MODES[era] } });
    await client.connect(transport(command), LIMIT);
    stage = 'tools/list';
    const { tools } = await client.listTools(undefined, LIMIT);
    const results = [];
    for (const one of calls) {
        stage = `tools/call ${JSON.stringify(one)}`;
        results.push(await call(client, one));
    }
    stage = 'close';
    const document = {
        client: 'ts',
        era,
        protocolVersion: client.getNegotiatedProtocolVersion(),
        serverInfo: client.getServerVersion() ?? null,
        tools: tools.map(tool => tool.name),
        inputSchemas: Object.fromEntries(tools.map(tool => [tool.name, tool.inputSchema])),
        results
    };
    const closing = performance.now();
    await client.close();
    return { ...document, closeSeconds: Math.round(performance.now() - closing) / 1000 };
}

const { values, positionals } = parseArgs({
    options: { calls: { type: 'string', default: '[]' } },
    allowPositionals: true
});
const [era, ...command] = positionals;
if (!(era in MODES) || command.length === 0) {
    console.error('usage: ts_client.mjs legacy|modern|auto [--calls JSON] -- SERVER_COMMAND...|URL');
    process.exit(2);
}
try {
    const document = await drive(era, JSON.parse(values.calls), command);
    process.stdout.write(`${JSON.stringify(document)}\n`);
} catch (error) {
    console.error(`ts ${era}: ${stage}: ${error}`);
    process.exit(1);
}
