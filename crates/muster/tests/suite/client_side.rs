//! `import`, `connect`, `doctor` and `top`, through the real binary.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    os::unix::fs::PermissionsExt as _,
    path::Path,
    process::{Child, Command, Output, Stdio},
    sync::mpsc,
};

use serde_json::{Value, json};

use super::client::{CLIMAX, Folder};

const MUSTER: &str = env!("CARGO_BIN_EXE_muster");

fn write(folder: &Folder, name: &str, text: &str) {
    let path = folder.file(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

fn read(path: impl AsRef<Path>) -> String {
    fs::read_to_string(path).unwrap()
}

fn muster(folder: &Folder, words: &[&str]) -> Output {
    Command::new(MUSTER)
        .args(words)
        .current_dir(folder.path())
        .env("HOME", folder.path())
        .env_remove("MUSTER_ENDPOINT")
        .env_remove("MUSTER_CONTEXT")
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

fn said(output: &Output) -> String {
    format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

const CURSOR: &str = r#"{
  // my servers
  "mcpServers": {
    "GitHub": {"command": "npx", "args": ["-y", "gh"], "env": {"GITHUB_TOKEN": "ghp_verysecret", "LEVEL": "info"}},
    "shop": {
      "command": "npx", "args": ["shop", "--url=https://h.example/x?a=1&sig=verysecret-1"],
      "env": {
        "MY_PASS": "verysecret-2", "DATABASE_URL": "postgres://ada:verysecret-3@db.example/x",
        "SENTRY_DSN": "https://verysecret-4@sentry.example/1",
      },
    },
    "muster": {"command": "/usr/bin/muster", "args": ["agent", "--mcp-server"]},
    "broken": {"args": []},
  },
}"#;
const CODEX: &str = "\
model = \"x\"
[mcp_servers.docs]
url = \"https://docs.example/mcp\"
http_headers = { Authorization = \"Bearer alsosecret\" }
";

#[test]
fn servers_of_other_clients_are_taken_over_without_their_secrets() {
    let folder = Folder::new(&[]);
    write(&folder, ".cursor/mcp.json", CURSOR);
    write(&folder, ".codex/config.toml", CODEX);
    let preview = muster(&folder, &["import", "--dry-run"]);
    assert!(preview.status.success(), "{}", said(&preview));
    let told = said(&preview);
    for words in [
        "+ GitHub →",
        "GITHUB_TOKEN → secret://github.GITHUB_TOKEN",
        "- muster skipped: it is muster itself",
        "- broken skipped: it needs `command` or `url`",
        "+ docs →",
        "Nothing was changed.",
    ] {
        assert!(told.contains(words), "no {words:?} in {told}");
    }
    assert!(!told.contains("verysecret") && !told.contains("alsosecret"), "{told}");
    assert!(!folder.file(".config/muster").exists());

    let done = muster(&folder, &["import", "--yes"]);
    assert!(done.status.success(), "{}", said(&done));
    let root = folder.file(".config/muster");
    let server = read(root.join("mcpservers/github.yaml"));
    assert!(server.contains("secret://github.GITHUB_TOKEN") && server.contains("info"), "{server}");
    let shop = read(root.join("mcpservers/shop.yaml"));
    assert!(!shop.contains("verysecret") && shop.contains("secret://shop.MY_PASS"), "{shop}");
    let docs = read(root.join("mcpservers/docs.yaml"));
    assert!(docs.contains("Bearer secret://docs.Authorization"), "{docs}");
    let secret = root.join("secrets/github.GITHUB_TOKEN");
    assert_eq!(read(&secret), "ghp_verysecret");
    assert_eq!(fs::metadata(&secret).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(read(folder.file(".cursor/mcp.json")), CURSOR, "the client's file is not touched");

    let again = said(&muster(&folder, &["import", "--yes"]));
    assert!(again.contains("= GitHub exists") && again.contains("Nothing to do."), "{again}");
}

#[test]
fn a_folder_of_muster_is_taken_over_with_its_secrets() {
    let folder = with_server();
    write(&folder, "gw/services/shop.yaml", "kind: Service\nspec: {serviceClassName: web}\n");
    let done = muster(&folder, &["import", "gw", "--config-path", "other", "--yes"]);
    assert!(done.status.success(), "{}", said(&done));
    assert!(said(&done).contains("gw/secrets/t → secret://t"), "{}", said(&done));
    assert!(!said(&done).contains("hidden"), "{}", said(&done));
    let secret = folder.file("other/secrets/t");
    assert_eq!(read(&secret), "hidden");
    assert_eq!(fs::metadata(&secret).unwrap().permissions().mode() & 0o777, 0o600);
    for name in ["mcpservers/srv.yaml", "clis/demo.yaml", "services/shop.yaml"] {
        assert_eq!(read(folder.file("other").join(name)), read(folder.file("gw").join(name)));
    }
    fs::remove_file(&secret).unwrap();
    let again = muster(&folder, &["import", "gw", "--config-path", "other", "--yes"]);
    assert!(said(&again).contains("= srv.yaml exists"), "{}", said(&again));
    assert_eq!(read(&secret), "hidden");
}

#[test]
fn imported_servers_are_taken_out_of_the_client_and_put_back() {
    let folder = Folder::new(&[]);
    let before =
        "{\"theme\":   \"dark\", \"mcpServers\": {\"a\": {\"command\": \"x\"}, \"bad\": 1}}";
    write(&folder, ".cursor/mcp.json", before);
    let file = folder.file(".cursor/mcp.json");
    let shown = said(&muster(&folder, &["import", "--from", "cursor", "--replace"]));
    assert!(shown.contains("- removed from "), "{shown}");
    assert!(shown.contains("run: muster import --from cursor --replace --yes"), "{shown}");
    assert_eq!(read(&file), before, "nothing without a word");
    let done = said(&muster(&folder, &["import", "--from", "cursor", "--replace", "--yes"]));
    assert!(done.contains("the original is in "), "{done}");
    assert!(done.contains("muster import --from cursor --undo"), "{done}");
    let after: Value = serde_json::from_str(&read(&file)).unwrap();
    assert_eq!(after, json!({"theme": "dark", "mcpServers": {"bad": 1}}));
    assert!(folder.file(".config/muster/mcpservers/a.yaml").exists());
    // Muster is added in between, and stays.
    assert!(muster(&folder, &["connect", "cursor"]).status.success());
    let undone = said(&muster(&folder, &["import", "--from", "cursor", "--undo"]));
    assert!(undone.contains("Put the servers back into "), "{undone}");
    let after: Value = serde_json::from_str(&read(&file)).unwrap();
    assert_eq!(after["mcpServers"]["a"], json!({"command": "x"}));
    assert!(after["mcpServers"]["muster"].is_object());
    let again = said(&muster(&folder, &["import", "--from", "cursor", "--undo"]));
    assert!(again.contains("No client has servers that were taken out."), "{again}");
}

#[test]
fn what_to_do_next_is_what_was_typed() {
    let folder = Folder::new(&[("my servers.json", CURSOR), ("none.json", "{}")]);
    let words = ["import", "my servers.json", "--config-path", "other"];
    let told = said(&muster(&folder, &words));
    let next = "To import, run: muster import 'my servers.json' --config-path other --yes";
    assert!(told.contains(next), "{told}");
    write(&folder, ".cursor/mcp.json", CURSOR);
    let told = said(&muster(&folder, &["import", "--from", "cursor"]));
    assert!(told.contains("To import, run: muster import --from cursor --yes"), "{told}");
    let told = said(&muster(&folder, &["import", "none.json"]));
    assert!(told.contains("expected under `mcpServers`"), "{told}");
    let told = said(&muster(&folder, &["connect", "cursor", "--file", "my file.json"]));
    assert!(told.contains("with: muster connect cursor --file 'my file.json' --undo"), "{told}");
}

#[test]
fn muster_is_written_into_a_client_and_taken_out_to_the_byte() {
    let folder = Folder::new(&[]);
    let before = "{\"theme\":   \"dark\", \"mcpServers\": {\"a\": {\"command\": \"b\"}}}";
    write(&folder, ".cursor/mcp.json", before);
    let file = folder.file(".cursor/mcp.json");
    let done = muster(&folder, &["connect", "cursor"]);
    assert!(done.status.success(), "{}", said(&done));
    let entry: Value = serde_json::from_str(&read(&file)).unwrap();
    assert_eq!(entry["mcpServers"]["muster"]["args"], json!(["standalone"]));
    assert_eq!(entry["mcpServers"]["a"]["command"], "b");
    assert!(said(&muster(&folder, &["connect", "cursor"])).contains("is up to date"));
    assert!(muster(&folder, &["connect", "cursor", "--undo"]).status.success());
    assert_eq!(read(&file), before);

    let url = "https://m.example/mcp";
    assert!(muster(&folder, &["connect", "codex", "--endpoint", url]).status.success());
    assert!(read(folder.file(".codex/config.toml")).contains(url));
    assert!(muster(&folder, &["connect", "codex", "--undo"]).status.success());
    assert!(!folder.file(".codex/config.toml").exists(), "there was none");
    for client in ["claude-desktop", "claude-code", "vscode", "windsurf", "gemini"] {
        let wrote = said(&muster(&folder, &["connect", client]));
        let path =
            wrote.split("Added muster to ").nth(1).unwrap().split(';').next().unwrap().to_owned();
        assert!(Path::new(&path).exists(), "{wrote}");
        assert!(muster(&folder, &["connect", client, "--undo"]).status.success());
        assert!(!Path::new(&path).exists(), "{path} was not there before");
    }
    assert!(muster(&folder, &["connect", "cursor"]).status.success());
    write(&folder, ".cursor/mcp.json", &read(&file).replace("dark", "light"));
    let undone = said(&muster(&folder, &["connect", "cursor", "--undo"]));
    assert!(
        undone.contains("is still in") && undone.contains("mcp.json.before-muster"),
        "{undone}"
    );

    write(&folder, ".gemini/settings.json", "{} // mine");
    let refused = muster(&folder, &["connect", "gemini"]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(said(&refused).contains("yourself"), "{}", said(&refused));
    assert_eq!(read(folder.file(".gemini/settings.json")), "{} // mine");
}

const CLI: &str = "\
name: demo
command: sh -c
tools:
  - {name: tell, description: Tells a variable, args: [{name: script, positional: true, required: true}]}
";

/// A configuration with a server that is another `climax`, and a secret for it.
fn with_server() -> Folder {
    let folder = Folder::new(&[]);
    write(&folder, "demo.yaml", CLI);
    let demo = folder.file("demo.yaml");
    let server = format!(
        "type: stdio\ncommand: {CLIMAX}\nargs: [run, {}, --classic]\nenv: {{T: 'secret://t'}}\n",
        demo.display()
    );
    write(&folder, "gw/mcpservers/srv.yaml", &server);
    write(&folder, "gw/secrets/t", "hidden\n");
    write(&folder, "gw/clis/demo.yaml", CLI);
    write(
        &folder,
        "gw/config.yaml",
        "aggregator: {host: 127.0.0.1, port: 0}\nclis: {bundled: none}\n",
    );
    folder
}

/// A gateway, its address, what it logged until it had one, and what it logs.
struct Gateway(Child, String, Vec<String>, mpsc::Receiver<String>);

impl Gateway {
    fn start(folder: &Folder) -> Self {
        let mut child = Command::new(MUSTER)
            .args(["serve", "--config-path"])
            .arg(folder.file("gw"))
            .env("MUSTER_STATE_PATH", folder.file("state"))
            .env("MUSTER_ACCESS", "open")
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let (sender, said) = mpsc::channel();
        // What it logs must not fill the pipe.
        std::thread::spawn(move || {
            lines.map_while(Result::ok).for_each(|line| drop(sender.send(line)));
        });
        let mut before = Vec::new();
        let url = said.iter().find_map(|line| {
            let url = line.split_whitespace().find(|word| word.starts_with("http://"));
            let url = url.map(str::to_owned);
            before.push(line);
            url
        });
        Self(child, url.unwrap(), before, said)
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

#[test]
fn a_secret_reaches_its_server_and_calls_are_counted() {
    let folder = with_server();
    let gateway = Gateway::start(&folder);
    let ask = |words: &[&str]| {
        let mut all = words.to_vec();
        all.extend(["--endpoint", &gateway.1]);
        let output = muster(&folder, &all);
        assert!(output.status.success(), "{words:?}: {}", said(&output));
        String::from_utf8(output.stdout).unwrap()
    };
    // Waits until it is connected, whatever that takes.
    ask(&["call", "core_service_start", "name=srv"]);
    let told = ask(&["call", "x_srv_tell", "script=printf \"[$T]\""]);
    assert!(told.contains("[hidden]"), "{told}");
    let shown = ask(&["call", "core_mcpserver_get", "name=srv"]);
    assert!(!shown.contains("hidden"), "{shown}");

    let top = ask(&["top", "--once"]);
    assert!(top.contains("BACKEND") && top.contains("srv"), "{top}");
    let stats: Value = serde_json::from_str(&ask(&["top", "--once", "--output", "json"])).unwrap();
    let rows = stats["backends"].as_array().unwrap();
    let server = rows.iter().find(|row| row["name"] == "srv").unwrap();
    assert_eq!((&server["calls"], &server["failed"]), (&json!(1), &json!(0)), "{stats}");
    let yaml = ask(&["top", "--once", "-o", "yaml"]);
    assert!(yaml.contains("backends:") && !yaml.contains("BACKEND"), "{yaml}");
    assert!(server["longest_ms"].as_f64().unwrap() > 0.0, "{stats}");
}

fn examined(folder: &Folder) -> (Option<i32>, Value) {
    let root = folder.file("gw");
    let words = ["doctor", "--output", "json", "--config-path", root.to_str().unwrap()];
    let mut all = words.to_vec();
    // Nobody listens there.
    all.extend(["--endpoint", "http://127.0.0.1:9/mcp"]);
    let output = muster(folder, &all);
    let report: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|err| panic!("{err}: {}", said(&output)));
    (output.status.code(), report)
}

fn find<'a>(report: &'a Value, hop: &str, what: &str) -> &'a Value {
    let findings = report["findings"].as_array().unwrap();
    let fits =
        |found: &&Value| found["hop"] == hop && found["subject"].as_str().unwrap().contains(what);
    findings.iter().find(fits).unwrap_or_else(|| panic!("no {hop} {what} in {report}"))
}

#[test]
fn the_doctor_and_the_log_report_rules_that_match_nothing() {
    const POLICY: &str = "\
default: enabled
tools:
  x_srv_tel: {}
  x_srv_tell: {args: {skript: {max: 1}}}
  cli_tell: {args: {script: {pattern: '['}}}
  core_events: {}
";
    let folder = with_server();
    write(&folder, "gw/policies/p.yaml", POLICY);
    let (code, report) = examined(&folder);
    assert_eq!(code, Some(0), "{report}");
    let said = |report: &Value| {
        let findings = report["findings"].as_array().unwrap().iter();
        let ours = findings.filter(|found| found["subject"].as_str().unwrap().contains("p.yaml"));
        let lines = ours.map(|found| format!("{} ({})", found["message"], found["fix"]));
        lines.collect::<Vec<_>>().join("\n").replace('"', "")
    };
    let told = said(&report);
    for words in [
        "tools → x_srv_tel: there is no such tool (did you mean `x_srv_tell`?)",
        "args → skript: the tool has no such argument, so this limits nothing (did you mean `script`?)",
        "pattern `[` is broken",
    ] {
        assert!(told.contains(words), "no {words:?} in {told}");
    }
    assert!(!told.contains("core_events"), "{told}");

    let mut gateway = Gateway::start(&folder);
    let awaited = "tools → x_srv_tel: there is no such tool";
    let before = std::mem::take(&mut gateway.2);
    let mut log = before.into_iter().chain(gateway.3.iter());
    assert!(log.any(|line| line.contains(awaited)), "the log says nothing");
    drop(log);
    drop(gateway);

    write(&folder, "gw/mcpservers/deaf.yaml", "type: stdio\ncommand: 'true'\n");
    let (_, report) = examined(&folder);
    assert!(said(&report).contains("x_srv_tel:"), "its server answers: {report}");
    write(&folder, "gw/policies/p.yaml", "tools: {tel: {}, x_deaf_a: {}}\n");
    let (_, report) = examined(&folder);
    assert_eq!(said(&report), "", "a server that is away may have them");
}

#[test]
fn the_doctor_names_the_first_broken_hop() {
    let folder = with_server();
    let (code, report) = examined(&folder);
    assert_eq!(code, Some(0), "{report}");
    assert_eq!(find(&report, "handshake", "srv")["verdict"], "good");
    assert_eq!(find(&report, "gateway", "127.0.0.1:9")["verdict"], "warning");

    write(&folder, "gw/mcpservers/deaf.yaml", "type: stdio\ncommand: 'true'\n");
    let (code, report) = examined(&folder);
    assert_eq!(code, Some(14), "{report}");
    assert_eq!(find(&report, "handshake", "deaf")["verdict"], "bad");

    write(&folder, "gw/mcpservers/gone.yaml", "type: stdio\ncommand: no-such-program-here\n");
    let (code, report) = examined(&folder);
    assert_eq!(code, Some(11), "{report}");
    assert!(find(&report, "programs", "gone")["fix"].is_string());

    fs::remove_file(folder.file("gw/secrets/t")).unwrap();
    let (code, report) = examined(&folder);
    assert_eq!(code, Some(10), "{report}");
    let said = find(&report, "config", "srv.yaml")["message"].as_str().unwrap();
    assert!(said.contains("secret `t` does not exist"), "{said}");
}
