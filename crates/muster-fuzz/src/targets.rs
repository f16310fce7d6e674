//! The targets: one function for each kind of text that comes from outside.

mod arguments;
mod definitions;
mod http_head;
mod json_path;
mod oauth_endpoints;
mod scan;

use std::sync::LazyLock;

use muster_auth::oauth::{BearerChallenge, CallbackParams, covers_server, same_issuer};
use muster_core::{
    glob::{CaseSensitivity, Glob},
    policy::pattern::Pattern,
    schema::{signature, validator::Validator},
    suggest,
    text::{for_terminal, log_name, printable},
};
use muster_mcp::wire::Message;
use muster_template::{RenderContext, RenderLimits, Template, simple};
use serde_json::{Value, json, value::RawValue};

/// Something that reads text from outside.
#[derive(Debug)]
pub struct FuzzTarget {
    /// Its name on the command line.
    pub name: &'static str,
    /// Valid inputs.
    pub seeds: &'static [&'static str],
    /// Pieces of its grammar.
    pub tokens: &'static [&'static str],
    /// Reads an input; whether it was accepted, or the property that is broken.
    pub execute: fn(&str) -> Result<bool, String>,
}

/// The longest pattern, in characters.
const MAX_PATTERN: usize = 40;

/// All targets.
pub const TARGETS: &[FuzzTarget] = &[
    FuzzTarget {
        name: "message",
        seeds: &[
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","arguments":{"b":[1,2.5e3,null]}}}"#,
            r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"x"}}"#,
            r#"{"jsonrpc":"2.0","id":"x","error":{"code":-32600,"message":"\u00e9"}}"#,
        ],
        tokens: &[
            "{",
            "}",
            "[",
            "]",
            ",",
            ":",
            "\"",
            "\\u",
            "\\",
            "null",
            "1e999",
            "\"id\":",
            "\"result\":{}",
        ],
        execute: |input| {
            let lenient = Message::parse_lenient(input).is_some();
            Ok(Message::parse(input).is_ok() || lenient)
        },
    },
    scan::TARGET,
    http_head::TARGET,
    FuzzTarget {
        name: "yaml",
        seeds: &[
            "name: git\ncommand: git\ntools:\n  - name: log\n    args:\n      - {name: n, type: integer}\n",
            "a: &a [1, 2]\nb: *a\n<<: {c: 2024-01-02, d: 010, e: ~}\n",
            "default: disabled\ntools:\n  x:\n    args:\n      path: {pattern: 'src/.*', max: 5}\n",
            "text: |\n  one\n  two\nfolded: >-\n  a\n  b\n'q': \"\\u00e9\"\n",
        ],
        tokens: &[
            "- ", ": ", "\n", "\n  ", "{", "}", "[", "]", "&a ", "*a", "<<: ", "|", ">", "!!str ",
            "---", "...", "#", "'", "\"", "? ",
        ],
        execute: |input| {
            let parsed = muster_config::yaml::parse(input);
            drop(muster_config::policy::parse(input));
            drop(muster_config::cli::parse(input));
            if let Ok(node) = &parsed {
                drop(node.to_value());
            }
            Ok(parsed.is_ok())
        },
    },
    definitions::TARGET,
    FuzzTarget {
        name: "template",
        seeds: &[
            "{{ .input.name | upper | quote }} {{ range $i, $x := .input.list }}{{ $i }}{{ $x }}{{ else }}-{{ end }}",
            "{{ if and (gt (len .input.list) 1) (ne .input.name \"x\") }}{{ printf \"%05d %q\" 5 \"a\" }}{{ end }}",
            "{{ define \"t\" }}{{ . }}{{ end }}{{ template \"t\" .input }}{{ regexReplaceAll \"a+\" \"baab\" \"x\" }}",
            "{{ toJson (dict \"a\" (list 1 2 3)) }}{{ repeat 3 \"ab\" }}{{ add 1 2 | mul 3 }}",
        ],
        tokens: &[
            "{{",
            "}}",
            "{{-",
            "-}}",
            "range ",
            "if ",
            "else",
            "end",
            "with ",
            "define ",
            "template ",
            "|",
            "$x",
            ":=",
            ".input",
            "repeat 999999 ",
            "until 99999 ",
            "printf \"%9999d\" ",
            "(",
            ")",
            "\"a\"",
            "regexMatch ",
        ],
        execute: |input| {
            let data = json!({"input": {"name": "ada", "list": [1, "two", null], "n": 5.5}});
            drop(simple::render(input, &data));
            let Ok(template) = Template::parse(input) else { return Ok(false) };
            let context = RenderContext {
                limits: RenderLimits { steps: 20_000, bytes: 1 << 18 },
                ..RenderContext::default()
            };
            Ok(template.render(&data, &context).is_ok())
        },
    },
    json_path::TARGET,
    FuzzTarget {
        name: "pattern",
        seeds: &[
            "src/[\\w/-]+\\.c\nsrc/a-b/c.c",
            "(?i)(?P<q>['\"]).*(?P=q)|\\d{1,3}(?!x)\n'abc'",
            "(?:a|b)*?c+\naabbc",
            "[^\\W\\d_]+(?<=x)\nabcx",
        ],
        tokens: &[
            "(", ")", "(?:", "(?=", "(?!", "(?<=", "(?P<n>", "(?P=n)", "\\1", "*", "+?", "{2,5}",
            "{1,99}", "|", "[", "]", "[^", "\\w", "\\d", "\\b", ".", "^", "$", "\n", "a",
        ],
        execute: |input| {
            let (pattern, text) =
                input.split_once('\n').unwrap_or((input, "aaaaaaaaaaaaaaaaaaaaab"));
            // Patterns are the operator's, and compiled once; the text is what comes from outside.
            let pattern: String = pattern.chars().take(MAX_PATTERN).collect();
            Ok(Pattern::new(&pattern).matches(text).is_ok())
        },
    },
    FuzzTarget {
        name: "oauth",
        seeds: &[
            "Bearer realm=\"x\", resource_metadata=\"https://a.example/.well-known/x\", scope=\"a b\", error=\"insufficient_scope\"",
            "code=abc&state=xyz&iss=https%3A%2F%2Fissuer.example",
            "https://a.example/mcp https://a.example/",
        ],
        tokens: &[
            "Bearer ", "Basic ", "=", "\"", "\\\"", ",", "scope=", "&", "%", "%00", "code=",
            "state=", "https://", "@", "[::1]", "..", "#", "?", " ",
        ],
        execute: |input| {
            let challenge = BearerChallenge::parse(input);
            let params = CallbackParams::parse(input);
            if let Some((left, right)) = input.split_once(' ') {
                if same_issuer(left, right) != same_issuer(right, left) {
                    return Err("issuers are equal in one order only".to_owned());
                }
                let _: bool = covers_server(left, right);
            }
            Ok(challenge != BearerChallenge::default()
                || params.is_some_and(|params| params.code.is_some()))
        },
    },
    oauth_endpoints::TARGET,
    arguments::TARGET,
    FuzzTarget {
        name: "schema",
        seeds: &[
            "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"integer\",\"minimum\":1},\"b\":{\"$ref\":\"#/$defs/x\"}},\"required\":[\"a\"],\"$defs\":{\"x\":{\"anyOf\":[{\"type\":\"string\",\"pattern\":\"^a+$\"},{\"type\":\"array\",\"items\":{\"$ref\":\"#/$defs/x\"}}]}}}\n{\"a\":1,\"b\":[\"a\",[\"aa\"]]}",
            "{\"allOf\":[{\"properties\":{\"k\":true}}],\"unevaluatedProperties\":false,\"if\":{\"required\":[\"k\"]},\"then\":{\"maxProperties\":1}}\n{\"k\":{}}",
            "{\"items\":{\"enum\":[1,\"a\",null]},\"contains\":{\"const\":1},\"uniqueItems\":true}\n[1,\"a\",1]",
        ],
        tokens: &[
            "{",
            "}",
            "[",
            "]",
            ",",
            ":",
            "\"$ref\":\"#\"",
            "\"$ref\":\"#/$defs/x\"",
            "\"anyOf\":[",
            "\"allOf\":[",
            "\"not\":",
            "\"items\":",
            "\"properties\":",
            "\"additionalProperties\":",
            "\"pattern\":\"(a|a)*b\"",
            "\"$dynamicRef\":\"#a\"",
            "\"$anchor\":\"a\"",
            "\n",
            "true",
            "1e999",
        ],
        execute: |input| {
            let (schema, arguments) =
                input.split_once('\n').unwrap_or((input, "{\"a\":{\"a\":[{}]}}"));
            let (Some(schema), Some(arguments)) = (raw(schema), raw(arguments)) else {
                return Ok(false);
            };
            drop(signature::line(&schema, 200));
            let validator = Validator::default();
            let valid = validator.check(&schema, &arguments).is_ok();
            Ok(valid && !validator.report_skipped())
        },
    },
    FuzzTarget {
        name: "names",
        seeds: &[
            "git_status git_log x_files_read_file",
            "*_log|x_?iles_* git_log",
            "größe Größe GRÖSSE",
        ],
        tokens: &["_", "-", "*", "?", "[a-z]", "[!", "{a,b}", " ", "git", "x_", "\u{1b}[2J", "\n"],
        execute: names,
    },
];

fn names(input: &str) -> Result<bool, String> {
    let names: Vec<&str> = input.split(' ').collect();
    let wanted = names.first().copied().unwrap_or_default();
    let near = suggest::similar(wanted, names.iter().copied().skip(1));
    if near.len() > 3 {
        return Err("more than three suggestions".to_owned());
    }
    for shown in [printable(input), log_name(input).into_owned()] {
        if shown.chars().any(char::is_control) {
            return Err("a control character is left".to_owned());
        }
    }
    if for_terminal(input).chars().any(|c| c.is_control() && !matches!(c, '\n' | '\t')) {
        return Err("a control character reaches a terminal".to_owned());
    }
    let glob = Glob::new(wanted, CaseSensitivity::Sensitive);
    let matches = glob.is_ok_and(|glob| names.iter().any(|name| glob.matches(name)));
    Ok(matches || !near.is_empty())
}

fn raw(text: &str) -> Option<Box<RawValue>> {
    RawValue::from_string(text.to_owned()).ok()
}

/// A value that paths are applied to.
static SAMPLE: LazyLock<Value> = LazyLock::new(|| {
    let items: Vec<Value> = (0..50)
        .map(|id| json!({"id": id, "name": format!("item {id}"), "tags": ["a", {"b": [id]}]}))
        .collect();
    json!({"items": items, "größe": {"a b": null}, "deep": [[[[[[1]]]]]]})
});
