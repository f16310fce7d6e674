//! The console: who gets in, and what a page of somebody else's cannot do.

use std::{
    os::unix::process::CommandExt as _,
    process::{Command, Stdio},
};

use serde_json::Value;

use super::serve::{Gateway, MUSTER};

const NOBODY: u32 = 65534;

/// A browser at the console of a gateway.
pub(crate) struct Browser<'a> {
    gateway: &'a Gateway,
    cookie: String,
}

impl<'a> Browser<'a> {
    pub(crate) fn new(gateway: &'a Gateway) -> Self {
        Self { gateway, cookie: String::new() }
    }

    /// A browser that `muster console` has opened.
    pub(crate) fn logged_in(gateway: &'a Gateway) -> Self {
        let mut browser = Self::new(gateway);
        let (status, head, _) = browser.get(&login_path(gateway), "");
        assert_eq!(status, 303, "{head}");
        assert!(head.to_lowercase().contains("location: /console"), "{head}");
        let cookie = head.lines().find_map(|line| line.strip_prefix("set-cookie: ")).unwrap();
        browser.cookie = cookie.split(';').next().unwrap().to_owned();
        browser
    }

    pub(crate) fn get(&self, path: &str, more: &str) -> (u16, String, String) {
        self.send("GET", path, more, "")
    }

    /// Sends a form as the page that contains it does.
    pub(crate) fn submit(
        &self,
        page: &str,
        path: &str,
        fields: &[(&str, &str)],
    ) -> (u16, String, String) {
        let token = form_token(&self.get(page, "").2);
        let mut form = form_urlencoded::Serializer::new(String::new());
        form.append_pair("form_token", &token).extend_pairs(fields);
        self.post(
            path,
            &format!("\r\norigin: http://localhost:{}", self.gateway.port),
            &form.finish(),
        )
    }

    pub(crate) fn post(&self, path: &str, more: &str, form: &str) -> (u16, String, String) {
        let kind = "\r\ncontent-type: application/x-www-form-urlencoded";
        self.send("POST", path, &format!("{kind}{more}"), form)
    }

    fn send(&self, method: &str, path: &str, more: &str, body: &str) -> (u16, String, String) {
        let (port, cookie) = (self.gateway.port, &self.cookie);
        let head =
            format!("{method} {path} HTTP/1.1\r\nhost: localhost:{port}\r\ncookie: {cookie}{more}");
        self.gateway.request(&head, body)
    }
}

pub(crate) fn form_token(page: &str) -> String {
    let rest =
        page.split_once("name=\"form_token\" value=\"").unwrap_or_else(|| panic!("{page}")).1;
    rest.split_once('"').unwrap().0.to_owned()
}

/// Runs a command: whether it succeeded, and what it printed.
pub(crate) fn muster(gateway: &Gateway, words: &[&str]) -> (bool, String) {
    let (code, said) = muster_code(gateway, words);
    (code == Some(0), said)
}

/// Runs a command: its exit code, and what it printed.
pub(crate) fn muster_code(gateway: &Gateway, words: &[&str]) -> (Option<i32>, String) {
    let output = Command::new(MUSTER)
        .args(words)
        .arg("--config-path")
        .arg(gateway.folder.path())
        .env("HOME", gateway.folder.path())
        .env("MUSTER_ENDPOINT", format!("http://localhost:{}/mcp", gateway.port))
        .env_remove("XDG_STATE_HOME")
        .env_remove("MUSTER_CONTEXT")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let texts = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
    (output.status.code(), texts.concat().trim().to_owned())
}

/// The path of the address that `muster console` opens.
fn login_path(gateway: &Gateway) -> String {
    let (worked, said) = muster(gateway, &["console", "--no-open"]);
    assert!(worked, "{said}");
    let at = said.find("/console/login?code=").unwrap_or_else(|| panic!("{said}"));
    assert!(said.starts_with("http://127.0.0.1:") || said.starts_with("http://[::1]:"), "{said}");
    said.get(at..).unwrap_or_default().to_owned()
}

#[test]
fn only_operators_see_the_console() {
    let gateway = Gateway::start_private(&[], &[]);
    let stranger = Browser::new(&gateway);
    let (status, _, page) = stranger.get("/console", "");
    assert_eq!(status, 403, "processes of the same user are agents");
    assert!(page.contains("muster console") && !page.contains("<nav"), "{page}");
    let (status, _, json) = stranger.get("/console?format=json", "");
    assert_eq!(status, 403);
    assert!(json.starts_with("{\"error\":"), "{json}");

    let operator = Browser::logged_in(&gateway);
    let (status, _, page) = operator.get("/console", "");
    assert_eq!(status, 200, "{page}");
    assert!(page.contains("<h1>Overview</h1>"), "{page}");
    let (status, _, json) = operator.get("/console", "\r\naccept: application/json");
    let view: Value = serde_json::from_str(&json).unwrap();
    assert_eq!((status, view["stats"]["backends"][0]["name"].as_str()), (200, Some("core")));
    assert_eq!(operator.get("/console/nothing", "").0, 404);
    assert_eq!(operator.get("/consolex", "").0, 404);

    let path = login_path(&gateway);
    assert_eq!(stranger.get(&path, "").0, 303);
    assert_eq!(stranger.get(&path, "").0, 403, "a code is good once");
    assert_eq!(stranger.get("/console/login", "").0, 403);
    assert_eq!(stranger.send("POST", "/console/login", "", "").0, 403, "an agent gets no code");

    for (words, expected) in [(vec!["reader"], 403), (vec!["admin", "--operator"], 200)] {
        let (_, token) = muster(&gateway, &[&["token", "create"], words.as_slice()].concat());
        let token = token.lines().find(|line| line.starts_with("mst_")).unwrap();
        let bearer = format!("\r\nauthorization: Bearer {token}");
        assert_eq!(stranger.get("/console", &bearer).0, expected, "{words:?}");
    }
}

#[test]
fn a_cookie_is_worth_nothing_to_other_users() {
    let gateway = Gateway::start_private(&[], &[]);
    let operator = Browser::logged_in(&gateway);
    let (port, cookie) = (gateway.port, &operator.cookie);
    let script = format!(
        "exec 3<>/dev/tcp/127.0.0.1/{port}\n\
         printf 'GET /console HTTP/1.1\\r\\nhost: localhost:{port}\\r\\ncookie: {cookie}\\r\\nconnection: close\\r\\n\\r\\n' >&3\n\
         cat <&3"
    );
    let as_user = |user: Option<u32>| {
        let mut command = Command::new("bash");
        command.args(["-c", &script]);
        if let Some(user) = user {
            command.uid(user).gid(user);
        }
        command.output().map(|output| String::from_utf8_lossy(&output.stdout).into_owned())
    };
    assert!(as_user(None).unwrap().starts_with("HTTP/1.1 200"));
    match as_user(Some(NOBODY)) {
        Ok(answer) => assert!(answer.starts_with("HTTP/1.1 403"), "{answer}"),
        Err(err) => eprintln!("not checked: only root can act as another user ({err})"),
    }
}

#[test]
fn pages_of_others_change_nothing() {
    let gateway = Gateway::start_private(&[], &[]);
    let operator = Browser::logged_in(&gateway);
    let own = format!("\r\norigin: http://localhost:{}", gateway.port);
    let token = format!("form_token={}", form_token(&operator.get("/console", "").2));
    for (more, form, why) in [
        ("\r\norigin: https://evil.example", token.as_str(), "another site"),
        ("\r\norigin: http://localhost:1", &token, "another port"),
        ("\r\norigin: null", &token, "a sandboxed page"),
        ("\r\nsec-fetch-site: same-site", &token, "another port, without an origin"),
        (&own, "", "a form without its token"),
        (&own, "form_token=x", "a form with another token"),
    ] {
        assert_eq!(operator.post("/console/logout", more, form).0, 403, "{why}");
    }
    let embedded = "\r\nsec-fetch-site: cross-site\r\nsec-fetch-mode: no-cors";
    assert_eq!(operator.get("/console?format=json", embedded).0, 403);
    let rebound =
        format!("GET /console HTTP/1.1\r\nhost: evil.example\r\ncookie: {}", operator.cookie);
    assert_eq!(gateway.request(&rebound, "").0, 403);
    assert_eq!(operator.get("/console", "").0, 200, "still logged in");
    assert_eq!(operator.submit("/console", "/console/logout", &[]).0, 200);
    assert_eq!(operator.get("/console", "").0, 403);
}

#[test]
fn pages_load_nothing_from_elsewhere() {
    let gateway = Gateway::start_private(&[], &[]);
    let operator = Browser::logged_in(&gateway);
    let (_, head, page) = operator.get("/console", "");
    let head = head.to_lowercase();
    for line in [
        "content-security-policy: default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
         media-src data:; connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
        "x-frame-options: deny",
        "x-content-type-options: nosniff",
        "referrer-policy: same-origin",
        "cross-origin-resource-policy: same-origin",
        "cross-origin-opener-policy: same-origin",
        "cache-control: no-store",
    ] {
        assert!(head.contains(line), "{line}: {head}");
    }
    for inline in [" style=", "<style", " onclick=", "http://", "https://"] {
        let page = page.replace("http://www.w3.org/2000/svg", "");
        assert!(!page.contains(inline), "{inline}: {page}");
    }
    for (path, kind) in
        [("/console/console.css", "text/css"), ("/console/console.js", "text/javascript")]
    {
        assert!(page.contains(path), "{path}");
        let (status, head, _) = Browser::new(&gateway).get(path, "");
        assert!(status == 200 && head.contains(kind), "{head}");
    }
    let cookie = operator.get(&login_path(&gateway), "").1.to_lowercase();
    assert!(cookie.contains("; httponly; samesite=strict"), "{cookie}");
}

#[test]
fn the_console_can_be_switched_off() {
    let config = "aggregator: {port: 0}\nconsole: {enabled: false}\n";
    let gateway = Gateway::start_private(&[("config.yaml", config)], &[]);
    assert_eq!(Browser::new(&gateway).get("/console", "").0, 404);
    let (worked, said) = muster(&gateway, &["console", "--no-open"]);
    assert!(
        !worked && said.contains("has no console") && said.contains("console.enabled"),
        "{said}"
    );
}

/// Where everybody on this machine is an operator, pages of others still are not.
#[test]
fn an_open_gateway_needs_no_login() {
    let gateway = Gateway::start(&[], &[]);
    let anybody = Browser::new(&gateway);
    assert_eq!(anybody.get("/console", "").0, 200);
    let own = format!("\r\norigin: http://localhost:{}", gateway.port);
    assert_eq!(anybody.post("/console/logout", &own, "").0, 403);
    assert_eq!(anybody.submit("/console", "/console/logout", &[]).0, 200);
}
