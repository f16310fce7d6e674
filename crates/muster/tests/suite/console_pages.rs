//! The pages of the console: what they show, and what their forms do.

use std::{
    path::Path,
    process::{Command, Stdio},
};

use serde_json::Value;

use super::{
    console::Browser,
    serve::{Gateway, MUSTER},
};

const CLI: &str = "\
name: demo
command: printf
tools:
  - {name: show, description: Prints a word, command: '%s', args: [{name: word, positional: true, required: true}]}
";
const BROKEN: &str = "{name: broken, type: stdio, autoStart: true, command: /nonexistent/program, \
    env: {API_TOKEN: canary-of-a-secret}}";
const PENDING: &str = "{name: pending, type: stdio, command: 'true', approval: pending}";

/// The command that each page names, and a word that both show.
const COMMANDS: [(&str, &str, &str); 22] = [
    ("/console", "muster doctor", "broken"),
    ("/console/servers", "muster list mcpservers --all", "broken"),
    ("/console/servers/broken", "muster get mcpserver broken", "/nonexistent/program"),
    ("/console/servers/new", "muster get mcpserver new", "true"),
    ("/console/servers/-/new", "muster create mcpserver --help", "type"),
    ("/console/tools", "muster list tools", "cli_show"),
    ("/console/tools?q=print%20a%20word", "muster search 'print a word'", "cli_show"),
    ("/console/tools/cli_show", "muster get tool cli_show", "Prints a word"),
    ("/console/calls", "muster calls --limit 50", "cli_show"),
    ("/console/calls?status=error", "muster calls --limit 50 --status error", "cli_absent"),
    ("/console/workflows", "muster list workflows", "twice"),
    ("/console/workflows/twice", "muster get workflow twice", "cli_show"),
    ("/console/workflows/new", "muster get workflow new", "cli_show"),
    ("/console/services", "muster list services", "mcp-aggregator"),
    ("/console/services/mcp-aggregator", "muster get service mcp-aggregator", "Aggregator"),
    ("/console/events", "muster events --limit 100", "broken"),
    ("/console/servers/-/import", "muster import --help", "Import the servers"),
    ("/console/workflows/-/new", "muster create workflow --help", "steps"),
    ("/console/policies", "muster policy show", "Tools without a rule"),
    ("/console/people", "muster session list; muster token list", ""),
    ("/console/people/tokens", "muster session list; muster token list", ""),
    ("/console/settings", "muster call core_config_get", "Aggregator"),
];

fn gateway() -> Gateway {
    let files = [
        ("clis/demo.yaml", CLI),
        ("mcpservers/broken.yaml", BROKEN),
        // Names that are also words of paths.
        ("mcpservers/new.yaml", "{name: new, type: stdio, command: 'true', autoStart: false}"),
        ("workflows/new.yaml", "{name: new, steps: [{id: one, tool: cli_show, args: {word: a}}]}"),
        ("mcpservers/pending.yaml", PENDING),
        (
            "workflows/twice.yaml",
            "{name: twice, description: Prints, steps: [{id: one, tool: cli_show, args: {word: a}}]}",
        ),
    ];
    Gateway::start_private(&files, &[])
}

fn json(browser: &Browser<'_>, path: &str) -> Value {
    let (status, _, text) = browser.get(path, "\r\naccept: application/json");
    assert_eq!(status, 200, "{path}: {text}");
    serde_json::from_str(&text).unwrap()
}

#[test]
fn every_page_is_html_and_json_and_names_its_command() {
    let gateway = gateway();
    let operator = Browser::logged_in(&gateway);
    for (path, command, _) in COMMANDS {
        let command = command.replace('\'', "&#39;");
        let (status, _, page) = operator.get(path, "");
        assert_eq!(status, 200, "{path}: {page}");
        assert!(page.contains(&format!("<code>{command}</code>")), "{path}: {page}");
        let json_form = page.rsplit_once("<a href=\"?").unwrap().1.split_once('"').unwrap().0;
        assert!(json_form.ends_with("format=json"), "{path}: {json_form}");
        assert!(!page.contains("canary-of-a-secret"), "{path} shows a secret");
        assert!(!json(&operator, path).to_string().contains("canary-of-a-secret"), "{path}");
    }
    for path in [
        "/console/servers/none",
        "/console/tools/none",
        "/console/workflows/none",
        "/console/runs/none",
    ] {
        assert_eq!(operator.get(path, "").0, 404, "{path}");
    }
}

#[test]
fn the_command_of_each_page_shows_the_same() {
    let gateway = gateway();
    let operator = Browser::logged_in(&gateway);
    let session = gateway.session();
    for tool in ["cli_show", "cli_absent"] {
        let call = serde_json::json!({"name": tool, "arguments": {"word": "a"}});
        gateway.ask(
            &session,
            "tools/call",
            serde_json::json!({"name": "call_tool", "arguments": call}),
        );
    }
    let programs = Path::new(MUSTER).parent().unwrap();
    let folder = gateway.folder.path().display();
    for (page, command, word) in COMMANDS {
        let (_, _, html) = operator.get(page, "");
        assert!(html.contains(word), "{page} does not show {word}: {html}");
        // The doctor examines files as well, which are not where they usually are.
        let more = if command == "muster doctor" {
            format!(" --config-path {folder}")
        } else {
            String::new()
        };
        let done = Command::new("sh")
            .args(["-c", &format!("PATH=\"$0:$PATH\"; {command}{more}")])
            .arg(programs)
            .env("HOME", gateway.folder.path())
            .env("MUSTER_ENDPOINT", format!("http://localhost:{}/mcp", gateway.port))
            .env_remove("XDG_STATE_HOME")
            .env_remove("MUSTER_CONTEXT")
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let shown = String::from_utf8_lossy(&done.stdout);
        // The doctor of a gateway with a broken server says so with its exit code.
        let is_fine = done.status.success() || command == "muster doctor";
        assert!(is_fine, "{command}: {shown}{}", String::from_utf8_lossy(&done.stderr));
        assert!(shown.contains(word), "{command} does not show {word}: {shown}");
    }
}

#[test]
fn what_the_doctor_finds_is_on_the_first_page() {
    let config = "aggregator: {port: 0}\nclis: {bundled: none}\nhistory: {arguments: full}\n";
    let shared = "default: enabled\ncallers: [{anonymous: true, operator: true}]\n";
    let files = [
        ("config.yaml", config),
        ("policies/shared.yaml", shared),
        ("mcpservers/all.yaml", "{name: all, type: stdio, command: 'true', inheritEnv: ['*']}"),
    ];
    let gateway = Gateway::start_private(&files, &[]);
    let operator = Browser::logged_in(&gateway);
    let view = json(&operator, "/console");
    let verdicts = view["verdicts"].as_array().unwrap();
    let done = Command::new(MUSTER)
        .args(["doctor", "--no-servers", "--output", "json", "--config-path"])
        .arg(gateway.folder.path())
        .env("HOME", gateway.folder.path())
        .env_remove("XDG_STATE_HOME")
        .output()
        .unwrap();
    let report: Value = serde_json::from_slice(&done.stdout).unwrap();
    for (code, subject) in [
        ("history-with-secrets", "config.yaml"),
        ("policy-wide", "policies/shared.yaml"),
        ("environment-inherited", "all"),
    ] {
        let findings = report["findings"].as_array().unwrap();
        let finding = findings.iter().find(|finding| finding["code"] == code);
        let finding = finding.unwrap_or_else(|| panic!("{code}: {report}"));
        let same = verdicts.iter().find(|verdict| verdict["message"] == finding["message"]);
        let same = same.unwrap_or_else(|| panic!("{code}: {view}"));
        assert_eq!((&same["subject"], &same["fix"]), (&subject.into(), &finding["fix"]), "{code}");
        assert_eq!(same["severity"], "warning");
    }
}

#[test]
fn what_is_broken_is_on_the_first_page_with_a_button() {
    let gateway = gateway();
    let operator = Browser::logged_in(&gateway);
    // The server fails a moment after the gateway is up.
    let broken = loop {
        let view = json(&operator, "/console");
        let verdicts = view["verdicts"].as_array().unwrap().clone();
        if let Some(found) = verdicts.into_iter().find(|one| one["subject"] == "broken") {
            break found;
        }
    };
    assert_eq!(
        (&broken["severity"], &broken["fix"]),
        (&"bad".into(), &"muster restart mcpserver broken".into())
    );
    let (_, _, page) = operator.get("/console", "");
    assert!(page.contains("action=\"/console/servers/broken/restart\""), "{page}");
    let server = &json(&operator, "/console/servers/broken")["server"];
    let since = server["since"].as_str().unwrap().to_owned();
    assert!(since.ends_with('Z'), "{since}");
    for path in ["/console/servers", "/console/servers/broken"] {
        let (_, _, page) = operator.get(path, "");
        assert!(page.contains(&format!("<time datetime=\"{since}\"")), "{path}: {page}");
    }

    let (status, head, _) = operator.submit("/console", "/console/servers/pending/approve", &[]);
    assert_eq!(status, 303, "{head}");
    assert!(head.contains("/console/servers/pending?did=approved"), "{head}");
    assert_ne!(json(&operator, "/console/servers/pending")["server"]["state"], "Awaiting Approval");
    let (_, _, page) = operator.get("/console/servers/pending?did=approved", "");
    assert!(page.contains("The server was approved."), "{page}");
    let (_, _, page) = operator.get("/console/servers/pending?did=%3Cb%3Eowned", "");
    assert!(!page.contains("owned"), "a link puts words on a page");
}

#[test]
fn a_server_is_added_and_deleted_by_forms() {
    let gateway = gateway();
    let operator = Browser::logged_in(&gateway);
    let add = |fields: &[(&str, &str)]| {
        operator.submit("/console/servers/-/new", "/console/servers/-/new", fields)
    };
    let (status, _, page) =
        add(&[("arg.name", "extra"), ("arg.type", "stdio"), ("arg.args", "-v\r\nx y")]);
    assert_eq!(status, 422, "{page}");
    assert!(page.contains("notice bad") && page.contains("value=\"extra\""), "{page}");
    let fields = [
        ("arg.name", "extra"),
        ("arg.type", "stdio"),
        ("arg.command", "true"),
        ("arg.args", "-v\r\nx y"),
    ];
    let (status, head, page) = add(&fields);
    assert_eq!(status, 303, "{page}");
    assert!(head.contains("/console/servers/extra?did=added"), "{head}");
    let added = json(&operator, "/console/servers/extra");
    assert_eq!(added["server"]["args"], serde_json::json!(["-v", "x y"]));
    let (status, head, _) =
        operator.submit("/console/servers/extra", "/console/servers/extra/delete", &[]);
    assert_eq!(status, 303, "{head}");
    assert_eq!(operator.get("/console/servers/extra", "").0, 404);
}

#[test]
fn a_tool_is_called_as_an_agent_calls_it() {
    let policy = "default: enabled\ntools: {show: {args: {word: {pattern: '[^!]+'}}}}\n";
    let files = [("clis/demo.yaml", CLI), ("policies/words.yaml", policy)];
    let gateway = Gateway::start_private(&files, &[]);
    let operator = Browser::logged_in(&gateway);
    let path = "/console/tools/cli_show";
    let hostile = "<script>alert(1)</script>\u{202e}";
    let (status, _, page) = operator.submit(path, path, &[("arg.word", hostile)]);
    assert_eq!(status, 200, "{page}");
    assert!(page.contains("&lt;script&gt;alert(1)&lt;/script&gt;\u{fffd}</pre>"), "{page}");
    assert!(!page.contains("<script>alert"), "{page}");
    assert!(page.contains("muster call cli_show --json") && page.contains("curl -sS"), "{page}");

    let (_, _, page) = operator.submit(path, path, &[("arg.word", "no!")]);
    assert!(
        page.contains("chip bad") && page.contains("does not match pattern"),
        "the policy holds: {page}"
    );
    let (_, _, page) = operator.submit(path, path, &[("json", "{")]);
    assert!(page.contains("the JSON object cannot be read"), "{page}");
    let (_, _, page) = operator.submit(path, path, &[]);
    assert!(page.contains("chip bad"), "{page}");

    let found = json(&operator, "/console/tools?q=print%20a%20word");
    assert_eq!(
        (&found["verdict"], &found["tools"][0]["name"]),
        (&"found".into(), &"cli_show".into())
    );
    assert!(found["tools"][0]["score"].as_f64().unwrap() > 0.0, "{found}");

    // Calls are recorded in the background. Pages that were only looked at are not among them.
    let call = loop {
        let calls = json(&operator, "/console/calls");
        let calls = calls["calls"].as_array().unwrap();
        assert!(calls.iter().all(|call| call["tool"] == "cli_show"), "{calls:?}");
        if let Some(call) = calls.last() {
            break call["id"].as_u64().unwrap();
        }
    };
    let (status, _, page) = operator.get(&format!("/console/calls/{call}"), "");
    assert!(status == 200 && page.contains(&format!("muster calls {call}")), "{page}");
    assert!(page.contains(" UTC</time>"), "{page}");
    assert!(!page.contains("/console/servers/"), "a CLI has no page of a server: {page}");
    assert!(!page.contains("the agent got a preview"), "{page}");
    assert_eq!(operator.get("/console/calls/999999", "").0, 404);
    assert_eq!(operator.get("/console/calls/x", "").0, 404);
}
