//! `muster doctor`: every situation with its own cure, through the real binary, processes and sockets.

use std::{
    fs,
    io::{Read as _, Write as _},
    net::TcpListener,
    os::unix::fs::PermissionsExt as _,
    path::PathBuf,
    process::{Command, Output, Stdio},
};

use serde_json::Value;

use super::{
    client::Folder,
    serve::{Gateway, MUSTER},
    transcripts::raw_terminal,
};

/// A port where each connection is answered with the same bytes.
fn answering(bytes: &'static [u8]) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut request = [0; 1024];
            if stream.read(&mut request).is_ok_and(|read| read > 0) {
                drop(stream.write_all(bytes));
            }
        }
    });
    port
}

const WEB_SERVER: &[u8] =
    b"HTTP/1.1 404 Not Found\r\nserver: acme/1\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
/// A TLS alert: what a TLS server says to anything else.
const TLS_SERVER: &[u8] = &[0x15, 3, 1, 0, 2, 2, 40];

struct Clinic {
    folder: Folder,
}

impl Clinic {
    fn new(files: &[(&str, &str)]) -> Self {
        let clinic = Self { folder: Folder::new(&[]) };
        clinic.write("config.yaml", "aggregator: {port: 9}\nclis: {bundled: none}\n");
        files.iter().for_each(|(name, text)| clinic.write(name, text));
        clinic
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.file("gw").join(name)
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(MUSTER);
        command
            .arg("doctor")
            .arg("--config-path")
            .arg(self.folder.file("gw"))
            .args(words)
            .env("HOME", self.folder.path())
            .env("HTTPS_PROXY", "http://proxy.invalid:1")
            .env_remove("XDG_STATE_HOME")
            .env_remove("MUSTER_ENDPOINT")
            .env_remove("MUSTER_CONTEXT")
            .stdin(Stdio::null());
        command
    }

    fn run(&self, words: &[&str]) -> Output {
        self.command(words).output().unwrap()
    }

    fn examine(&self, words: &[&str]) -> Value {
        let output = self.run(&[words, &["--output", "json"]].concat());
        serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|err| panic!("{err}: {}", String::from_utf8_lossy(&output.stderr)))
    }
}

/// The finding about a subject that is not good: `code | message | fix`.
#[track_caller]
fn found(report: &Value, subject: &str) -> String {
    let findings = report["findings"].as_array().unwrap();
    let about = |found: &&Value| {
        found["subject"].as_str().unwrap().contains(subject) && found["verdict"] != "good"
    };
    let found = findings
        .iter()
        .find(about)
        .unwrap_or_else(|| panic!("nothing about {subject} in {report}"));
    let text = |key: &str| found[key].as_str().unwrap_or_default().to_owned();
    format!("{} | {} | {}", text("code"), text("message"), text("fix"))
}

#[test]
fn local_servers() {
    let script = |name: &str, script: &str| {
        let text = format!("name: {name}\ncommand: sh\nargs: [-c, {script:?}]\n");
        (format!("mcpservers/{name}.yaml"), text)
    };
    let files = [
        script("talks", r"printf 'Starting \033[31mup\n'; sleep 60"),
        script("mute", "sleep 60"),
        script("docker", "echo Cannot connect to the Docker daemon >&2; exit 1"),
        script("module", "echo \"Error: Cannot find module 'x'\" >&2; exit 1"),
        script("package", "echo npm error 404 Not Found >&2; exit 1"),
        script("port", "echo listen EADDRINUSE: address already in use >&2; exit 1"),
        script("ends", "echo some reason >&2; exit 3"),
    ];
    let files: Vec<(&str, &str)> = files.iter().map(|(name, text)| (&**name, &**text)).collect();
    let clinic = Clinic::new(&files);
    let more = [
        ("line", "name: line\ncommand: \"sh -c 'echo a' b\"\n"),
        ("node", "name: node\ncommand: npx-is-not-here\n"),
        ("gone", "name: gone\ncommand: /no/such/program\n"),
    ];
    more.iter().for_each(|(name, text)| clinic.write(&format!("mcpservers/{name}.yaml"), text));
    let program = clinic.path("tool.sh");
    fs::write(&program, "#!/bin/sh\n").unwrap();
    let text = format!("name: modes\ncommand: {}\n", program.display());
    clinic.write("mcpservers/modes.yaml", &text);
    let report = clinic.examine(&["--timeout", "2"]);
    assert_eq!(report["exit_code"], 10, "{report}");
    let expected = [
        (
            "talks",
            "stdout-not-mcp | it writes text to standard output, where only MCP belongs: `Starting",
        ),
        (
            "mute",
            "no-answer | no answer within 2 s | run it in a terminal and look at its output: sh -c 'sleep 60'",
        ),
        ("docker", "docker-not-running | Docker is not running"),
        ("module", "module-missing | a module of the server is not installed"),
        ("package", "package-unknown | the package does not exist"),
        ("port", "port-in-use | it wants a port that is in use"),
        (
            "ends",
            "server-failed | connecting: it exited with code 3: some reason | run it in a terminal",
        ),
        (
            "line",
            "command-with-arguments | `command` holds a whole command line: sh -c 'echo a' b | split it: `command: sh` and `args: [\"-c\", \"echo a\", b]`",
        ),
        (
            "node",
            "program-missing | `npx-is-not-here` was not found | install it, or use its full path",
        ),
        (
            "gone",
            "program-missing | `/no/such/program` was not found | correct the path of `command`",
        ),
        ("modes", "program-not-executable"),
    ];
    for (subject, words) in expected {
        let said = found(&report, subject);
        assert!(said.starts_with(words), "{subject}: {said}");
        assert!(!said.contains('\u{1b}'), "{said}");
    }
}

#[test]
fn remote_servers() {
    let (web, tls) = (answering(WEB_SERVER), answering(TLS_SERVER));
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let gateway = Gateway::start(&[], &[]);
    let clinic = Clinic::new(&[]);
    let servers = [
        ("noscheme", "localhost:9999/mcp".to_owned()),
        ("socket", "ws://h/mcp".to_owned()),
        ("plain", format!("https://127.0.0.1:{web}/mcp")),
        ("secure", format!("http://127.0.0.1:{tls}/mcp")),
        ("refused", format!("http://127.0.0.1:{nobody}/mcp")),
        ("dns", "https://no-such-host.invalid/mcp".to_owned()),
        ("page", format!("http://127.0.0.1:{web}/mcp")),
        ("path", format!("http://127.0.0.1:{}/wrong", gateway.port)),
        ("variable", "http://127.0.0.1:1/${workspaceFolder}".to_owned()),
    ];
    for (name, url) in &servers {
        let text = format!("name: {name}\nurl: {url} # here\ntype: streamable-http\n");
        clinic.write(&format!("mcpservers/{name}.yaml"), &text);
    }
    let report = clinic.examine(&["--timeout", "3"]);
    for (subject, words) in [
        (
            "noscheme",
            "url-without-scheme | the url `localhost:9999/mcp` has no scheme | write `url: http://localhost:9999/mcp`"
                .to_owned(),
        ),
        ("socket", "url-scheme | the scheme `ws` is not supported".to_owned()),
        (
            "plain",
            format!("speaks-http | 127.0.0.1:{web} speaks plain HTTP, not HTTPS | correct the port"),
        ),
        (
            "secure",
            format!("speaks-https | 127.0.0.1:{tls} speaks HTTPS, not plain HTTP | write `url: https://127.0.0.1:{tls}/mcp`"),
        ),
        ("refused", format!("connection-refused | nothing listens on 127.0.0.1:{nobody}")),
        ("dns", "host-unknown | the host `no-such-host.invalid` cannot be resolved".to_owned()),
        ("page", "not-mcp | connecting: it answered with status 404".to_owned()),
        ("variable", "variable-reference | `${workspaceFolder}` is sent as it is written".to_owned()),
    ] {
        let said = found(&report, subject);
        assert!(said.starts_with(&words), "{subject}: {said}");
    }
    assert!(found(&report, "dns").contains("HTTPS_PROXY is set"), "{report}");
    let said = found(&report, "path");
    let url = format!("write `url: http://127.0.0.1:{}/mcp`", gateway.port);
    assert!(said.starts_with("wrong-path") && said.ends_with(&url), "{said}");

    // Mechanical fixes, with the comments kept. None of them takes encryption away.
    let refused = clinic.run(&["--no-servers", "--fix"]);
    assert!(String::from_utf8_lossy(&refused.stderr).contains("add --yes"), "nobody confirmed");
    clinic.run(&["--timeout", "3", "--fix", "--yes"]);
    for (name, url) in [
        ("noscheme", "http://localhost:9999/mcp".to_owned()),
        ("plain", format!("https://127.0.0.1:{web}/mcp")),
        ("secure", format!("https://127.0.0.1:{tls}/mcp")),
        ("path", format!("http://127.0.0.1:{}/mcp", gateway.port)),
    ] {
        let text = fs::read_to_string(clinic.path(&format!("mcpservers/{name}.yaml"))).unwrap();
        assert_eq!(text, format!("name: {name}\nurl: {url} # here\ntype: streamable-http\n"));
    }
}

#[test]
fn servers_that_wait_for_approval_are_not_started() {
    let clinic = Clinic::new(&[]);
    let mark = clinic.path("ran");
    let server = |name: &str, more: &str| {
        let command = format!("command: sh\nargs: [-c, 'touch {}-{name}']\n", mark.display());
        clinic.write(&format!("mcpservers/{name}.yaml"), &format!("name: {name}\n{command}{more}"));
    };
    server("approved", "");
    server("pending", "approval: pending\n");
    let report = clinic.examine(&["--timeout", "3"]);
    let said = found(&report, "pending");
    assert!(said.starts_with("approval-pending | it waits for approval"), "{said}");
    assert!(said.ends_with("`muster approve mcpserver pending`"), "{said}");
    assert!(clinic.path("ran-approved").exists(), "{report}");
    assert!(!clinic.path("ran-pending").exists(), "the command of an agent was run");
}

#[test]
fn the_gateway_and_its_port() {
    let clinic = Clinic::new(&[]);
    let report = clinic.examine(&[]);
    assert!(found(&report, ":9/").starts_with("not-running"), "{report}");

    let web = answering(WEB_SERVER);
    let endpoint = format!("http://localhost:{web}/mcp");
    let said = found(&clinic.examine(&["--endpoint", &endpoint]), &endpoint);
    let words = format!(
        "port-taken | another program answers on port {web}, not a gateway: HTTP status 404 of `acme/1` | stop that program"
    );
    assert!(said.starts_with(&words), "{said}");

    // One that every process of this machine may change. Its configuration does not say so.
    let open = Gateway::start(&[], &[]);
    let endpoint = format!("http://localhost:{}/mcp", open.port);
    let said = found(&clinic.examine(&["--no-servers", "--endpoint", &endpoint]), &endpoint);
    assert!(said.starts_with("gateway-open | it lets every process on this machine"), "{said}");

    // A gateway of another home, with other servers.
    let other = ("mcpservers/theirs.yaml", "name: theirs\ncommand: 'true'\nautoStart: false\n");
    let gateway = Gateway::start_private(&[other], &[]);
    clinic.write("mcpservers/ours.yaml", "name: ours\ncommand: 'true'\n");
    let endpoint = format!("http://localhost:{}/mcp", gateway.port);
    let report = clinic.examine(&["--no-servers", "--endpoint", &endpoint]);
    let codes: Vec<&str> = report["findings"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|found| found["subject"] == endpoint.as_str())
        .map(|found| found["code"].as_str().unwrap())
        .collect();
    assert_eq!(codes, ["ok", "not-operator", "other-configuration"], "{report}");
    assert!(report.to_string().contains("it has theirs, and not ours"), "{report}");
}

#[test]
fn files_and_their_references() {
    let clinic = Clinic::new(&[
        ("mcpservers/a.yaml", "name: same\ncommand: sh\nargs: [-c, 'exit 1']\n"),
        ("mcpservers/b.yaml", "name: same\ncommand: sh\n"),
        (
            "mcpservers/secret.yaml",
            "name: secret\ncommand: sh\nargs: [-c, 'exit 1']\nenv: {T: 'secret://nope'}\n",
        ),
        ("mcpservers/twice.yaml", "name: twice\ncommand: sh\ncommand: sh\n"),
        ("workflows/w.yaml", "name: w\nsteps: [{id: a, tool: x_nobody_tool}]\n"),
        ("secrets/open", "x"),
    ]);
    fs::set_permissions(clinic.path("secrets/open"), fs::Permissions::from_mode(0o644)).unwrap();
    let report = clinic.examine(&[]);
    for (subject, words) in [
        ("b.yaml", "file-invalid | the name 'same' is taken by"),
        ("secret.yaml", "secret-missing"),
        (
            "twice.yaml:3",
            "file-invalid | command: `command` is written twice: line 2 has no effect | remove one",
        ),
        (
            "w.yaml",
            "file-warning | there is no tool `x_nobody_tool`: the workflow is not available",
        ),
        (
            "secrets/open",
            "secret-readable | other users can read the secrets in this file | chmod 600",
        ),
    ] {
        let said = found(&report, subject);
        assert!(said.starts_with(words), "{subject}: {said}");
    }
    clinic.run(&["--no-servers", "--fix", "--yes"]);
    let mode = fs::metadata(clinic.path("secrets/open")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn bundled_clis_are_counted() {
    let clinic = Clinic::new(&[("config.yaml", "aggregator: {port: 9}\nclis: {bundled: all}\n")]);
    let report = clinic.examine(&["--no-servers"]);
    let said = report["findings"][0]["message"].as_str().unwrap();
    // Which are installed differs by machine; `ls` and its relatives are everywhere.
    assert!(said.contains("0 CLIs of your own and "), "{said}");
    assert!(!said.contains("and 0 bundled ones"), "{said}");
}

#[test]
fn what_a_policy_or_a_server_gives_away_is_told() {
    let clinic = Clinic::new(&[
        ("policies/p.yaml", "callers: [{users: ['*'], operator: true}]\n"),
        ("mcpservers/env.yaml", "name: env\ncommand: 'true'\ninheritEnv: ['*']\n"),
        (
            "mcpservers/plain.yaml",
            "name: plain\nurl: http://h.example/mcp\nheaders: {X-Api-Key: k}\n",
        ),
    ]);
    let report = clinic.examine(&["--no-servers"]);
    let codes = |subject: &str| -> Vec<&str> {
        let findings = report["findings"].as_array().unwrap().iter();
        let about = findings.filter(|found| found["subject"].as_str().unwrap().ends_with(subject));
        about.map(|found| found["code"].as_str().unwrap()).filter(|code| *code != "ok").collect()
    };
    for (subject, expected) in [
        ("/policies/p.yaml", "policy-wide"),
        ("env", "environment-inherited"),
        ("plain", "credentials-unencrypted"),
        ("/plain.yaml", "secret-readable"),
    ] {
        assert_eq!(codes(subject), [expected], "{subject}: {report}");
    }
}

#[test]
fn a_terminal_shows_that_it_is_working() {
    let silent = "command: sh\nargs: [-c, 'sleep 60']\ntimeout: 2\n";
    let clinic = Clinic::new(&[("mcpservers/silent.yaml", silent)]);
    let (shown, _) = raw_terminal(&clinic.command(&[]));
    let (working, done) = shown.split_once("no answer within").unwrap();
    assert!(working.contains(" Checking..."), "{shown}");
    assert!(!done.contains("Checking"), "{shown}");
}

/// Programs that exist and cannot be started, and servers that end because of their definition.
#[test]
fn programs_that_exist_and_do_not_start() {
    let clinic = Clinic::new(&[]);
    let program = |name: &str, bytes: &[u8]| {
        let path = clinic.path(name);
        fs::write(&path, bytes).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        let text = format!("command: {}\n", path.display());
        clinic.write(&format!("mcpservers/{}.yaml", name.split('.').next().unwrap()), &text);
    };
    let mut elf = [0; 64];
    elf[..4].copy_from_slice(b"\x7fELF");
    // RISC-V, which no test runs on.
    elf[18] = 0xf3;
    program("windows.sh", b"#!/bin/sh\r\nexit 0\r\n");
    program("interpreter", b"#!/usr/bin/python0.9\nprint()\n");
    program("searched", b"#!/usr/bin/env -S no-such-interpreter -x\n");
    program("bare.py", b"print()\n");
    program("foreign", &elf);
    program("good", b"#!/usr/bin/env sh\nexit 0\n");
    clinic.write("mcpservers/folder.yaml", "command: /\n");
    let script = |name: &str, script: &str| {
        let text = format!("command: sh\nargs: [-c, {script:?}, sh, /no/such/index.js]\n");
        clinic.write(&format!("mcpservers/{name}.yaml"), &text);
    };
    script("variable", "echo 'Error: ACME_API_TOKEN environment variable is required' >&2; exit 1");
    script("inherited", "echo 'please set ACME_HERE_KEY' >&2; exit 1");
    script("argument", "echo \"Error: Cannot find module '$1'\" >&2; echo Node.js v20 >&2; exit 1");
    let report = clinic.command(&["--timeout", "3", "--output", "json"]);
    let report = { report }.env("ACME_HERE_KEY", "k").output().unwrap();
    let report: Value = serde_json::from_slice(&report.stdout).unwrap();
    for (subject, words, fix) in [
        ("windows", "script-line-ends | `", "| sed -i 's/\\r$//' "),
        ("interpreter", "interpreter-missing", "#!/usr/bin/env python0.9"),
        (
            "searched",
            "interpreter-missing",
            "needs `no-such-interpreter`, which was not found | install it",
        ),
        ("bare", "script-without-interpreter", "write `command: python3`, and put /"),
        ("foreign", "program-architecture", "is built for riscv64, and this machine is "),
        ("good", "server-failed", "it exited with code 0"),
        ("folder", "program-missing | `/` is a directory", "name the program itself"),
        (
            "variable",
            "variable-missing | it needs the variable `ACME_API_TOKEN`: `Error: ",
            "| set it in its definition: `env: {ACME_API_TOKEN: …}`",
        ),
        ("inherited", "variable-missing", "add `inheritEnv: [ACME_HERE_KEY]`"),
        (
            "argument",
            "path-missing | `/no/such/index.js` does not exist: `Error: Cannot find module",
            "| correct the path in `args`",
        ),
    ] {
        let said = found(&report, subject);
        assert!(said.starts_with(words) && said.contains(fix), "{subject}: {said}");
    }
}

/// What answers instead of an MCP server, by status.
#[test]
fn web_servers_that_refuse() {
    let clinic = Clinic::new(&[]);
    let answers = |name: &str, head: &'static str| {
        let port = answering(head.as_bytes());
        let text = format!("url: http://127.0.0.1:{port}/mcp\ntype: streamable-http\n");
        clinic.write(&format!("mcpservers/{name}.yaml"), &text);
    };
    let empty = "content-length: 0\r\nconnection: close\r\n\r\n";
    let answer = |status: &str| -> &'static str { format!("HTTP/1.1 {status}\r\n{empty}").leak() };
    answers("login", answer("401 Unauthorized\r\nwww-authenticate: Bearer"));
    answers("credentials", answer("401 Unauthorized"));
    answers("moved", answer("302 Found\r\nlocation: https://login.example/"));
    answers("forbidden", answer("403 Forbidden"));
    answers("broken", answer("500 Internal Server Error"));
    clinic.write("mcpservers/port.yaml", "url: http://127.0.0.1:99999/mcp\n");
    let report = clinic.examine(&["--timeout", "5"]);
    for (subject, words, fix) in [
        ("login", "login-required", "`muster auth login --server login`"),
        ("credentials", "credentials-required", "`headers: {Authorization: Bearer …}`"),
        ("moved", "not-mcp", "write the address that it redirects to"),
        ("forbidden", "not-mcp", "check the credentials in its `headers`"),
        ("broken", "not-mcp", "look at the log of the server"),
        ("port", "url-invalid | the url cannot be used: ", "write it as `https://HOST:PORT/PATH`"),
    ] {
        let said = found(&report, subject);
        assert!(said.starts_with(words) && said.contains(fix), "{subject}: {said}");
    }
}

/// The fix for a certificate of one's own leads to a check that passes the certificate.
#[test]
fn a_certificate_of_ones_own_can_be_checked() {
    let clinic = Clinic::new(&[("ca.pem", "nothing")]);
    let output = clinic.run(&["--extra-ca-file", "/no/such.pem"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("--extra-ca-file /no/such.pem: No such file"), "{said}");
    assert!(said.contains("hint: name a file with certificates in PEM format"), "{said}");
    let file = clinic.path("ca.pem");
    let output = clinic.run(&["--extra-ca-file", file.to_str().unwrap()]);
    assert!(!output.status.success(), "{output:?}");
}

#[test]
fn files_in_other_encodings() {
    let clinic = Clinic::new(&[]);
    clinic.write("mcpservers/tabs.yaml", "command: echo\nargs:\n\t- a\n");
    clinic.write("mcpservers/mark.yaml", "\u{feff}command: 'true'\r\nautoStart: false\r\n");
    let utf16: Vec<u8> = "command: a\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
    fs::write(clinic.path("mcpservers/wide.yaml"), [b"\xff\xfe".as_slice(), &utf16].concat())
        .unwrap();
    let report = clinic.examine(&["--no-servers"]);
    let said = found(&report, "wide.yaml");
    assert!(said.contains("it is not text in UTF-8 | save it as UTF-8"), "{said}");
    let said = found(&report, "tabs.yaml:3");
    assert!(said.contains("; write spaces instead of the tab |"), "{said}");
    let findings = report["findings"].as_array().unwrap();
    assert!(!findings.iter().any(|one| one["subject"].as_str().unwrap().contains("mark.yaml")));
}

#[test]
fn a_state_folder_that_cannot_be_written() {
    let clinic = Clinic::new(&[]);
    clinic.write("file", "");
    let state = clinic.path("file").join("state");
    let mut command = clinic.command(&["--no-servers", "--output", "json"]);
    let output = command.env("MUSTER_STATE_PATH", &state).output().unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let said = found(&report, state.to_str().unwrap());
    assert!(said.starts_with("state-not-writable | the gateway cannot write its state"), "{said}");
    assert!(said.contains("MUSTER_STATE_PATH"), "{said}");
}
