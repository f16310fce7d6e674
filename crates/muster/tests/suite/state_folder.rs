//! The state folder of a gateway: one owner, apart from the configuration.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use serde_json::{Value, json};

use super::{
    client::Folder,
    serve::{Gateway, MUSTER},
};

const WORKFLOW: &str = "\
name: hello
steps: [{id: a, tool: cli_show, args: {word: hi}}]
";

const CLI: &str = "\
name: demo
command: printf
tools:
  - {name: show, description: Prints a word, command: '[%s]', args: [{name: word, positional: true, required: true}]}
";

/// A second gateway for the same folder, whose other name needs quotes.
fn second(first: &Gateway) -> Output {
    let link = first.folder.file("my gateway");
    std::os::unix::fs::symlink(first.folder.path(), &link).unwrap();
    Command::new(MUSTER)
        .args(["serve", "--config-path"])
        .arg(link)
        .env("MUSTER_STATE_PATH", first.folder.file("state"))
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

fn record(folder: &Folder) -> Value {
    serde_json::from_str(&fs::read_to_string(folder.file("state/gateway.json")).unwrap()).unwrap()
}

#[test]
fn a_second_gateway_is_refused_until_the_first_has_ended_however_it_ended() {
    let mut gateway = Gateway::start(&[], &[]);
    let record = record(&gateway.folder);
    assert_eq!(record["pid"], gateway.child.id());
    let output = second(&gateway);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    let (pid, url) = (gateway.child.id(), record["endpoint"].as_str().unwrap());
    assert!(said.contains("a gateway is already running for "), "{said}");
    assert!(said.contains(&format!("(pid {pid}, {url})")), "{said}");
    let link = gateway.folder.file("my gateway");
    let stop = format!("muster stop --config-path '{}'", link.display());
    assert!(said.contains(&stop), "{said}");
    assert!(said.contains(&format!("muster agent --repl --endpoint {url}")), "{said}");
    gateway.child.kill().unwrap();
    gateway.child.wait().unwrap();
    // The lock has ended with the process, although its record is still there.
    assert!(gateway.folder.file("state/gateway.json").exists());
    let port = gateway.port.to_string();
    let mut next = Command::new(MUSTER)
        .args(["serve", "--port", &port, "--config-path"])
        .arg(gateway.folder.path())
        .env("MUSTER_STATE_PATH", gateway.folder.file("state"))
        .env("MUSTER_ACCESS", "open")
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(next.stderr.take().unwrap()));
    assert!(lines.any(|line| line.is_ok_and(|line| line.contains(&format!(":{port}/mcp")))));
    next.kill().unwrap();
    next.wait().unwrap();
}

#[test]
fn what_people_wrote_stays_as_it_is() {
    let server = "# mine\nurl: http://127.0.0.1:1/mcp # later\n";
    let files = [
        ("mcpservers/s.yaml", server),
        ("clis/demo.yaml", CLI),
        ("workflows/hello.yaml", WORKFLOW),
    ];
    let gateway = Gateway::start(&files, &[]);
    let session = gateway.session();
    let ran = gateway.call_tool(&session, "workflow_hello", json!({}));
    assert_eq!(ran["isError"], false, "{ran}");
    let mut found: Vec<String> = Vec::new();
    collect(gateway.folder.path(), gateway.folder.path(), &mut found);
    found.sort();
    let configured: Vec<&String> =
        found.iter().filter(|name| !name.starts_with("state/")).collect();
    assert_eq!(
        configured,
        ["clis/demo.yaml", "config.yaml", "mcpservers/s.yaml", "workflows/hello.yaml"]
    );
    assert_eq!(fs::read_to_string(gateway.folder.file("mcpservers/s.yaml")).unwrap(), server);
    assert!(found.iter().any(|name| name.starts_with("state/workflow_executions/")), "{found:?}");
}

fn collect(root: &Path, folder: &Path, found: &mut Vec<String>) {
    for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        match path.is_dir() {
            true => collect(root, &path, found),
            false => found.push(path.strip_prefix(root).unwrap().display().to_string()),
        }
    }
}

#[test]
fn a_state_folder_that_cannot_be_written_to() {
    let folder = Folder::new(&[("config.yaml", "aggregator: {port: 0}\n")]);
    let mut command = Command::new(MUSTER);
    command.args(["serve", "--config-path"]).arg(folder.path()).stdin(Stdio::null());
    let refused = command.args(["--state-path", "/proc/none/state"]).output().unwrap();
    let said = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(1), "{said}");
    assert!(said.contains("cannot write to /proc/none/state") && said.contains("hint: "), "{said}");
    // The default one is not worth the end: the file system may be read-only on purpose.
    let mut gateway = Command::new(MUSTER)
        .args(["serve", "--config-path"])
        .arg(folder.path())
        .env("XDG_STATE_HOME", "/proc/none")
        .env_remove("MUSTER_STATE_PATH")
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = std::io::BufRead::lines(std::io::BufReader::new(gateway.stderr.take().unwrap()));
    let said: Vec<String> = lines
        .map_while(Result::ok)
        .scan(false, |up, line| {
            let done = std::mem::replace(up, line.contains("listening on"));
            (!done).then_some(line)
        })
        .collect();
    let said = said.join("\n");
    assert!(
        said.contains("are lost when the gateway ends") && said.contains("listening on"),
        "{said}"
    );
    gateway.kill().unwrap();
    gateway.wait().unwrap();
}

#[test]
fn each_configuration_directory_has_a_folder_of_its_own_below_the_state_directory() {
    let gateway = Gateway::start_private(&[], &[]);
    let state = gateway.folder.file(".local/state/muster");
    let folders: Vec<PathBuf> = fs::read_dir(state)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.join("gateway.lock").exists())
        .collect();
    let [folder] = &folders[..] else { panic!("{folders:?}") };
    let name = gateway.folder.path().file_name().unwrap().to_str().unwrap().replace('.', "_");
    assert!(
        folder.file_name().unwrap().to_str().unwrap().starts_with(&format!("{name}-")),
        "{folder:?}"
    );
}
