//! A world with logins: an identity provider, a gateway that it protects, a server behind the gateway
//! that it protects too, and a user with a browser. All of them are real on the wire.

use std::{
    collections::BTreeMap,
    fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{TcpListener, TcpStream},
    os::unix::fs::PermissionsExt as _,
    path::PathBuf,
    process::{Child, Command, Stdio},
    sync::Arc,
};

use muster_scenario::{
    mock::{config::read_file, remote::RemoteMock},
    oauth::{
        config::{Feature, GuardConfig, MockProviderConfig},
        provider::Provider,
        records::UserIdentity,
        resource_guard::ResourceGuard,
    },
    scenario::MockTransport,
};
use serde_json::json;
use tokio::runtime::Runtime;

use super::{client::Folder, serve::MUSTER};

const MOCK: &str = "\
tools:
  - {name: open, description: Opens the vault, responses: [{response: {vault: open}}]}
";

/// Everything that there is.
pub(crate) struct World {
    pub(crate) home: Folder,
    pub(crate) gateway: u16,
    access: &'static str,
    pub(crate) callback: u16,
    child: Child,
    pipe: PathBuf,
    provider: Provider,
    vaults: Vec<RemoteMock>,
    _runtime: Runtime,
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

impl World {
    /// One with servers of these names behind the gateway. All its users are operators.
    pub(crate) fn new(servers: &[&str]) -> Self {
        Self::with_access("open", servers)
    }

    /// The same with the access mode that gateways have by default.
    pub(crate) fn private(servers: &[&str]) -> Self {
        Self::with_access("private", servers)
    }

    fn with_access(access: &'static str, servers: &[&str]) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let home = Folder::new(&[("mock.yaml", MOCK)]);
        let mock = read_file(&home.file("mock.yaml")).unwrap().config;
        let config = MockProviderConfig {
            client_id: "muster".to_owned(),
            client_secret: Some("canary-secret".to_owned()),
            scopes: vec!["openid".to_owned(), "email".to_owned()],
            features: vec![Feature::AutoApprove, Feature::SignTokens],
            ..MockProviderConfig::new("idp")
        };
        let provider = runtime.block_on(Provider::start(&config, None)).unwrap();
        let guard = GuardConfig { required: true, ..GuardConfig::default() };
        let mut files = Vec::new();
        let mut vaults = Vec::new();
        for name in servers {
            let resource_guard = ResourceGuard::new(Arc::clone(provider.state()), guard.clone());
            let vault = RemoteMock::behind(
                Some(resource_guard),
                name,
                &mock,
                MockTransport::StreamableHttp,
            );
            let vault = runtime.block_on(vault).unwrap();
            let file = format!("name: {name}\ntype: streamable-http\nurl: {}\n", vault.url());
            files.push((format!("mcpservers/{name}.yaml"), file));
            vaults.push(vault);
        }
        let gateway = free_port();
        files.push(("config.yaml".to_owned(), settings(gateway, provider.state().issuer())));
        for (name, text) in files {
            let path = home.file("gateway").join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let pipe = home.file("opened");
        assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let opener = home.file("bin/xdg-open");
        fs::create_dir_all(opener.parent().unwrap()).unwrap();
        fs::write(&opener, format!("#!/bin/sh\nprintf '%s\\n' \"$1\" > {}\n", pipe.display()))
            .unwrap();
        fs::set_permissions(&opener, fs::Permissions::from_mode(0o755)).unwrap();
        let child = launch(&home, gateway, access);
        let callback = free_port();
        Self { home, gateway, access, callback, child, pipe, provider, vaults, _runtime: runtime }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://localhost:{}/mcp", self.gateway)
    }

    /// A command of the user at the gateway.
    pub(crate) fn command(&self, words: &[&str]) -> Command {
        let mut command = self.bare(words);
        command.args(["--endpoint", &self.url()]);
        command
    }

    /// A command of the user.
    fn bare(&self, words: &[&str]) -> Command {
        let path = std::env::var("PATH").unwrap();
        let mut command = Command::new(MUSTER);
        command
            .args(words)
            .env("HOME", self.home.path())
            .env("PATH", format!("{}:{path}", self.home.file("bin").display()))
            .env("MUSTER_OAUTH_CALLBACK_PORT", self.callback.to_string())
            .env_remove("MUSTER_AUTH_MODE")
            .env_remove("MUSTER_CONTEXT")
            .stdin(Stdio::null());
        command
    }

    /// All that a command says, and how it ends.
    pub(crate) fn run(&self, words: &[&str]) -> String {
        self.said(&self.command(words).output().unwrap())
    }

    /// The same for a command that finds the gateway by itself.
    pub(crate) fn run_bare(&self, words: &[&str]) -> String {
        self.said(&self.bare(words).output().unwrap())
    }

    /// A command that opens the browser so many times.
    pub(crate) fn browse(&self, words: &[&str], times: usize) -> String {
        let mut command = self.command(words);
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        for _ in 0..times {
            agree(&self.opened());
        }
        self.said(&child.wait_with_output().unwrap())
    }

    /// The address that the browser is given next.
    pub(crate) fn opened(&self) -> String {
        fs::read_to_string(&self.pipe).unwrap().trim().to_owned()
    }

    /// The token of a user who has logged in elsewhere. Without a name it is the one who logs in with a browser here.
    pub(crate) fn token_of(&self, name: Option<&str>) -> String {
        let identity = name.map_or_else(UserIdentity::default, UserIdentity::named);
        self.provider.state().mint(&identity, "openid email").access
    }

    /// How often the provider was asked for something.
    pub(crate) fn asked_provider_for(&self, what: &str) -> u64 {
        self.provider.state().log()["requests"][what].as_u64().unwrap_or_default()
    }

    /// The gateway ends, and with it every token that it made; another one takes its place.
    pub(crate) fn restart_gateway(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
        self.child = launch(&self.home, self.gateway, self.access);
    }

    fn said(&self, output: &std::process::Output) -> String {
        let text = |bytes: &[u8]| self.settled(&String::from_utf8_lossy(bytes));
        let stderr: String = text(&output.stderr)
            .lines()
            .map(|line| format!("{}\n", format!("stderr: {line}").trim_end()))
            .collect();
        format!("{}{stderr}exit {}\n", text(&output.stdout), output.status.code().unwrap())
    }

    /// What differs between two runs of the same is left out.
    pub(crate) fn settled(&self, text: &str) -> String {
        let mut text = text
            .replace(&format!(":{}", self.gateway), ":[PORT]")
            .replace(&format!(":{}", self.provider.port()), ":[IDP]")
            .replace(&format!(":{}", self.callback), ":[CALLBACK]")
            .replace("in 30 minutes", "in 29 minutes");
        for vault in &self.vaults {
            text = text.replace(&format!(":{}", vault.port()), ":[VAULT]");
        }
        text
    }
}

impl Drop for World {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

fn settings(port: u16, issuer: &str) -> String {
    let base = format!("http://localhost:{port}");
    let dex = json!({"issuerUrl": issuer, "clientId": "muster", "clientSecret": "canary-secret"});
    let server = json!({"enabled": true, "baseUrl": base, "provider": "dex", "dex": dex,
        "storage": {"type": "memory"}, "allowLocalhostRedirectURIs": true,
        "allowPublicClientRegistration": true});
    let client =
        json!({"enabled": true, "publicUrl": base, "callbackPath": "/oauth/proxy/callback"});
    let oauth = json!({"server": server, "mcpClient": client});
    let aggregator = json!({"host": "localhost", "port": port, "oauth": oauth});
    json!({"aggregator": aggregator, "clis": {"bundled": "none"}}).to_string()
}

fn launch(home: &Folder, port: u16, access: &str) -> Child {
    let mut child = Command::new(MUSTER)
        .args(["serve", "--config-path"])
        .arg(home.file("gateway"))
        .env("MUSTER_STATE_PATH", home.file("state"))
        .env("MUSTER_ACCESS", access)
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    assert!(lines.any(|line| line.contains("/mcp")), "the gateway does not start");
    // What it logs later must not fill the pipe.
    std::thread::spawn(move || lines.for_each(drop));
    // Until it has found its provider it cannot tell who is who.
    let health = format!("http://localhost:{port}/health");
    while Browser::default().fetch(&health, None).1.contains("degraded") {}
    child
}

/// Logs in at an address as a user does, until a page has no more to ask.
pub(crate) fn agree(url: &str) -> String {
    Browser::default().visit(url)
}

/// Opens an address in a browser that nobody has used before, and does nothing there: the last page, and its status.
pub(crate) fn look(url: &str) -> (u16, String) {
    let (mut browser, mut url) = (Browser::default(), url.to_owned());
    loop {
        match browser.send(&url, None) {
            (_, Some(to), _) => url = joined(&url, &to),
            (status, None, page) => return (status, page),
        }
    }
}

/// A browser without a window: it has cookies, follows redirects, and allows what it is asked.
#[derive(Default)]
struct Browser {
    /// By host and port.
    cookies: BTreeMap<String, Vec<String>>,
}

impl Browser {
    fn visit(&mut self, url: &str) -> String {
        let mut url = url.to_owned();
        let mut form = None;
        for _ in 0..20 {
            let (location, page) = self.fetch(&url, form.take());
            match (location, form_of(&page)) {
                (Some(to), _) => url = joined(&url, &to),
                (None, Some((action, fields))) => {
                    url = joined(&url, &action);
                    form = Some(fields);
                }
                (None, None) => return page,
            }
        }
        panic!("no end of pages at {url}");
    }

    /// Where the answer leads, and the page in it.
    fn fetch(&mut self, url: &str, form: Option<String>) -> (Option<String>, String) {
        let (status, location, page) = self.send(url, form);
        assert!(status < 400, "{status}: {page}");
        (location, page)
    }

    /// The status of the answer, where it leads, and the page in it.
    fn send(&mut self, url: &str, form: Option<String>) -> (u16, Option<String>, String) {
        let rest = url.strip_prefix("http://").unwrap_or_else(|| panic!("{url}"));
        let (host, path) = rest.split_once('/').unwrap();
        let port: u16 = host.rsplit_once(':').unwrap().1.parse().unwrap();
        let cookies = self.cookies.entry(host.to_owned()).or_default();
        let method = if form.is_some() { "POST" } else { "GET" };
        let body = form.unwrap_or_default();
        let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        // In one piece: a provider may answer as soon as it has the head, and resets the connection if more arrives.
        let request = format!(
            "{method} /{path} HTTP/1.1\r\nhost: {host}\r\naccept: text/html\r\norigin: http://{host}\r\n\
             cookie: {}\r\ncontent-type: application/x-www-form-urlencoded\r\nconnection: close\r\n\
             content-length: {}\r\n\r\n{body}",
            cookies.join("; "),
            body.len()
        );
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, page) = answer.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        let mut location = None;
        for line in head.lines() {
            let Some((name, value)) = line.split_once(": ") else { continue };
            match name.to_lowercase().as_str() {
                "location" => location = Some(value.to_owned()),
                "set-cookie" => cookies.push(value.split(';').next().unwrap().to_owned()),
                _ => (),
            }
        }
        (status, location, page.to_owned())
    }
}

/// The form of a page: where it goes, and what it says if it is allowed.
fn form_of(page: &str) -> Option<(String, String)> {
    let form = page.split_once("<form")?.1;
    let value = |text: &str, key: &str| {
        let rest = text.split_once(&format!("{key}=\""))?.1;
        Some(rest.split_once('"')?.0.replace("&amp;", "&"))
    };
    let mut fields = form_urlencoded::Serializer::new(String::new());
    for input in form.split("<input").skip(1) {
        fields.append_pair(&value(input, "name")?, &value(input, "value")?);
    }
    fields.append_pair("decision", "allow");
    Some((value(form, "action")?, fields.finish()))
}

fn joined(base: &str, to: &str) -> String {
    if to.starts_with("http") {
        return to.to_owned();
    }
    let origin = base.splitn(4, '/').take(3).collect::<Vec<_>>().join("/");
    if to.starts_with('/') {
        return format!("{origin}{to}");
    }
    let folder = base.split('?').next().unwrap().rsplit_once('/').unwrap().0;
    format!("{folder}/{to}")
}
