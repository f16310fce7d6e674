//! The commands as people meet them: exit code, output, words.

use expect_test::{Expect, expect};

use super::client::{Folder, transcript};

const GOOD: &str = "\
name: demo
command: sh
tools:
  - name: zebra
    description: Stripes
  - name: alpha
    description: First letter
    command: -c
    args:
      - {name: query, required: true, positional: true}
      - {name: limit, type: integer, default: 10}
      - {name: fmt, enum: [json, table]}
";

const BAD: &str = "\
name: no
command: sh
tools:
  - name: a
    descripton: typo
    args: [{name: x, type: str}]
";

const POLICY: &str = "\
default: disabled
tools:
  alpha:
    description: Under policy
    args: {query: {pattern: '^a+$'}, limit: {min: 1, max: 5}}
";

#[track_caller]
fn check(words: &[&str], expected: &Expect) {
    let folder = Folder::new(&[("good.yaml", GOOD), ("bad.yaml", BAD), ("policy.yaml", POLICY)]);
    expected.assert_eq(&transcript(&folder.climax(words), &folder));
}

#[test]
fn validate_names_every_problem_with_its_place() {
    check(
        &["validate", "good.yaml", "bad.yaml", "--policy", "policy.yaml"],
        &expect![[r#"
            exit code: 1
            ----- stdout -----
              ✓ demo — 2 tool(s)
              ✗ bad.yaml
                name: Input should be a valid string (line 1); quote it: `"no"` (without quotes it is bool)
                tools → 0 → description: Field required (line 4); line 5 has `descripton`: write `description`
                tools → 0 → args → 0 → type: Input should be 'string', 'integer', 'number' or 'boolean' (line 6); did you mean `string`?
              ✓ policy — 1 tool rule(s)

            1 valid, 1 invalid
            ----- stderr -----
            hint: good.yaml: state the `effect` (read, write or destructive) of `zebra`, `alpha`
        "#]],
    );
}

const LOOSE: &str = "\
tools:
  alhpa: {}
  alpha:
    args:
      qurey: {pattern: 'a+'}
      query: {patern: 'a+'}
      fmt: {pattern: '['}
";

#[test]
fn policy_rules_that_match_nothing_are_reported() {
    let folder = Folder::new(&[("good.yaml", GOOD), ("bad.yaml", BAD), ("loose.yaml", LOOSE)]);
    let output = folder.climax(&["validate", "good.yaml", "--policy", "loose.yaml"]);
    expect![[r#"
        exit code: 0
        ----- stdout -----
          ✓ demo — 2 tool(s)
          ✓ policy — 2 tool rule(s)
            ⚠ tools → alpha → args → query → patern: unknown field (line 6); did you mean `pattern`?
            ⚠ tools → alpha → args → fmt → pattern: pattern `[` is broken: unterminated character set; every call that gives the argument will fail (line 7)
            ⚠ tools → alhpa: none of these configs has such a tool; did you mean `alpha`?
            ⚠ tools → alpha → args → qurey: the tool has no such argument, so this limits nothing; did you mean `query`?

        All 1 config(s) valid
        ----- stderr -----
        hint: good.yaml: state the `effect` (read, write or destructive) of `zebra`, `alpha`
    "#]].assert_eq(&transcript(&output, &folder));
    let unsure = folder.climax(&["validate", "bad.yaml", "--policy", "loose.yaml"]);
    assert!(!String::from_utf8_lossy(&unsure.stdout).contains("qurey"));
    let output = folder.climax(&["run", "good.yaml", "--policy", "loose.yaml"]);
    let said = String::from_utf8(output.stderr).unwrap();
    for words in [
        "loose.yaml:6: tools → alpha → args → query → patern: unknown field; did you mean `pattern`?",
        "pattern `[` is broken",
        "Policy references unknown tool alhpa",
        "Policy references unknown argument qurey of tool alpha",
    ] {
        assert!(said.contains(words), "no {words:?} in {said}");
    }
}

#[test]
fn validate_for_programs() {
    check(
        &["validate", "bad.yaml", "--output", "json"],
        &expect![[r#"
        exit code: 1
        ----- stdout -----
        {
          "configs": [
            {
              "file": "bad.yaml",
              "valid": false,
              "problems": [
                {
                  "path": "name",
                  "message": "Input should be a valid string",
                  "line": 1,
                  "fix": "quote it: `\"no\"` (without quotes it is bool)"
                },
                {
                  "path": "tools → 0 → description",
                  "message": "Field required",
                  "line": 4,
                  "fix": "line 5 has `descripton`: write `description`"
                },
                {
                  "path": "tools → 0 → args → 0 → type",
                  "message": "Input should be 'string', 'integer', 'number' or 'boolean'",
                  "line": 6,
                  "fix": "did you mean `string`?"
                }
              ],
              "warnings": []
            }
          ],
          "valid": 0,
          "invalid": 1
        }
        ----- stderr -----
    "#]],
    );
}

#[test]
fn list_shows_tools_in_columns() {
    check(
        &["list", "good.yaml"],
        &expect![[r#"
        exit code: 0
        ----- stdout -----
        demo — 2 tool(s)

         Tool   Description   Command  Arguments
         alpha  First letter  sh -c    query (required, positional)
                                       limit (integer, default=10)
                                       fmt (enum=['json', 'table'])
         zebra  Stripes       sh       none
        ----- stderr -----
    "#]],
    );
    check(
        &["list", "good.yaml", "--policy", "policy.yaml"],
        &expect![[r#"
        exit code: 0
        ----- stdout -----
        demo — 1 tool(s)

         Tool   Description   Command  Arguments
         alpha  Under policy  sh -c    query (required, positional, pattern=^a+$)
                                       limit (integer, default=10, min=1.0, max=5.0)
                                       fmt (enum=['json', 'table'])
        ----- stderr -----
    "#]],
    );
}

#[test]
fn list_for_programs() {
    check(
        &["list", "good.yaml", "--policy", "policy.yaml", "-o", "json"],
        &expect![[r#"
        exit code: 0
        ----- stdout -----
        {
          "server": "demo",
          "tools": [
            {
              "name": "alpha",
              "description": "Under policy",
              "command": "sh -c",
              "input_schema": {"type":"object","properties":{"query":{"type":"string"},"limit":{"type":"integer","default":10},"fmt":{"type":"string","enum":["json","table"]}},"required":["query"]}
            }
          ]
        }
        ----- stderr -----
    "#]],
    );
}

#[test]
fn tokens_compares_the_two_modes() {
    check(
        &["tokens", "good.yaml"],
        &expect![[r#"
        exit code: 0
        ----- stdout -----
         Mode       Tools  Bytes  Tokens
         classic    2      318    79
         discovery  2      1087   241

        so few tools are cheaper to list directly: consider --classic (counted with o200k_base)
        ----- stderr -----
    "#]],
    );
    check(
        &["tokens", "git", "docker", "obsidian", "--output", "json"],
        &expect![[r#"
        exit code: 0
        ----- stdout -----
        {
          "tokenizer": "o200k_base",
          "modes": [
            {
              "mode": "classic",
              "tools": 64,
              "bytes": 39910,
              "tokens": 9067
            },
            {
              "mode": "discovery",
              "tools": 2,
              "bytes": 1087,
              "tokens": 241
            }
          ],
          "ratio": 37.62
        }
        ----- stderr -----
    "#]],
    );
}

#[test]
fn a_server_that_cannot_start_says_what_to_do() {
    check(
        &["gti"],
        &expect![[r#"
            exit code: 1
            ----- stdout -----
            ----- stderr -----
            error: cannot load config `gti`: [Errno 2] No such file or directory: 'gti'

            hint: did you mean the bundled config `git`?
        "#]],
    );
    check(
        &["run", "nowhere.yaml"],
        &expect![[r#"
        exit code: 1
        ----- stdout -----
        ----- stderr -----
        error: cannot load config `nowhere.yaml`: [Errno 2] No such file or directory: 'nowhere.yaml'
    "#]],
    );
    check(
        &["bad.yaml"],
        &expect![[r#"
            exit code: 1
            ----- stdout -----
            ----- stderr -----
            error: cannot load config `bad.yaml`:
              line 1: name: Input should be a valid string; quote it: `"no"` (without quotes it is bool)
              line 4: tools → 0 → description: Field required; line 5 has `descripton`: write `description`
              line 6: tools → 0 → args → 0 → type: Input should be 'string', 'integer', 'number' or 'boolean'; did you mean `string`?
        "#]],
    );
}

#[test]
fn words_that_were_meant_for_something_else() {
    check(
        &["vaildate", "good.yaml"],
        &expect![[r#"
        exit code: 1
        ----- stdout -----
        ----- stderr -----
        error: cannot load config `vaildate`: [Errno 2] No such file or directory: 'vaildate'

        hint: did you mean `climax validate`?
    "#]],
    );
    check(
        &["list", "gti"],
        &expect![[r#"
        exit code: 1
        ----- stdout -----
        Error loading configs: cannot load config `gti`: [Errno 2] No such file or directory: 'gti'
        ----- stderr -----
        hint: did you mean the bundled config `git`?
    "#]],
    );
    check(
        &["frobnicate"],
        &expect![[r#"
        exit code: 1
        ----- stdout -----
        ----- stderr -----
        error: cannot load config `frobnicate`: [Errno 2] No such file or directory: 'frobnicate'

        hint: see `climax list` for the bundled configs
    "#]],
    );
}

#[test]
fn files_that_are_no_configs() {
    let folder = Folder::new(&[
        ("empty.yaml", "command: ' '\ntools: []\n"),
        ("list.yaml", "- a\n"),
        ("typo.yaml", "name: x\ncomand: ls\n"),
    ]);
    std::fs::write(folder.file("bytes.yaml"), [b'a', 0xff]).unwrap();
    let output = folder.climax(&[
        "validate",
        "empty.yaml",
        "list.yaml",
        "bytes.yaml",
        ".",
        "none.yaml",
        "typo.yaml",
    ]);
    expect![[r#"
        exit code: 1
        ----- stdout -----
          ✗ empty.yaml
            command: The command is empty; name the program to run
          ✗ list.yaml: the file must hold a mapping, not list
          ✗ bytes.yaml: 'bytes.yaml' is not text in UTF-8: invalid utf-8 sequence of 1 bytes from index 1
          ✗ .: [Errno 21] Is a directory: '.'
          ✗ none.yaml: [Errno 2] No such file or directory: 'none.yaml'
          ✗ typo.yaml
            command: Field required; line 2 has `comand`: write `command`
            tools: Field required

        0 valid, 6 invalid
        ----- stderr -----
    "#]].assert_eq(&transcript(&output, &folder));
}

#[test]
fn files_of_servers_are_for_run_alone() {
    let folder = Folder::new(&[
        ("mcp.json", r#"{"mcpServers": {"a": {"command": "true"}}}"#),
        ("server.yaml", "type: stdio\ncommand: 'true'\n"),
        ("odd.json", "{}"),
    ]);
    let said = |words: &[&str]| transcript(&folder.climax(words), &folder);
    expect![[r#"
        exit code: 1
        ----- stdout -----
          ✗ mcp.json: it holds MCP servers, not a CLI: only `climax run` takes them
          ✗ server.yaml: it holds MCP servers, not a CLI: only `climax run` takes them
          ✗ odd.json
            command: Field required
            tools: Field required

        0 valid, 3 invalid
        ----- stderr -----
    "#]]
    .assert_eq(&said(&["validate", "mcp.json", "server.yaml", "odd.json"]));
    expect![[r#"
        exit code: 1
        ----- stdout -----
        Error loading configs: cannot load config `mcp.json`: it holds MCP servers, not a CLI: only `climax run` takes them
        ----- stderr -----
    "#]].assert_eq(&said(&["list", "mcp.json"]));
    expect![[r#"
        exit code: 1
        ----- stdout -----
        ----- stderr -----
        error: cannot load config `server.yaml`: it holds MCP servers, not a CLI: only `climax run` takes them
    "#]].assert_eq(&said(&["tokens", "server.yaml"]));
}

#[test]
fn a_port_in_use_names_the_flag_that_chooses_it() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let folder = Folder::new(&[("good.yaml", GOOD)]);
    let words = ["run", "good.yaml", "--transport", "streamable-http", "--port", &port];
    let said = transcript(&folder.climax(&words), &folder);
    assert!(said.contains("hint: choose another `--port`, or stop"), "{said}");
}

#[test]
fn the_command_line_is_explained() {
    check(
        &[],
        &expect![[r#"
        exit code: 2
        ----- stdout -----
        ----- stderr -----
        error: the following required arguments were not provided:
          <CONFIG>...

        Usage: climax run <CONFIG>...

        For more information, try '--help'.
    "#]],
    );
    check(
        &["run", "good.yaml", "--transport", "pigeon"],
        &expect![[r#"
            exit code: 2
            ----- stdout -----
            ----- stderr -----
            error: invalid value 'pigeon' for '--transport <TRANSPORT>'
              [possible values: stdio, streamable-http]

            For more information, try '--help'.
        "#]],
    );
    check(
        &["skill", "--path", "--install"],
        &expect![[r#"
        exit code: 2
        ----- stdout -----
        ----- stderr -----
        error: the argument '--path' cannot be used with '--install'

        Usage: climax skill --path

        For more information, try '--help'.
    "#]],
    );
}

#[test]
fn the_skill_can_be_found_and_installed() {
    let folder = Folder::new(&[]);
    let printed = folder.climax(&["skill"]);
    assert!(String::from_utf8_lossy(&printed.stdout).contains("CLImax"));
    let path = folder.climax(&["skill", "--path"]);
    let path = String::from_utf8(path.stdout).unwrap();
    assert_eq!(std::fs::read(path.trim()).unwrap(), muster::bundled::SKILL.as_bytes());
    let installed = folder.climax(&["skill", "--install"]);
    assert_eq!(installed.status.code(), Some(0));
    let file = folder.file(".claude/commands/climax-config.md");
    assert_eq!(std::fs::read(file).unwrap(), muster::bundled::SKILL.as_bytes());
}

#[test]
fn completions_for_every_shell() {
    let folder = Folder::new(&[]);
    assert_eq!(folder.climax(&["completion", "bash"]).status.code(), Some(0));
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let output = folder.climax(&["completions", shell]);
        assert_eq!(output.status.code(), Some(0));
        assert!(String::from_utf8_lossy(&output.stdout).contains("climax"), "{shell}");
    }
}

#[test]
fn a_reader_that_leaves_early_is_no_error() {
    let mut child = std::process::Command::new(super::client::CLIMAX)
        .args(["list", "obsidian"])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    assert_eq!(output.status.code(), Some(0));
}
