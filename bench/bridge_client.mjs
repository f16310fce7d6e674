// Times calls of a tool by the TypeScript SDK's client, over HTTP and over the pipes of a bridge, in turns.
//
//   bridge_client.mjs ROUNDS CALLS URL COMMAND...
//
// Prints one JSON array: of each round the medians of both, in seconds.

import { createRequire } from 'node:module';
import { join } from 'node:path';

const cache = process.env.MUSTER_INTEROP_DIR ?? join(import.meta.dirname, '..', 'target', 'interop');
const require = createRequire(join(cache, 'node', 'package.json'));
const { Client, StreamableHTTPClientTransport } = require('@modelcontextprotocol/client');
const { StdioClientTransport } = require('@modelcontextprotocol/client/stdio');

const CALL = { name: 'call_tool', arguments: { name: 'core_mcpserver_list', arguments: {} } };

async function connected(transport) {
    const client = new Client({ name: 'bench', version: '1' }, { versionNegotiation: { mode: 'legacy' } });
    await client.connect(transport);
    return client;
}

async function median(client, calls) {
    const times = [];
    for (let number = 0; number < calls; number += 1) {
        const begin = performance.now();
        await client.callTool(CALL);
        times.push((performance.now() - begin) / 1000);
    }
    return times.sort((one, other) => one - other)[calls >> 1];
}

const [rounds, calls, url, command, ...args] = process.argv.slice(2);
const sides = {
    direct: await connected(new StreamableHTTPClientTransport(new URL(url))),
    bridge: await connected(new StdioClientTransport({ command, args, env: process.env }))
};
for (const client of Object.values(sides)) await median(client, 300);
const found = [];
for (let number = 0; number < Number(rounds); number += 1) {
    const order = number % 2 ? ['direct', 'bridge'] : ['bridge', 'direct'];
    const round = {};
    for (const which of order) round[which] = await median(sides[which], Number(calls));
    found.push(round);
}
console.log(JSON.stringify(found));
for (const client of Object.values(sides)) await client.close();
