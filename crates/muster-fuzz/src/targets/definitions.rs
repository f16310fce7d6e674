//! Files of the configuration directory, each read by the format that it looks like.

use muster_config::formats::FileFormat;

use super::FuzzTarget;

pub(super) const TARGET: FuzzTarget = FuzzTarget {
    name: "definitions",
    seeds: &[
        "kind: MCPServer\nmetadata: {name: a}\nspec: {type: stdio, command: npx, args: [-y, s], env: {K: v}, autoStart: true}\n",
        "kind: MCPServer\nspec: {type: streamable-http, url: 'https://a.example/mcp', headers: {A: b}, auth: {type: oauth, forwardToken: true}}\n",
        "kind: Workflow\nspec:\n  args: {n: {type: integer, required: true}}\n  steps:\n    - {id: a, tool: core_service_list, args: {x: '{{ .input.n }}'}, store: true}\n    - {id: b, tool: t, condition: {tool: u, expect: {success: true}}}\n",
        "kind: ServiceClass\nspec:\n  serviceConfig:\n    lifecycleTools: {start: {tool: a, args: {p: '{{ .p }}'}}, stop: {tool: b}}\n",
        "aggregator: {port: 8090, oauth: {server: {enabled: true}}}\naccess: {allowedUsers: [a@b.example], operators: {groups: [g]}}\n",
        "default: disabled\ntools: {gh/*: {}, x: {args: {p: {pattern: 'a+', max: 5}}}}\ncallers: [{users: ['*@a.example'], toolset: t}]\n",
        "servers: ['*']\ntools: [a/*]\neffect: read\n",
        "serviceClassName: c\nargs: {port: 1}\nautoStart: true\n",
        "command: git\nname: git\ntools:\n  - {name: log, description: d, args: [{name: n, type: integer, flag: -n}]}\n",
    ],
    tokens: &[
        "- ", ": ", "\n", "\n  ", "\n    ", "{", "}", "[", "]", ",", "kind: ", "spec: ", "steps: ",
        "tools: ", "args: ", "{{ .", " }}", "'", "\"", "&a ", "*a", "<<: ", "~", "1e999", "true",
    ],
    execute: |input| {
        let Some(format) = FileFormat::of_text(input) else { return Ok(false) };
        Ok(format.check(input, "a").is_ok())
    },
};
