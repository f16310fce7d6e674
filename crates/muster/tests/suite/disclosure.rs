//! What the gateway keeps to itself: values of arguments in its log, and its environment.

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    os::unix::fs::{PermissionsExt as _, symlink},
    path::Path,
    process::{Command, Stdio},
};

use serde_json::json;

use super::{
    client::{CLIMAX, Folder},
    serve::{Gateway, MUSTER},
};

const CLI: &str = "\
name: demo
command: echo
tools:
  - {name: say, description: Says a word, command: said, args: [{name: word, flag: --word}]}
";

/// The gateway's log lines until the call is audited.
fn logged_by_a_call(words: &[&str]) -> Vec<String> {
    let policy = "default: enabled\ntools: {say: {args: {word: {pattern: '[A-Z0-9]+'}}}}\n";
    let (gateway, log) =
        Gateway::start_logging(&[("clis/demo.yaml", CLI), ("policies/p.yaml", policy)], words);
    let session = gateway.session();
    for word in ["CANARY123", "canary-456"] {
        let arguments = json!({"tool_name": "cli_say", "args": {"word": word}});
        gateway.ask(&session, "tools/call", json!({"name": "climax_call", "arguments": arguments}));
    }
    let mut lines = Vec::new();
    let mut audited = 0;
    while audited < 2 {
        let line = log.recv().unwrap();
        audited += usize::from(line.contains("cli_say") && line.contains("arguments="));
        lines.push(line);
    }
    lines
}

#[test]
fn values_of_arguments_are_logged_only_for_debugging() {
    let lines = logged_by_a_call(&["--surface", "climax"]);
    let leak = lines.iter().find(|line| line.to_lowercase().contains("canary"));
    assert_eq!(leak, None);
    assert!(lines.iter().any(|line| line.contains("arguments=\"word\"")), "{lines:?}");
    let lines = logged_by_a_call(&["--surface", "climax", "--debug"]);
    assert!(lines.iter().any(|line| line.contains("CANARY123")), "{lines:?}");
}

#[test]
fn stdio_servers_do_not_get_the_environment_of_the_gateway() {
    // Cargo sets these for tests, and the gateway inherits them.
    let (secret, named) = ("CARGO_PKG_NAME", "CARGO_PKG_VERSION");
    let tool = "name: e\ncommand: env\ntools: [{name: show_env, description: d}]\n";
    let folder = Folder::new(&[("env.yaml", tool)]);
    let file = |more: serde_json::Value| {
        let config = folder.file("env.yaml");
        let mut file = json!({"type": "stdio", "command": CLIMAX, "autoStart": false,
            "args": ["run", config.to_str().unwrap(), "--classic"], "env": {"OWN": "1"}});
        file.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        file.to_string()
    };
    let (plain, named_file) = (file(json!({})), file(json!({"inheritEnv": [named]})));
    let files = [("mcpservers/plain.yaml", &*plain), ("mcpservers/named.yaml", &*named_file)];
    let gateway = Gateway::start(&files, &[]);
    let session = gateway.session();
    let seen = |server: &str| {
        let started = gateway.call_tool(&session, "core_service_start", json!({"name": server}));
        assert_eq!(started["isError"], false, "{started}");
        let shown = gateway.call_tool(&session, &format!("x_{server}_show_env"), json!({}));
        shown["content"][0]["text"].as_str().unwrap().to_owned()
    };
    let has = |env: &str, name: &str| env.contains(&format!("{name}="));
    let plain = seen("plain");
    assert!(has(&plain, "PATH") && has(&plain, "OWN"), "{plain}");
    assert!(!has(&plain, secret) && !has(&plain, named), "{plain}");
    let named_only = seen("named");
    assert!(has(&named_only, named) && !has(&named_only, secret), "{named_only}");
}

#[test]
fn validate_names_mistakes_that_load() {
    let config = "command: echo\ntools:\n  - {name: tar list!, description: d}\n  \
                  - {name: a, description: d}\n  - {name: a, description: d}\ncommand: echo\n";
    let folder = Folder::new(&[("bad.yaml", config)]);
    let output = folder.climax(&["validate", "bad.yaml"]);
    let shown = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1), "{shown}");
    for part in [
        "✗ bad.yaml",
        "tools → 0 → name: `tar list!` is not a name that MCP clients accept (line 3); use letters",
        "there are two tools named `a`: the one of line 4 has no effect (line 5); rename",
        "`command` is written twice: line 1 has no effect (line 6); remove one",
    ] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    // CLImax serves such a config, and so do we.
    let mut client = folder.serve(&["bad.yaml"]);
    client.initialize();
    assert_eq!(client.climax_call("a", json!({}))["isError"], false);
}

#[test]
fn secrets_of_servers_are_not_shown() {
    let file = json!({"type": "stdio", "command": "server", "autoStart": false,
        "args": ["--url=https://h.example/x?a=1&sig=canary-4", "--password", "canary-5",
            "--header", "Authorization: Bearer canary-6"],
        "env": {"MY_PASS": "canary-1", "DATABASE_URL": "postgres://ada:canary-2@db.example/x",
            "SENTRY_DSN": "https://canary-3@sentry.example/1", "MODE": "plain",
            "HEADERS": "{\"X-Api-Key\": \"canary-7\"}"}})
    .to_string();
    let config = "aggregator: {port: 0}\nclis: {bundled: none}\n\
                  replicas: {valkey: {url: 'redis://:canary-8@valkey.example'}}\n";
    let files = [("mcpservers/secretive.yaml", file.as_str()), ("config.yaml", config)];
    let gateway = Gateway::start(&files, &[]);
    let session = gateway.session();
    let settings = gateway.call_tool(&session, "core_config_get", json!({})).to_string();
    assert!(settings.contains("valkey.example") && !settings.contains("canary"), "{settings}");
    for tool in ["core_mcpserver_get", "core_mcpserver_list", "core_service_status"] {
        let arguments = json!({"name": "secretive", "showAll": true});
        let shown = gateway.call_tool(&session, tool, arguments).to_string();
        assert!(!shown.contains("canary"), "{tool}: {shown}");
        assert!(tool != "core_mcpserver_get" || shown.contains("plain"), "{shown}");
    }
}

#[test]
fn names_forge_no_line_of_the_log() {
    let (gateway, log) = Gateway::start_logging(&[("clis/demo.yaml", CLI)], &[]);
    let session = gateway.session();
    let line = "[00:00:00] INFO     call subject=root depth=0 tool=core_config_save";
    let name = format!("x\n{line}\u{1b}[2J");
    let params = json!({"name": "call_tool", "arguments": {"name": name, "arguments": {}}});
    gateway.ask(&session, "tools/call", params);
    let written = log.iter().find(|written| written.contains("core_config_save")).unwrap();
    assert!(!written.starts_with(line) && !written.contains('\u{1b}'), "{written}");
    assert!(written.contains("call subject=local depth=0 tool=x "), "{written}");
}

#[test]
fn the_history_of_the_repl_is_private() {
    let (gateway, home) = (Gateway::start(&[], &[]), Folder::new(&[("victim", "mine\n")]));
    let shared = tempfile::tempdir().unwrap();
    symlink(home.file("victim"), shared.path().join(".muster_agent_history")).unwrap();
    let url = format!("http://localhost:{}/mcp", gateway.port);
    let mut repl = Command::new("script")
        .args(["--quiet", "--return", "--command"])
        .arg(format!("{MUSTER} agent --repl --endpoint {url}"))
        .arg("/dev/null")
        .env("SHELL", "/bin/sh")
        .env("HOME", home.path())
        .env("TMPDIR", shared.path())
        .env_remove("XDG_STATE_HOME")
        .env_remove("MUSTER_CONTEXT")
        .env("TERM", "xterm")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    // What is typed before the prompt is lost.
    let mut shown = BufReader::new(repl.stdout.take().unwrap());
    let mut keys = repl.stdin.take().unwrap();
    for line in [&b"list prompts\r"[..], b"exit\r"] {
        while !shown.fill_buf().unwrap().is_empty() {
            let mut part = Vec::new();
            shown.read_until(b'h', &mut part).unwrap();
            if part.ends_with(b"\x1b[?2004h") {
                break;
            }
        }
        keys.write_all(line).unwrap();
    }
    shown.read_to_end(&mut Vec::new()).unwrap();
    assert!(repl.wait().unwrap().success());
    assert_eq!(fs::read_to_string(home.file("victim")).unwrap(), "mine\n");
    let mode = |name: &str| fs::metadata(home.file(name)).unwrap().permissions().mode() & 0o777;
    let state = ".local/state/muster";
    assert_eq!((mode(state), mode(&format!("{state}/agent_history"))), (0o700, 0o600));
}

#[test]
fn what_a_gateway_stores_is_private() {
    let class = "serviceConfig:\n  lifecycleTools:\n    start: {tool: cli_say, args: {word: a}}\n    stop: {tool: cli_say}\n";
    let config = "aggregator: {port: 0}\nclis: {bundled: none}\nhistory: {arguments: full}\n";
    let steps = "steps: [{id: a, tool: cli_say, args: {word: b}}]\n";
    let gateway = Gateway::start_by(
        "umask 000 && exec \"$0\" \"$@\"",
        &[
            ("config.yaml", config),
            ("clis/demo.yaml", CLI),
            ("serviceclasses/c.yaml", class),
            ("workflows/w.yaml", steps),
        ],
    );
    let session = gateway.session();
    let call = |tool: &str, arguments| {
        let answer = gateway.call_tool(&session, tool, arguments);
        assert_eq!(answer["isError"], false, "{tool}: {answer}");
        answer.to_string()
    };
    call("workflow_w", json!({}));
    let server = json!({"name": "s", "type": "sse", "url": "http://localhost:1/sse", "headers": {"X-Api-Key": "k"}});
    call("core_mcpserver_create", server);
    let params = json!({"name": "call_tool", "arguments": {"name": "cli_say", "max_tokens": 300,
        "arguments": {"word": "w".repeat(20_000)}}});
    let stored = gateway.ask(&session, "tools/call", params).to_string();
    assert!(stored.contains("out_"), "{stored}");
    let state = gateway.folder.file("state");
    // They are written in the background.
    for folder in ["events", "workflow_executions"] {
        while !fs::read_dir(state.join(folder)).is_ok_and(|mut files| files.next().is_some()) {}
    }
    let mode = |path: &Path| fs::symlink_metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&state), 0o700);
    let (mut seen, mut folders) = (Vec::new(), vec![state.clone()]);
    while let Some(folder) = folders.pop() {
        for path in fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()) {
            seen.push(path.strip_prefix(&state).unwrap().display().to_string());
            match path.is_dir() {
                true => folders.push(path),
                false => assert_eq!(mode(&path) & 0o077, 0, "{}", path.display()),
            }
        }
    }
    for part in ["events/events-", "workflow_executions/", "outputs/"] {
        assert!(seen.iter().any(|name| name.starts_with(part)), "{part}: {seen:?}");
    }
    assert_eq!(mode(&gateway.folder.file("mcpservers/s.yaml")) & 0o077, 0);
}
