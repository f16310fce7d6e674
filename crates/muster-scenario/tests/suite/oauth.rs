//! Mock identity providers and protected servers, spoken to over the network: what is asked for properly is
//! granted, and nothing else.

use std::{path::Path, sync::Arc, time::Duration};

use muster_scenario::{
    load,
    mock::remote::RemoteMock,
    oauth::{Providers, book::Person, door::Door, jwt},
    scenario::{Scenario, ServerKind},
};
use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, ServerName, pem::PemObject},
};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::TcpStream,
};
use tokio_rustls::TlsConnector;

use crate::support::block_on;

/// A scenario with these providers, and servers if any.
fn prepared(before: &str) -> Scenario {
    let head = "name: m\ncategory: c\nconcept: c\nsteps: [{id: a, tool: b}]\npre_configuration:\n";
    let loaded = load::parse(Path::new("m"), &format!("{head}{before}"));
    loaded.scenario.unwrap_or_else(|| panic!("{:?}", loaded.problems))
}

async fn providers(before: &str) -> Providers {
    Providers::start(&prepared(before).before.oauth_servers).await.unwrap()
}

/// What came back.
#[derive(Debug)]
struct Reply {
    status: u16,
    head: String,
    body: String,
}

impl Reply {
    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|err| panic!("{err}: {self:?}"))
    }

    fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    /// The value of a parameter of the address that it redirects to.
    fn parameter(&self, name: &str) -> Option<String> {
        let query = self.header("location")?.split_once('?')?.1;
        let mut pairs = form_urlencoded::parse(query.as_bytes());
        pairs.find(|(key, _)| key == name).map(|(_, value)| value.into_owned())
    }

    /// The code of the specification for what went wrong, or that nothing did.
    fn error(&self) -> String {
        let body: Value = serde_json::from_str(&self.body).unwrap_or_default();
        match body["error"].as_str() {
            Some(error) => format!("{} {error}", self.status),
            None => self.status.to_string(),
        }
    }
}

async fn talk(mut stream: impl AsyncRead + AsyncWrite + Unpin, request: String) -> Reply {
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut bytes = Vec::new();
    // A peer may end a TLS connection without saying so.
    let _ended = stream.read_to_end(&mut bytes).await;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
    Reply { status: status.unwrap_or_default(), head: head.to_owned(), body: body.to_owned() }
}

/// Sends a request to an address on this machine; `ca` is trusted, and nobody else.
async fn ask(method: &str, url: &str, head: &str, body: &str, ca: Option<&str>) -> Reply {
    let (scheme, rest) = url.split_once("://").unwrap();
    let slash = rest.find('/').unwrap_or(rest.len());
    let (host, path) = rest.split_at(slash);
    let port: u16 = host.rsplit_once(':').unwrap().1.parse().unwrap();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n{head}content-length: {}\r\n\r\n{body}",
        body.len()
    );
    let stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    if scheme == "http" {
        return talk(stream, request).await;
    }
    let mut roots = RootCertStore::empty();
    if let Some(ca) = ca {
        roots.add(CertificateDer::from_pem_slice(ca.as_bytes()).unwrap()).unwrap();
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from("localhost").unwrap();
    match TlsConnector::from(Arc::new(config)).connect(name, stream).await {
        Ok(stream) => talk(stream, request).await,
        Err(err) => Reply { status: 0, head: err.to_string(), body: String::new() },
    }
}

async fn get(url: &str) -> Reply {
    ask("GET", url, "", "", None).await
}

fn encoded(pairs: &[(&str, &str)]) -> String {
    form_urlencoded::Serializer::new(String::new()).extend_pairs(pairs).finish()
}

async fn post(url: &str, pairs: &[(&str, &str)]) -> Reply {
    let kind = "content-type: application/x-www-form-urlencoded\r\n";
    ask("POST", url, kind, &encoded(pairs), None).await
}

const BACK: &str = "http://localhost:9/back";
const VERIFIER: &str = "a-verifier-that-is-long-enough-for-the-specification";

/// A proper request for a code, with some parameters replaced, or left out if they are empty.
fn wish(changes: &[(&'static str, &str)]) -> String {
    let challenge = jwt::challenge_of(VERIFIER);
    let proper = [
        ("response_type", "code"),
        ("client_id", "me"),
        ("redirect_uri", BACK),
        ("state", "xyz"),
        ("scope", "openid read"),
        ("code_challenge", &challenge),
        ("code_challenge_method", "S256"),
    ];
    let changed =
        |key: &str| changes.iter().find(|(name, _)| *name == key).map(|(_, value)| *value);
    let mut pairs: Vec<(&str, &str)> =
        proper.iter().map(|(key, value)| (*key, changed(key).unwrap_or(value))).collect();
    let more = changes.iter().filter(|(key, _)| proper.iter().all(|(name, _)| name != key));
    pairs.extend(more);
    pairs.retain(|(_, value)| !value.is_empty());
    encoded(&pairs)
}

/// A proper request for tokens, changed in the same way.
fn redemption<'a>(code: &'a str, changes: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
    let proper = [
        ("grant_type", "authorization_code"),
        ("code", code),
        ("redirect_uri", BACK),
        ("client_id", "me"),
        ("code_verifier", VERIFIER),
    ];
    let changed =
        |key: &str| changes.iter().find(|(name, _)| *name == key).map(|(_, value)| *value);
    let mut pairs: Vec<_> =
        proper.iter().map(|(key, value)| (*key, changed(key).unwrap_or(value))).collect();
    pairs.extend(changes.iter().filter(|(key, _)| proper.iter().all(|(name, _)| name != key)));
    pairs.retain(|(_, value)| !value.is_empty());
    pairs
}

/// A code of a provider that says yes to everything proper.
async fn code(issuer: &str, changes: &[(&'static str, &str)]) -> String {
    let reply = get(&format!("{issuer}/authorize?{}", wish(changes))).await;
    reply.parameter("code").unwrap_or_else(|| panic!("{reply:?}"))
}

/// Parameters that are changed, and what comes of it.
type Row = (&'static [(&'static str, &'static str)], &'static str);

const IDP: &str = "  mock_oauth_servers: [{name: idp, scopes: [openid, read, write], auto_approve: true, pkce_required: true, client_id: me, use_mock_clock: true, token_lifetime: 10m}]\n";

#[test]
fn what_a_client_may_ask_for() {
    block_on(async {
        let all = providers(IDP).await;
        let issuer = all.get("idp").unwrap().core().issuer().to_owned();
        let rows: &[Row] = &[
            (&[], "302 -"),
            (&[("client_id", "")], "400 invalid_request"),
            (&[("redirect_uri", "")], "400 invalid_request"),
            (&[("redirect_uri", "/relative")], "400 invalid_request"),
            (&[("redirect_uri", "http://localhost/#fragment")], "400 invalid_request"),
            (&[("state", "")], "302 invalid_request"),
            (&[("response_type", "token")], "302 unsupported_response_type"),
            (&[("code_challenge", "")], "302 invalid_request"),
            (&[("code_challenge", "short")], "302 invalid_request"),
            (&[("code_challenge_method", "plain")], "302 invalid_request"),
            (&[("code_challenge_method", "")], "302 invalid_request"),
        ];
        for (changes, expected) in rows {
            let reply = get(&format!("{issuer}/authorize?{}", wish(changes))).await;
            let error = reply.parameter("error").unwrap_or_else(|| "-".to_owned());
            let got = if reply.status == 302 { format!("302 {error}") } else { reply.error() };
            assert_eq!(got, *expected, "{changes:?}: {reply:?}");
            if reply.status == 302 {
                assert_eq!(reply.parameter("iss").as_ref(), Some(&issuer));
            }
        }
    });
}

#[test]
fn what_a_code_is_good_for() {
    block_on(async {
        let all = providers(IDP).await;
        let issuer = all.get("idp").unwrap().core().issuer().to_owned();
        let token = format!("{issuer}/token");
        let rows: &[Row] = &[
            (&[], "200"),
            (&[("code", "another")], "400 invalid_grant"),
            (&[("code", "")], "400 invalid_request"),
            (&[("redirect_uri", "http://localhost:9/other")], "400 invalid_grant"),
            (&[("redirect_uri", "")], "400 invalid_request"),
            (&[("client_id", "you")], "400 invalid_grant"),
            (&[("client_id", "")], "400 invalid_grant"),
            (&[("code_verifier", "wrong")], "400 invalid_grant"),
            (&[("code_verifier", "")], "400 invalid_grant"),
            (&[("grant_type", "password")], "400 unsupported_grant_type"),
            (&[("grant_type", "")], "400 invalid_request"),
        ];
        for (changes, expected) in rows {
            let code = code(&issuer, &[]).await;
            let reply = post(&token, &redemption(&code, changes)).await;
            assert_eq!(reply.error(), *expected, "{changes:?}: {reply:?}");
            // A wrong try has used the code up, where it came that far.
            if *expected == "400 invalid_grant" && changes[0].0 != "code" {
                let again = post(&token, &redemption(&code, &[])).await;
                assert_eq!(again.error(), "400 invalid_grant", "{changes:?}");
            }
        }
        let late = code(&issuer, &[]).await;
        assert!(all.get("idp").unwrap().core().advance(Duration::from_secs(601)));
        let reply = post(&token, &redemption(&late, &[])).await;
        assert_eq!(reply.error(), "400 invalid_grant", "an old code");
    });
}

#[test]
fn tokens_expire_and_are_renewed_once() {
    block_on(async {
        let all = providers(IDP).await;
        let core = all.get("idp").unwrap().core();
        let issuer = core.issuer().to_owned();
        let token = format!("{issuer}/token");
        let code = code(&issuer, &[("nonce", "n-1")]).await;
        let first = post(&token, &redemption(&code, &[])).await.json();
        assert_eq!(first["expires_in"], 600);
        assert_eq!(first["scope"], "openid read");
        let claims = jwt::claims(first["id_token"].as_str().unwrap()).unwrap();
        assert_eq!(claims["iss"], *issuer);
        assert_eq!(claims["aud"], "me");
        assert_eq!(claims["nonce"], "n-1");
        assert_eq!(claims["sub"], "test-user-123");
        let userinfo = async |token: &str| {
            let head = format!("authorization: Bearer {token}\r\n");
            ask("GET", &format!("{issuer}/userinfo"), &head, "", None).await
        };
        let access = first["access_token"].as_str().unwrap();
        assert_eq!(userinfo(access).await.json()["email"], "test@example.com");
        assert_eq!(userinfo("other").await.error(), "401 invalid_token");
        core.advance(Duration::from_secs(601));
        assert_eq!(userinfo(access).await.error(), "401 invalid_token");
        let refresh = first["refresh_token"].as_str().unwrap();
        let renew = async |refresh: &str, client: &str, scope: &str| {
            let pairs = [
                ("grant_type", "refresh_token"),
                ("refresh_token", refresh),
                ("client_id", client),
                ("scope", scope),
            ];
            post(&token, &pairs).await
        };
        assert_eq!(renew(refresh, "you", "").await.error(), "400 invalid_grant");
        assert_eq!(renew(refresh, "me", "").await.status, 200);
        let again = renew(refresh, "me", "").await;
        assert_eq!(again.error(), "400 invalid_grant", "a used refresh token");
        let log = core.log();
        assert_eq!(log["requests"]["token_refresh"], 3);
        assert_eq!(log["refused"].as_array().unwrap().len(), 4, "{log}");
    });
}

#[test]
fn a_stolen_refresh_token_ends_the_login() {
    block_on(async {
        let all = providers(IDP).await;
        let core = all.get("idp").unwrap().core();
        let token = format!("{}/token", core.issuer());
        let minted = core.mint(&Person::default(), "read");
        let renew = async |refresh: &str| {
            let pairs =
                [("grant_type", "refresh_token"), ("refresh_token", refresh), ("client_id", "me")];
            post(&token, &pairs).await
        };
        let second = renew(&minted.refresh).await.json();
        assert_eq!(renew(&minted.refresh).await.error(), "400 invalid_grant");
        let next = renew(second["refresh_token"].as_str().unwrap()).await;
        assert_eq!(next.error(), "400 invalid_grant", "the whole family is gone");
    });
}

#[test]
fn clients_and_their_secrets() {
    block_on(async {
        let all = providers("  mock_oauth_servers:\n    - {name: dyn, clients: dynamic, auto_approve: true, client_id: own, client_secret: s3cret}\n    - {name: stat, clients: static, auto_approve: true, client_id: own}\n").await;
        let issuer = all.get("dyn").unwrap().core().issuer().to_owned();
        let stranger = get(&format!("{issuer}/authorize?{}", wish(&[]))).await;
        assert_eq!(stranger.error(), "401 invalid_client");
        let body = json!({"redirect_uris": [BACK], "token_endpoint_auth_method": "none"});
        let register = format!("{issuer}/register");
        let client = ask("POST", &register, "", &body.to_string(), None).await;
        assert_eq!(client.status, 201);
        let id = client.json()["client_id"].as_str().unwrap().to_owned();
        let elsewhere = wish(&[("client_id", &id), ("redirect_uri", "http://localhost:9/other")]);
        let elsewhere = get(&format!("{issuer}/authorize?{elsewhere}")).await;
        assert_eq!(elsewhere.error(), "400 invalid_request");
        let value = code(&issuer, &[("client_id", &id)]).await;
        let token = format!("{issuer}/token");
        let reply = post(&token, &redemption(&value, &[("client_id", &id)])).await;
        assert_eq!(reply.status, 200, "{reply:?}");
        for (secret, expected) in
            [("s3cret", "200"), ("wrong", "401 invalid_client"), ("", "401 invalid_client")]
        {
            let value = code(&issuer, &[("client_id", "own")]).await;
            let changes = [("client_id", "own"), ("client_secret", secret)];
            let reply = post(&token, &redemption(&value, &changes)).await;
            assert_eq!(reply.error(), expected, "{secret}");
        }
        let stat = all.get("stat").unwrap().core().issuer().to_owned();
        let metadata = get(&format!("{stat}/.well-known/oauth-authorization-server")).await.json();
        assert_eq!(metadata["registration_endpoint"], Value::Null);
        let refused = get(&format!("{stat}/authorize?{}", wish(&[]))).await;
        assert_eq!(refused.error(), "401 invalid_client");
    });
}

#[test]
fn metadata_is_where_it_is_said_to_be() {
    block_on(async {
        let all = providers("  mock_oauth_servers:\n    - {name: a}\n    - {name: b, issuer: /t/1, discovery: oauth}\n    - {name: c, issuer: /t/1, discovery: openid}\n    - {name: d, issuer: /t/1, discovery: openid-appended}\n").await;
        let rows = [
            ("a", "/.well-known/oauth-authorization-server", 200),
            ("a", "/.well-known/openid-configuration", 200),
            ("b", "/.well-known/oauth-authorization-server/t/1", 200),
            ("b", "/.well-known/oauth-authorization-server", 404),
            ("b", "/t/1/.well-known/openid-configuration", 404),
            ("c", "/.well-known/openid-configuration/t/1", 200),
            ("c", "/.well-known/oauth-authorization-server/t/1", 404),
            ("d", "/t/1/.well-known/openid-configuration", 200),
            ("d", "/.well-known/openid-configuration/t/1", 404),
            ("a", "/.well-known/oauth-protected-resource", 404),
        ];
        for (name, path, status) in rows {
            let core = all.get(name).unwrap().core();
            let reply = get(&format!("{}{path}", core.origin())).await;
            assert_eq!(reply.status, status, "{name} {path}");
            if status == 200 {
                assert_eq!(reply.json()["issuer"], *core.issuer());
                assert_eq!(reply.json()["token_endpoint"], format!("{}/token", core.issuer()));
            }
        }
    });
}

const TWO: &str = "  mock_oauth_servers:\n    - {name: home, scopes: [openid, read], client_id: h, use_tls: true, use_mock_clock: true, sign_tokens: true}\n    - {name: far, scopes: [openid, read], client_id: f, trusted_issuers: [{connector_id: to-home, oauth_server_ref: home}]}\n";

#[test]
fn tls_needs_the_right_authority() {
    block_on(async {
        let all = providers(TWO).await;
        let issuer = all.get("home").unwrap().core().issuer().to_owned();
        assert!(issuer.starts_with("https://localhost:"));
        let url = format!("{issuer}/jwks");
        let keys = ask("GET", &url, "", "", all.ca_pem()).await.json();
        assert_eq!(keys["keys"][0]["kty"], "EC");
        let distrust = ask("GET", &url, "", "", None).await;
        assert_eq!(distrust.status, 0, "{distrust:?}");
        let other = providers(TWO).await;
        let distrust = ask("GET", &url, "", "", other.ca_pem()).await;
        assert_eq!(distrust.status, 0, "{distrust:?}");
    });
}

#[test]
fn foreign_tokens_are_exchanged_if_they_are_real() {
    block_on(async {
        let all = providers(TWO).await;
        let (home, far) = (all.get("home").unwrap().core(), all.get("far").unwrap().core());
        let person = Person::named("alice");
        let theirs = home.mint(&person, "openid");
        let own = far.mint(&person, "openid");
        let forged = jwt::token(&jwt::claims(&theirs.id).unwrap(), None);
        let exchange = async |subject: &str, connector: &str, wanted: &str| {
            let pairs = [
                ("grant_type", "urn:ietf:params:oauth:grant-type:token-exchange"),
                ("subject_token", subject),
                ("subject_token_type", "urn:ietf:params:oauth:token-type:id_token"),
                ("connector_id", connector),
                ("scope", "openid read"),
                ("requested_token_type", wanted),
            ];
            let kind = "content-type: application/x-www-form-urlencoded\r\n";
            let url = format!("{}/token", far.issuer());
            ask("POST", &url, kind, &encoded(&pairs), all.ca_pem()).await
        };
        let access = "urn:ietf:params:oauth:token-type:access_token";
        let good = exchange(&theirs.id, "to-home", access).await.json();
        assert_eq!(good["issued_token_type"], access);
        let head = format!("authorization: Bearer {}\r\n", good["access_token"].as_str().unwrap());
        let url = format!("{}/userinfo", far.issuer());
        let who = ask("GET", &url, &head, "", all.ca_pem()).await.json();
        assert_eq!(who["email"], "alice@example.com");
        let wanted = "urn:ietf:params:oauth:token-type:id_token";
        let id = exchange(&theirs.id, "to-home", wanted).await.json();
        let claims = jwt::claims(id["access_token"].as_str().unwrap()).unwrap();
        assert_eq!(claims["iss"], *far.issuer());
        assert_eq!(exchange(&theirs.id, "other", access).await.error(), "400 invalid_target");
        assert_eq!(exchange(&own.id, "to-home", access).await.error(), "400 invalid_grant");
        assert_eq!(exchange(&forged, "to-home", access).await.error(), "400 invalid_grant");
        assert_eq!(exchange("nonsense", "to-home", access).await.error(), "400 invalid_grant");
        assert_eq!(exchange(&theirs.access, "to-home", access).await.error(), "400 invalid_grant");
        assert!(home.advance(Duration::from_secs(3601)));
        assert_eq!(exchange(&theirs.id, "to-home", access).await.error(), "400 invalid_grant");
    });
}

/// The protected server of a scenario, with its providers.
async fn protected(before: &str) -> (Providers, RemoteMock) {
    let scenario = prepared(before);
    let all = Providers::start(&scenario.before.oauth_servers).await.unwrap();
    let server = &scenario.before.mcp_servers[0];
    let ServerKind::Remote { mock, transport, oauth } = &server.kind else { panic!("{server:?}") };
    let guard = *oauth.clone().unwrap();
    let core = Arc::clone(all.get(guard.provider.as_deref().unwrap()).unwrap().core());
    let door = Some(Door::new(core, guard));
    let remote = RemoteMock::behind(door, &server.name, mock, *transport).await.unwrap();
    (all, remote)
}

fn guarded(idp: &str, guard: &str) -> String {
    format!(
        "  mock_oauth_servers: [{{name: idp, scopes: [openid, read], use_mock_clock: true{idp}}}]\n  mcp_servers:\n    - name: s\n      config:\n        type: streamable-http\n        oauth: {{required: true, mock_oauth_server_ref: idp, scope: read{guard}}}\n        tools: [{{name: t, responses: [{{condition: {{a: bad}}, error: broken}}, {{response: fine}}]}}]\n"
    )
}

const CALL: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","arguments":{"a":"good"}}}"#;

async fn call(mock: &RemoteMock, token: &str, body: &str) -> Reply {
    let head = match token {
        "" => String::new(),
        token => format!("authorization: Bearer {token}\r\n"),
    };
    ask("POST", &mock.url(), &head, body, None).await
}

#[test]
fn the_door_of_a_protected_server() {
    block_on(async {
        let (all, mock) = protected(&guarded("", "")).await;
        let core = all.get("idp").unwrap().core();
        let me = Person::default();
        let closed = call(&mock, "", CALL).await;
        assert_eq!((closed.status, closed.body.as_str()), (401, ""));
        let expected = format!(
            "Bearer resource_metadata=\"{}/.well-known/oauth-protected-resource\"",
            core.issuer()
        );
        assert_eq!(closed.header("www-authenticate"), Some(expected.as_str()));
        let unknown = call(&mock, "whatever", CALL).await;
        assert_eq!(unknown.status, 401);
        assert!(unknown.header("www-authenticate").unwrap().contains("error=\"invalid_token\""));
        let weak = call(&mock, &core.mint(&me, "openid").access, CALL).await;
        assert_eq!(weak.status, 403);
        assert!(weak.header("www-authenticate").unwrap().contains("error=\"insufficient_scope\""));
        let minted = core.mint(&me, "openid read");
        assert!(call(&mock, &minted.access, CALL).await.body.contains("fine"));
        assert!(call(&mock, &minted.id, CALL).await.body.contains("fine"), "an ID token will do");
        let bad = CALL.replace("good", "bad");
        let failed = call(&mock, &minted.access, &bad).await.json();
        assert_eq!(failed["result"]["isError"], true, "{failed}");
        core.inject("by-hand", &me, "read", Duration::from_secs(60));
        assert!(call(&mock, "by-hand", CALL).await.body.contains("fine"));
        core.advance(Duration::from_secs(61));
        assert_eq!(call(&mock, "by-hand", CALL).await.status, 401);
        assert!(call(&mock, &minted.access, CALL).await.body.contains("fine"));
        assert!(core.revoke_all() > 0);
        assert_eq!(call(&mock, &minted.access, CALL).await.status, 401);
    });
}

#[test]
fn documents_of_a_protected_server() {
    block_on(async {
        let root = "/.well-known/oauth-protected-resource";
        for (guard, path, status) in [
            ("", root.to_owned(), 200),
            ("", format!("{root}/mcp"), 404),
            (", resource_metadata: own", root.to_owned(), 404),
            (", resource_metadata: own", format!("{root}/mcp"), 200),
            (", resource_metadata: absent", root.to_owned(), 200),
        ] {
            let (all, mock) = protected(&guarded("", guard)).await;
            let reply = get(&format!("http://localhost:{}{path}", mock.port())).await;
            assert_eq!(reply.status, status, "{guard} {path}");
            if status == 200 {
                let issuer = all.get("idp").unwrap().core().issuer();
                let expected = json!({
                    "resource": mock.url(), "authorization_servers": [issuer],
                    "bearer_methods_supported": ["header"], "scopes_supported": ["read"],
                });
                assert_eq!(reply.json(), expected);
            }
            let challenge = call(&mock, "", CALL).await;
            let challenge = challenge.header("www-authenticate").unwrap().to_owned();
            let own = format!("http://localhost:{}{root}/mcp", mock.port());
            assert_eq!(challenge.contains(&own), guard.contains("own"), "{challenge}");
            assert_eq!(challenge == "Bearer", guard.contains("absent"), "{challenge}");
        }
    });
}

#[test]
fn tokens_for_somebody_else_are_refused() {
    block_on(async {
        let (all, mock) =
            protected(&guarded(", bind_resources: true, auto_approve: true", "")).await;
        let issuer = all.get("idp").unwrap().core().issuer().to_owned();
        let unbound = get(&format!("{issuer}/authorize?{}", wish(&[]))).await;
        assert_eq!(unbound.parameter("error").as_deref(), Some("invalid_target"));
        for (resource, status) in [(mock.url().as_str(), 200), ("http://localhost:1/mcp", 401)] {
            let code = code(&issuer, &[("resource", resource), ("scope", "read")]).await;
            let token = post(&format!("{issuer}/token"), &redemption(&code, &[])).await.json();
            let reply = call(&mock, token["access_token"].as_str().unwrap(), CALL).await;
            assert_eq!(reply.status, status, "{resource}");
        }
        let (all, mock) = protected(&guarded("", ", expected_audience: k8s")).await;
        let core = all.get("idp").unwrap().core();
        let wrong = core.mint(&Person::default(), "openid read");
        assert_eq!(call(&mock, &wrong.id, CALL).await.status, 401);
        assert_eq!(call(&mock, &wrong.access, CALL).await.status, 401);
        let right = core.mint(&Person::default(), "openid read audience:server:client_id:k8s");
        assert_eq!(call(&mock, &right.id, CALL).await.status, 200);
    });
}
