//! SecretStore are planted everywhere, a user logs in and out, everything fails once and is listed, and nothing
//! of what is secret may be found afterwards: not in answers, log lines, output or files.

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _},
    net::TcpStream,
    path::Path,
    process::{Child, Command, Stdio},
    sync::atomic::Ordering,
    thread::JoinHandle,
};

use muster_auth::random;
use serde_json::{Value, json};

use super::{canary_peers::Peers, client::Folder, serve::MUSTER};

const REDIRECT: &str = "https://app.example/cb";
const VERIFIER: &str = "canary-verifier-canary-verifier-canary-verifier";
const KEY: &str = "Y2FuYXJ5LWVuY3J5cHRpb24ta2V5LTAxMjM0NTY3ODk=";

/// A gateway, and everything it has said to anybody.
struct Watched {
    child: Child,
    port: u16,
    answers: String,
    said: Vec<JoinHandle<String>>,
    cookie: String,
    token: String,
}

impl Watched {
    fn start(folder: &Path) -> Self {
        let mut child = Command::new(MUSTER)
            .args(["serve", "--debug", "--config-path"])
            .arg(folder)
            .env("CANARY_OF_THE_GATEWAY", "canary-environment")
            .env("MUSTER_STATE_PATH", folder.join("state"))
            .env("MUSTER_ACCESS", "open")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut errors = BufReader::new(child.stderr.take().unwrap());
        let mut first = String::new();
        // Other words may come before the address.
        let port = loop {
            let start = first.len();
            assert_ne!(errors.read_line(&mut first).unwrap(), 0, "{first}");
            let line = first.get(start..).unwrap().trim();
            let port = line.strip_suffix("/mcp").and_then(|line| line.rsplit_once(':'));
            if let Some(port) = port.and_then(|(_, port)| port.parse().ok()) {
                break port;
            }
        };
        let rest = move |mut from: Box<dyn std::io::Read + Send>, mut text: String| {
            std::thread::spawn(move || {
                from.read_to_string(&mut text).unwrap();
                text
            })
        };
        let out = child.stdout.take().unwrap();
        let said = vec![rest(Box::new(errors), first), rest(Box::new(out), String::new())];
        Self {
            child,
            port,
            answers: String::new(),
            said,
            cookie: String::new(),
            token: String::new(),
        }
    }

    /// Status, head and body of an answer, which is kept to be looked at.
    fn send(&mut self, line: &str, more: &str, body: &str) -> (u16, String, String) {
        let answer = self.privately(line, more, body);
        let path = line.split('?').next().unwrap();
        self.answers.extend([path, "\n", &answer.1, " ", &answer.2, "\n"]);
        answer
    }

    /// Sends a request whose response must contain a secret: it is meant for this client.
    fn privately(&mut self, line: &str, more: &str, body: &str) -> (u16, String, String) {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        let head = format!(
            "{line} HTTP/1.1\r\nhost: localhost\r\ncookie: {}\r\n{more}connection: close\r\ncontent-length: {}\r\n\r\n",
            self.cookie,
            body.len()
        );
        std::io::Write::write_all(&mut stream, format!("{head}{body}").as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        (status, head.to_owned(), body.to_owned())
    }

    fn form(&mut self, path: &str, fields: &[(&str, &str)]) -> (u16, String, String) {
        let body = form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish();
        let kind = "content-type: application/x-www-form-urlencoded\r\n";
        let line = format!("POST {path}");
        if path == "/oauth/token" {
            self.privately(&line, kind, &body)
        } else {
            self.send(&line, kind, &body)
        }
    }

    /// Asks by the protocol, with the token of the user who is logged in.
    fn ask(&mut self, method: &str, mut params: Value) -> Value {
        params["_meta"] = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {}});
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        let name = ["name", "uri"].iter().find_map(|key| params[*key].as_str());
        let name = name.map(|name| format!("mcp-name: {name}\r\n")).unwrap_or_default();
        let more = format!(
            "content-type: application/json\r\naccept: application/json, text/event-stream\r\n\
             mcp-protocol-version: 2026-07-28\r\nmcp-method: {method}\r\n{name}authorization: Bearer {}\r\n",
            self.token
        );
        let (_, _, answer) = self.send("POST /mcp", &more, &body.to_string());
        let answer = answer.lines().find_map(|line| line.strip_prefix("data: ")).unwrap_or(&answer);
        serde_json::from_str(answer).unwrap_or_default()
    }

    /// The text of a tool's answer.
    fn call(&mut self, tool: &str, arguments: Value) -> String {
        let arguments = json!({"name": tool, "arguments": arguments});
        let answer = self.ask("tools/call", json!({"name": "call_tool", "arguments": arguments}));
        let text = answer["result"]["content"][0]["text"].as_str().unwrap_or_default();
        let inner: Value = serde_json::from_str(text).unwrap_or_default();
        inner["content"][0]["text"].as_str().unwrap_or_default().to_owned()
    }

    /// Ends it; everything that it wrote.
    fn end(mut self) -> (String, String) {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
        self.child.wait().unwrap();
        let said: Vec<String> = self.said.drain(..).map(|said| said.join().unwrap()).collect();
        (std::mem::take(&mut self.answers), said.concat())
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

fn parameter(text: &str, name: &str) -> String {
    let behind = text.split_once(&format!("{name}=")).map_or("", |(_, behind)| behind);
    behind.split(['&', '\r', '\n', '"', ' ']).next().unwrap().to_owned()
}

fn planted(base: &str) -> Vec<(&'static str, String)> {
    let server = json!({"enabled": true, "baseUrl": "http://localhost:1", "provider": "dex",
        "dex": {"issuerUrl": base, "clientId": "muster", "clientSecret": "canary-provider-secret"},
        "encryptionKey": KEY, "registrationToken": "canary-registration"});
    let client = json!({"enabled": true, "publicUrl": "http://localhost:1"});
    let config =
        json!({"aggregator": {"port": 0, "oauth": {"server": server, "mcpClient": client}}});
    let vault = json!({"type": "streamable-http", "autoStart": true, "url": format!("{base}/mcp"),
        "headers": {"X-Key": "canary-header", "X-Secret": "secret://kept"}});
    let broken = json!({"type": "stdio", "autoStart": true, "command": "/bin/false",
        "env": {"TOKEN": "canary-variable", "OTHER": "secret://kept"}});
    let gone = json!({"type": "streamable-http", "autoStart": true,
        "url": "http://canary-user:canary-password@127.0.0.1:9/mcp?key=canary-query"});
    vec![
        ("config.yaml", config.to_string()),
        ("mcpservers/vault.yaml", vault.to_string()),
        ("mcpservers/broken.yaml", broken.to_string()),
        ("mcpservers/gone.yaml", gone.to_string()),
        ("secrets/kept", "canary-kept".to_owned()),
    ]
}

/// A user logs in to the gateway: their refresh token.
fn log_in(gateway: &mut Watched, base: &str) -> (String, String) {
    let wish = json!({"client_name": "App", "redirect_uris": [REDIRECT]}).to_string();
    let more = "content-type: application/json\r\nauthorization: Bearer canary-registration\r\n";
    let (status, _, body) = gateway.privately("POST /oauth/register", more, &wish);
    assert_eq!(status, 201, "{body}");
    let registered: Value = serde_json::from_str(&body).unwrap();
    let (id, secret) =
        (registered["client_id"].as_str().unwrap(), registered["client_secret"].as_str().unwrap());
    let challenge = random::digest_of(VERIFIER);
    let state = "state-state-state-state-state-state";
    let line = format!(
        "GET /oauth/authorize?response_type=code&client_id={id}&redirect_uri={REDIRECT}&state={state}&code_challenge={challenge}&code_challenge_method=S256"
    );
    let (_, head, body) = gateway.send(&line, "", "");
    assert!(head.contains(&format!("location: {base}/auth?")), "{head} {body}");
    gateway.cookie =
        parameter(&head, "set-cookie: muster-browser").split(';').next().unwrap().to_owned();
    gateway.cookie = format!("muster-browser={}", gateway.cookie);
    let ours = parameter(&head, "state");
    let line = format!("GET /oauth/callback?state={ours}&code=canary-provider-code");
    let (_, head, body) = gateway.privately(&line, "", "");
    let code = parameter(&head, "code");
    assert!(!code.is_empty(), "{head} {body}");
    let fields = [
        ("grant_type", "authorization_code"),
        ("code", code.as_str()),
        ("code_verifier", VERIFIER),
        ("client_id", id),
        ("client_secret", secret),
    ];
    let (status, _, body) = gateway.form("/oauth/token", &fields);
    assert_eq!(status, 200, "{body}");
    let tokens: Value = serde_json::from_str(&body).unwrap();
    gateway.token = tokens["access_token"].as_str().unwrap().to_owned();
    let refresh = tokens["refresh_token"].as_str().unwrap().to_owned();
    // What is tried a second time is refused, with the secret in the request.
    assert_eq!(
        gateway
            .form(
                "/oauth/token",
                &[
                    ("grant_type", "refresh_token"),
                    ("refresh_token", "canary-wrong"),
                    ("client_id", id),
                    ("client_secret", "canary-wrong-secret")
                ]
            )
            .0,
        401
    );
    (refresh, format!("{id}\n{secret}"))
}

#[test]
fn nothing_secret_is_found_anywhere() {
    let peers = Peers::start();
    let folder = Folder::new(&[]);
    let planted = planted(&peers.base);
    for (name, text) in &planted {
        let path = folder.file(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let mut gateway = Watched::start(folder.path());
    while !gateway.send("GET /health", "", "").2.contains("\"ok\"") {
        std::thread::yield_now();
    }
    let (refresh, credentials) = log_in(&mut gateway, &peers.base);
    log_in_to_the_server(&mut gateway, &peers);
    everything_is_listed(&mut gateway);
    everything_fails(&mut gateway, &peers, &credentials, &refresh);
    let token = gateway.token.clone();
    let (answers, said) = gateway.end();
    assert!(answers.contains("opened"), "the server was called");
    assert!(said.contains("DEBUG"), "{said}");
    let secrets = [token.as_str(), &refresh, KEY, "canary-", "Y2FuYXJ5", "Bearer c"];
    let look = |what: &str, text: &str| {
        for secret in &secrets {
            if let Some((before, after)) = text.split_once(secret) {
                let near: String =
                    before.chars().rev().take(200).collect::<Vec<_>>().into_iter().rev().collect();
                let behind: String = after.chars().take(40).collect();
                panic!("{what} has `{secret}`: …{near}[{secret}]{behind}…");
            }
        }
    };
    look("an answer", &answers);
    look("the log", &said);
    for (path, text) in files(folder.path()) {
        let name = path.strip_prefix(folder.path()).unwrap().to_str().unwrap();
        let Some((_, before)) = planted.iter().find(|(known, _)| *known == name) else {
            look(name, &text);
            continue;
        };
        // What was put there is there, and not once more.
        for word in text.split(|c: char| !c.is_ascii_alphanumeric() && c != '-') {
            let often = text.matches(word).count();
            let is_secret = word.starts_with("canary-");
            assert!(!is_secret || often <= before.matches(word).count(), "{name}: {text}");
        }
    }
}

fn log_in_to_the_server(gateway: &mut Watched, peers: &Peers) {
    // The first attempt fails: the issuer's error repeats everything it was sent.
    peers.unfriendly.store(true, Ordering::SeqCst);
    for friendly in [false, true] {
        peers.unfriendly.store(!friendly, Ordering::SeqCst);
        let text = gateway.call("core_auth_login", json!({"server": "vault"}));
        let state = parameter(&text, "state");
        assert!(!state.is_empty(), "{text}");
        let line = format!("GET /oauth/proxy/callback?state={state}&code=canary-backend-code");
        let (status, _, page) = gateway.send(&line, "", "");
        assert_eq!(status == 200, friendly, "{page}");
    }
    let text = gateway.call("x_vault_open", json!({}));
    assert_eq!(text, "opened");
}

fn everything_is_listed(gateway: &mut Watched) {
    for (tool, arguments) in [
        ("core_mcpserver_list", json!({"verbose": true})),
        ("core_mcpserver_get", json!({"name": "vault"})),
        ("core_mcpserver_get", json!({"name": "broken"})),
        ("core_mcpserver_get", json!({"name": "gone"})),
        ("core_service_list", json!({})),
        ("core_service_status", json!({"name": "broken"})),
        ("core_config_get", json!({})),
        ("core_config_get_aggregator", json!({})),
        ("core_events", json!({"limit": 1000})),
    ] {
        let text = gateway.call(tool, arguments);
        assert!(text.len() > 10, "{tool}: {text}");
    }
    gateway.ask("tools/call", json!({"name": "list_tools", "arguments": {}}));
    gateway.ask("tools/list", json!({}));
    gateway.ask("resources/list", json!({}));
    gateway.ask("resources/read", json!({"uri": "auth://status"}));
}

fn everything_fails(gateway: &mut Watched, peers: &Peers, credentials: &str, refresh: &str) {
    let (id, secret) = credentials.split_once('\n').unwrap();
    peers.unfriendly.store(true, Ordering::SeqCst);
    let bearer = |token: &str| {
        format!("authorization: Bearer {token}\r\ncontent-type: application/json\r\n")
    };
    for token in ["canary-garbage", "canary.canary-.canary", &format!("{}x", gateway.token)] {
        gateway.send("POST /mcp", &bearer(token), "{}");
    }
    gateway.send(
        "GET /oauth/callback?state=canary-state&code=canary-code&error_description=canary-x",
        "",
        "",
    );
    gateway.send("GET /oauth/proxy/callback?state=canary-state&code=canary-code", "", "");
    gateway.send("GET /oauth/authorize?client_id=canary-id&state=x&redirect_uri=canary-y", "", "");
    gateway.form(
        "/oauth/introspect",
        &[("client_id", id), ("client_secret", "canary-wrong"), ("token", "canary-z")],
    );
    gateway.call("core_auth_logout", json!({"server": "vault"}));
    gateway.call("core_auth_login", json!({"server": "vault"}));
    let own = bearer(&gateway.token);
    assert_eq!(gateway.send("DELETE /auth/vault", &own, "").0, 204);
    assert_eq!(gateway.send("DELETE /auth/nobody", &own, "").0, 204);
    assert_eq!(gateway.send("DELETE /user-tokens", &own, "").0, 204);
    assert_eq!(gateway.send("DELETE /user-tokens", "", "").0, 401);
    assert_eq!(gateway.send("GET /user-tokens", &own, "").0, 405);
    let fields = [("client_id", id), ("client_secret", secret), ("token", refresh)];
    assert_eq!(gateway.form("/oauth/revoke", &fields).0, 200);
    assert_eq!(gateway.send("DELETE /user-tokens", &own, "").0, 401);
}

/// Every file below a folder, as text.
fn files(folder: &Path) -> Vec<(std::path::PathBuf, String)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            let text = String::from_utf8_lossy(&fs::read(&path).unwrap()).into_owned();
            found.push((path, text));
        }
    }
    found
}
