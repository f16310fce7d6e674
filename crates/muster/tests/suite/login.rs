//! `muster auth`, with a gateway that wants logins, an issuer, and a browser: all of them real on the
//! wire, the issuer and the browser played by the test.

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{TcpListener, TcpStream},
    os::unix::fs::PermissionsExt as _,
    path::PathBuf,
    process::{Command, Stdio},
};

use expect_test::expect;
use muster_auth::random;
use serde_json::{Value, json};

use super::{
    bridge::{Bridge, INITIALIZE},
    client::Folder,
    serve::{Gateway, MUSTER},
};

/// A door in front of a gateway that admits the token `good`, and issues it.
struct Door {
    port: u16,
    _gateway: Gateway,
}

impl Door {
    fn new() -> Self {
        let gateway = Gateway::start(&[], &[]);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (port, inside) = (listener.local_addr().unwrap().port(), gateway.port);
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                std::thread::spawn(move || serve(stream, port, inside));
            }
        });
        Self { port, _gateway: gateway }
    }

    fn url(&self) -> String {
        format!("http://127.0.0.1:{}/mcp", self.port)
    }
}

/// Answers one request: about logins by itself, everything else from inside, with a token.
fn serve(stream: TcpStream, port: u16, inside: u16) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut head = String::new();
    let (mut length, mut token) = (0, None);
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).unwrap_or(0) == 0 {
            return;
        }
        let small = line.to_lowercase();
        if let Some(value) = small.strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        if small.starts_with("authorization:") {
            token = line.trim().rsplit(' ').next().map(str::to_owned);
        } else if small.starts_with("host:") {
            head.push_str("host: localhost:");
            head.push_str(&inside.to_string());
            head.push_str("\r\n");
        } else if line == "\r\n" {
            break;
        } else {
            head.push_str(&line);
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    let path = head.split(' ').nth(1).unwrap().to_owned();
    if path == "/mcp" && token.as_deref() == Some("good") {
        return forward(stream, &head, &body, inside);
    }
    let body = String::from_utf8(body).unwrap();
    let (status, mut extra, answer) = about_logins(&path, &body, port);
    if token.as_deref() == Some("revoked") {
        extra = extra.replace("Bearer ", "Bearer error=\"invalid_token\", ");
    }
    let mut stream = stream;
    write!(
        stream,
        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\nconnection: close\r\n{extra}content-length: {}\r\n\r\n{answer}",
        answer.len()
    )
    .unwrap();
}

fn forward(mut stream: TcpStream, head: &str, body: &[u8], inside: u16) {
    let mut there = TcpStream::connect(("127.0.0.1", inside)).unwrap();
    write!(there, "{head}connection: close\r\n\r\n").unwrap();
    there.write_all(body).unwrap();
    let mut answer = Vec::new();
    there.read_to_end(&mut answer).unwrap();
    stream.write_all(&answer).unwrap();
}

fn about_logins(path: &str, body: &str, port: u16) -> (&'static str, String, String) {
    let base = format!("http://127.0.0.1:{port}");
    let field = |name: &str| {
        form_urlencoded::parse(body.as_bytes())
            .find(|(key, _)| key == name)
            .map(|(_, v)| v.into_owned())
    };
    let plain = |answer: Value| ("200 OK", String::new(), answer.to_string());
    match path {
        "/.well-known/oauth-protected-resource/mcp" => plain(json!({
            "resource": format!("{base}/mcp"), "authorization_servers": [base], "scopes_supported": ["openid"],
        })),
        "/.well-known/oauth-authorization-server" => plain(json!({
            "issuer": base, "authorization_endpoint": format!("{base}/authorize"),
            "token_endpoint": format!("{base}/token"), "registration_endpoint": format!("{base}/register"),
            "code_challenge_methods_supported": ["S256"],
        })),
        "/register" => plain(json!({"client_id": "client-1"})),
        "/token" => {
            // The code is the challenge that came with the question for it.
            let proves = field("code_verifier").map(|verifier| random::digest_of(&verifier));
            let is_first = proves.is_some() && proves == field("code");
            let renews = field("refresh_token").as_deref() == Some("again");
            if !(is_first || renews) || field("client_id").as_deref() != Some("client-1") {
                return (
                    "400 Bad Request",
                    String::new(),
                    json!({"error": "invalid_grant"}).to_string(),
                );
            }
            let claims = random::base64url(br#"{"email":"ada@example.com","sub":"7"}"#);
            plain(json!({
                "access_token": "good", "refresh_token": "again", "token_type": "Bearer",
                "expires_in": 7300, "id_token": format!("x.{claims}.x"),
            }))
        }
        _ => {
            let metadata = format!("{base}/.well-known/oauth-protected-resource/mcp");
            // A quoted text that looks like parameters: neither is one.
            let text = "use scope=admin, issuer=https://evil.example";
            let challenge = format!(
                "www-authenticate: Bearer error_description=\"{text}\", resource_metadata=\"{metadata}\"\r\n"
            );
            ("401 Unauthorized", challenge, json!({"error": "unauthorized"}).to_string())
        }
    }
}

/// A user with a home and a browser.
struct User {
    door: Door,
    home: Folder,
    pipe: PathBuf,
    callback: u16,
}

/// What the browser does with the address it is given.
#[derive(Clone, Copy)]
enum Browser {
    Agrees,
    Refuses,
    Forges,
    /// Comes back with two codes, the right one last.
    Repeats,
}

impl User {
    fn new() -> Self {
        let home = Folder::new(&[]);
        let pipe = home.file("opened");
        assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let opener = home.file("bin/xdg-open");
        fs::create_dir_all(opener.parent().unwrap()).unwrap();
        fs::write(&opener, format!("#!/bin/sh\nprintf '%s\\n' \"$1\" > {}\n", pipe.display()))
            .unwrap();
        fs::set_permissions(&opener, fs::Permissions::from_mode(0o755)).unwrap();
        let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        Self { door: Door::new(), home, pipe, callback: free }
    }

    fn command(&self, words: &[&str]) -> Command {
        self.command_at(&self.door.url(), words)
    }

    fn command_at(&self, endpoint: &str, words: &[&str]) -> Command {
        let path = std::env::var("PATH").unwrap();
        let mut command = Command::new(MUSTER);
        command
            .args(words)
            .args(["--endpoint", endpoint])
            .env("HOME", self.home.path())
            .env("PATH", format!("{}:{path}", self.home.file("bin").display()))
            .env("MUSTER_OAUTH_CALLBACK_PORT", self.callback.to_string())
            .env_remove("MUSTER_AUTH_MODE")
            .stdin(Stdio::null());
        command
    }

    fn said(&self, output: &std::process::Output) -> String {
        let text = |bytes: &[u8]| {
            String::from_utf8_lossy(bytes)
                .replace(&self.door.port.to_string(), "[PORT]")
                .replace(&self.callback.to_string(), "[CALLBACK]")
        };
        let stderr: String = text(&output.stderr)
            .lines()
            .map(|line| format!("{}\n", format!("stderr: {line}").trim_end()))
            .collect();
        format!("{}{stderr}exit {}\n", text(&output.stdout), output.status.code().unwrap())
    }

    fn run(&self, words: &[&str]) -> String {
        self.said(&self.command(words).output().unwrap())
    }

    /// Runs a command that opens the browser; what the browser was shown comes last.
    fn browse(&self, words: &[&str], browser: Browser) -> String {
        let mut command = self.command(words);
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let opened = fs::read_to_string(&self.pipe).unwrap();
        let page = visit(opened.trim(), self.callback, browser);
        format!("{}{page}\n", self.said(&child.wait_with_output().unwrap()))
    }
}

/// Comes back from the issuer's page as a browser does; the heading of the page it is shown.
fn visit(opened: &str, callback: u16, browser: Browser) -> String {
    let query = opened.split_once('?').unwrap().1;
    let field = |name: &str| {
        let found = form_urlencoded::parse(query.as_bytes()).find(|(key, _)| key == name);
        found.unwrap_or_else(|| panic!("no {name} in {opened}")).1.into_owned()
    };
    assert_eq!(field("redirect_uri"), format!("http://localhost:{callback}/callback"));
    assert_eq!((&*field("code_challenge_method"), &*field("scope")), ("S256", "openid"));
    let state = if matches!(browser, Browser::Forges) { "x".to_owned() } else { field("state") };
    let answer = match browser {
        Browser::Refuses => "error=access_denied&error_description=%3Cnot%20today%3E".to_owned(),
        Browser::Agrees | Browser::Forges => format!("code={}", field("code_challenge")),
        Browser::Repeats => format!("code=other&code={}", field("code_challenge")),
    };
    let mut stream = TcpStream::connect(("127.0.0.1", callback)).unwrap();
    write!(stream, "GET /callback?{answer}&state={state} HTTP/1.1\r\nhost: localhost\r\n\r\n")
        .unwrap();
    let mut page = String::new();
    stream.read_to_string(&mut page).unwrap();
    let body = page.split_once("<body>").unwrap().1;
    body.split_once("</body>").unwrap().0.to_owned()
}

#[test]
fn a_login_from_start_to_end() {
    let user = User::new();
    let before = [user.run(&["auth", "status"]), user.run(&["auth", "whoami"])].concat();
    expect![[r#"
        Muster Aggregator
          Endpoint:  http://127.0.0.1:[PORT]/mcp
          Status:    Not authenticated
                     Run: muster auth login
        exit 0
        Not authenticated to http://127.0.0.1:[PORT]/mcp

        To authenticate, run:
          muster auth login --endpoint http://127.0.0.1:[PORT]/mcp
        exit 0
    "#]]
    .assert_eq(&before);
    expect![[r#"
        Opening browser for authentication... done
        Waiting for authentication to complete...

        Successfully authenticated to http://127.0.0.1:[PORT]/mcp
        exit 0
        <h1>Authentication Successful</h1><p>You are logged in. You can close this window and go back to the terminal.</p>
    "#]].assert_eq(&user.browse(&["auth", "login"], Browser::Agrees));
    let after = [
        user.run(&["auth", "login"]),
        user.run(&["auth", "status"]),
        user.run(&["auth", "whoami"]),
        user.run(&["list", "services"]),
        user.run(&["auth", "refresh"]),
        user.run(&["auth", "logout"]),
        user.run(&["auth", "refresh"]),
    ];
    expect![[r#"
        Already logged in to http://127.0.0.1:[PORT]/mcp
        exit 0
        Muster Aggregator
          Endpoint:  http://127.0.0.1:[PORT]/mcp
          Status:    Authenticated
          Expires:   in 2 hours
          Refresh:   Available
          Issuer:    http://127.0.0.1:[PORT]
        exit 0
        Identity:  ada@example.com
        Endpoint:  http://127.0.0.1:[PORT]/mcp
        Issuer:    http://127.0.0.1:[PORT]
        Expires:   in 2 hours
        exit 0
        NAME             HEALTH    STATE     SERVICE_TYPE
        mcp-aggregator   healthy   Running   Aggregator
        exit 0
        Refreshing token for http://127.0.0.1:[PORT]/mcp...
        Token refreshed successfully.
        exit 0
        Logged out from http://127.0.0.1:[PORT]/mcp
        exit 0
        stderr: Error: failed to refresh token: not authenticated. Run 'muster auth login --endpoint http://127.0.0.1:[PORT]/mcp' first
        exit 1
    "#]].assert_eq(&after.concat());
}

#[test]
fn any_command_logs_in_where_it_has_to() {
    let user = User::new();
    expect![[r#"
        stderr: Error: Authentication required for http://127.0.0.1:[PORT]/mcp
        stderr:
        stderr: hint: log in with `muster auth login --endpoint http://127.0.0.1:[PORT]/mcp`
        stderr:
        stderr: hint: check your logins with `muster auth status`
        exit 2
    "#]]
    .assert_eq(&user.run(&["list", "services", "--auth", "none"]));
    expect![[r#"
        NAME             HEALTH    STATE     SERVICE_TYPE
        mcp-aggregator   healthy   Running   Aggregator
        stderr: Authentication required. Opening browser...
        stderr: Opening browser for authentication... done
        stderr: Waiting for authentication to complete...
        stderr:
        exit 0
        <h1>Authentication Successful</h1><p>You are logged in. You can close this window and go back to the terminal.</p>
    "#]].assert_eq(&user.browse(&["list", "services"], Browser::Agrees));
    let files: Vec<PathBuf> = fs::read_dir(user.home.file(".config/muster/tokens"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    assert_eq!(files.len(), 1, "{files:?}");
    let mode = |path: &PathBuf| path.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&files[0]), 0o600);
    // A token that the gateway calls invalid is refreshed, or else forgotten; not at every 401.
    let stored: Value = serde_json::from_str(&fs::read_to_string(&files[0]).unwrap()).unwrap();
    let no_refresh = Value::Null;
    for (access, refresh, exit, is_kept) in [
        ("canary", &no_refresh, 2, true),
        ("revoked", &stored["refresh_token"], 0, true),
        ("revoked", &json!("used up"), 2, true),
        ("revoked", &no_refresh, 2, false),
    ] {
        let mut token = stored.clone();
        (token["access_token"], token["refresh_token"]) = (json!(access), refresh.clone());
        fs::write(&files[0], token.to_string()).unwrap();
        let said = user.run(&["list", "services", "--quiet", "--debug"]);
        assert!(!said.contains("canary"), "{said}");
        assert!(said.ends_with(&format!("exit {exit}\n")), "{access} {refresh}: {said}");
        assert_eq!(files[0].exists(), is_kept, "{access} {refresh}");
    }
}

#[test]
fn the_status_does_not_end_logins_that_may_still_be_good() {
    let user = User::new();
    user.browse(&["auth", "login"], Browser::Agrees);
    let mut files = fs::read_dir(user.home.file(".config/muster/tokens")).unwrap();
    let file = files.next().unwrap().unwrap().path();
    let stored: Value = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
    let status = |changes: &[(&str, Value)]| {
        let mut token = stored.clone();
        changes.iter().for_each(|(key, value)| token[*key] = value.clone());
        fs::write(&file, token.to_string()).unwrap();
        let said = user.run(&["auth", "status"]);
        let line = said.lines().find(|line| line.contains("Status:")).unwrap();
        (line.trim_start().trim_start_matches("Status:").trim().to_owned(), file.exists())
    };
    let is = |word: &str, kept: bool| (word.to_owned(), kept);
    let (access, refresh) = ("access_token", ("refresh_token", Value::Null));
    let refused = status(&[(access, json!("other")), refresh.clone()]);
    assert_eq!(refused, is("Token invalidated", true), "not every 401 is about the token");
    assert_eq!(status(&[(access, json!("revoked"))]), is("Token invalidated", true));
    assert_eq!(status(&[(access, json!("revoked")), refresh]), is("Token invalidated", false));
    let expired = [(access, json!("old")), ("expiry", json!("2020-01-01T00:00:00Z"))];
    assert_eq!(status(&expired), is("Authenticated", true), "it is refreshed");
}

#[test]
fn the_bridge_forgets_a_token_only_if_it_is_invalid() {
    let user = User::new();
    user.browse(&["auth", "login"], Browser::Agrees);
    let mut files = fs::read_dir(user.home.file(".config/muster/tokens")).unwrap();
    let file = files.next().unwrap().unwrap().path();
    let stored: Value = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
    for (access, refresh, is_kept) in [
        ("other", Value::Null, true),
        ("other", json!("used up"), true),
        ("revoked", json!("used up"), true),
        ("revoked", Value::Null, false),
    ] {
        let mut token = stored.clone();
        (token["access_token"], token["refresh_token"]) = (json!(access), refresh.clone());
        fs::write(&file, token.to_string()).unwrap();
        let mut bridge = Bridge::run(user.command(&["agent", "--mcp-server"]));
        bridge.send(INITIALIZE);
        let (introduced, _) = bridge.answer(&json!(0));
        assert_eq!(introduced["result"]["serverInfo"]["name"], "muster-agent", "{introduced}");
        assert_eq!(file.exists(), is_kept, "{access} {refresh}");
        assert_eq!(bridge.leave(), Some(0));
    }
}

#[test]
fn logins_that_fail() {
    let user = User::new();
    let said = [
        user.browse(&["auth", "login"], Browser::Refuses),
        user.browse(&["list", "services", "--quiet"], Browser::Forges),
        user.browse(&["auth", "login"], Browser::Repeats),
    ];
    expect![[r#"
        Opening browser for authentication... done
        Waiting for authentication to complete...
        stderr: Error: Authentication failed for http://127.0.0.1:[PORT]/mcp: <not today>
        stderr:
        stderr: hint: try again with `muster auth login --endpoint http://127.0.0.1:[PORT]/mcp`
        exit 3
        <h1>Authentication Failed</h1><p>&lt;not today&gt;</p>
        stderr: Opening browser for authentication... done
        stderr: Waiting for authentication to complete...
        stderr: Error: Authentication failed for http://127.0.0.1:[PORT]/mcp: state mismatch - possible CSRF attack
        stderr:
        stderr: hint: try again with `muster auth login --endpoint http://127.0.0.1:[PORT]/mcp`
        exit 3
        <h1>Authentication Failed</h1><p>state mismatch - possible CSRF attack</p>
        Opening browser for authentication... done
        Waiting for authentication to complete...
        stderr: Error: Authentication failed for http://127.0.0.1:[PORT]/mcp: the callback repeats a parameter
        stderr:
        stderr: hint: try again with `muster auth login --endpoint http://127.0.0.1:[PORT]/mcp`
        exit 3
        <h1>Authentication Failed</h1><p>the callback repeats a parameter</p>
    "#]].assert_eq(&said.concat());
    let taken = TcpListener::bind(("127.0.0.1", user.callback)).unwrap();
    expect![[r#"
        stderr: Error: Authentication failed for http://127.0.0.1:[PORT]/mcp: callback port [CALLBACK] is already in use. Please free the port and try again
        stderr:
        stderr: hint: try again with `muster auth login --endpoint http://127.0.0.1:[PORT]/mcp`
        exit 3
    "#]].assert_eq(&user.run(&["auth", "login"]));
    // A door that describes another one: a token for that one is not for this one to see.
    let other = user.door.url().replace("/mcp", "/other");
    expect![[r#"
        stderr: Error: Authentication failed for http://127.0.0.1:[PORT]/other: the server describes itself as `http://127.0.0.1:[PORT]/mcp`, which is another resource: a token for it could be used elsewhere
        stderr:
        stderr: hint: try again with `muster auth login --endpoint http://127.0.0.1:[PORT]/other`
        exit 3
    "#]].assert_eq(&user.said(&user.command_at(&other, &["auth", "login"]).output().unwrap()));
    drop(taken);
    assert!(!user.home.file(".config/muster/tokens").exists());
}
