//! Requests to the authorization server: registrations, authorizations, tokens.
//!
//! An input is the method and the path with its query on the first line, and the body below. `CLIENT` stands for the id of
//! a registered client, and `FLOW` for a login of it that waits for consent. Each input is from a browser of its own.

use std::{
    cell::Cell,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    io,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use http::{Request, Response, header};
use muster_auth::{
    clock::Clock,
    oauth::ClientIdentity,
    principal_list::SharedPrincipalList,
    random,
    server::{
        AuthServer, BrokerConfig, BrokerTargetConfig, OwnCallback, ProviderConfig, ProviderKind,
        ServerConfig, TrustedProxies,
    },
    store::{MemoryStore, Vault},
};
use muster_core::credentials::{Peer, WebPages as _};
use muster_net::{AddressPolicy, HttpClient, TrustStore};
use serde_json::Value;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
    runtime::Runtime,
};

use super::FuzzTarget;

/// The redirect URI of the registered client.
const REDIRECT: &str = "https://app.example/cb";
/// How many requests a server gets. What they store is gone with it.
const REQUESTS: u32 = 1_000;
/// Markup that must not reach a page.
const MARKUP: &str = "<x-canary";

pub(super) const TARGET: FuzzTarget = FuzzTarget {
    name: "oauth-endpoints",
    seeds: &[
        "GET /oauth/authorize?response_type=code&client_id=CLIENT&redirect_uri=https%3A%2F%2Fapp.example%2Fcb&state=0123456789012345678901234567890123456789&code_challenge=E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM&code_challenge_method=S256&scope=openid",
        "POST /oauth/consent\nflow=FLOW&decision=deny",
        "POST /oauth/consent\nflow=FLOW&decision=allow",
        "POST /oauth/register\n{\"client_name\":\"App\",\"redirect_uris\":[\"https://app.example/cb\",\"cursor://a/b\",\"http://localhost:1/cb\"],\"token_endpoint_auth_method\":\"none\",\"grant_types\":[\"authorization_code\"],\"scope\":\"a b\"}",
        "POST /oauth/token\ngrant_type=authorization_code&code=abc&client_id=CLIENT&redirect_uri=https%3A%2F%2Fapp.example%2Fcb&code_verifier=0123456789012345678901234567890123456789012",
        "POST /oauth/token\ngrant_type=refresh_token&refresh_token=x&client_id=CLIENT&resource=https%3A%2F%2Fgate.example%2Fmcp",
        "POST /oauth/token\ngrant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Atoken-exchange&audience=cluster&client_id=broker&client_secret=broker-secret&subject_token=a.b.c&subject_token_type=urn%3Aietf%3Aparams%3Aoauth%3Atoken-type%3Aid_token",
        "GET /oauth/callback?code=c&state=s&iss=https%3A%2F%2Fidp.example",
        "POST /oauth/revoke\ntoken=t&token_type_hint=access_token",
        "POST /oauth/introspect\ntoken=t&client_id=CLIENT",
        "GET /.well-known/oauth-authorization-server/mcp",
    ],
    tokens: &[
        "&",
        "=",
        "%",
        "%00",
        "%0d%0a",
        "+",
        "\n",
        "?",
        "CLIENT",
        "FLOW",
        "decision=allow",
        "audience=cluster",
        "state=",
        "redirect_uri=",
        "https%3A%2F%2Fevil.example",
        "https://gate.example/oauth/callback",
        "javascript:",
        "view-source:",
        "com.example.app:/cb",
        "http://localhost:8/cb",
        "\"redirect_uris\":",
        "\"client_name\":\"<x-canary>\"",
        "%3Cx-canary%3E",
        "<x-canary>",
        "@",
        "\\",
        "//",
        "\u{202e}",
    ],
    execute,
};

struct Site {
    server: AuthServer,
    client: String,
    /// The issuer of the identity provider.
    provider: String,
    left: u32,
}

thread_local! {
    static RUNTIME: Option<Runtime> =
        tokio::runtime::Builder::new_current_thread().enable_all().build().ok();
    static HTTP: HttpClient = HttpClient::new(Arc::new(TrustStore::system()));
    static SITE: Cell<Option<Site>> = const { Cell::new(None) };
}

fn execute(input: &str) -> Result<bool, String> {
    let sent = async {
        let mut site = match SITE.take() {
            Some(site) => site,
            None => start().await?,
        };
        let done = exchange(&site, input).await;
        site.left -= 1;
        if site.left > 0 {
            SITE.set(Some(site));
        }
        done
    };
    RUNTIME.with(|runtime| match runtime {
        Some(runtime) => runtime.block_on(sent),
        None => Err("no runtime".to_owned()),
    })
}

/// A server with a registered client. Its provider is discovered, and cannot be reached afterwards.
async fn start() -> Result<Site, String> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await;
    let listener = listener.map_err(|error| error.to_string())?;
    let address = listener.local_addr().map_err(|error| error.to_string())?;
    let issuer = format!("http://{address}");
    let now = AtomicU64::new(1_800_000_000);
    // The clock advances one second per read, so that limits and lifetimes end.
    let clock = Clock::new(move || now.fetch_add(1, Ordering::Relaxed));
    let provider = ProviderConfig {
        kind: ProviderKind::Oidc,
        issuer: issuer.clone(),
        client_id: "muster".to_owned(),
        client_secret: "secret".to_owned().into(),
        connector: None,
        audiences: Vec::new(),
        policy: AddressPolicy::Loopback,
        timeout: Duration::from_secs(5),
    };
    let config = ServerConfig {
        base_url: "https://gate.example".to_owned(),
        resource: None,
        provider,
        trusted_audiences: Vec::new(),
        trusted_issuers: Vec::new(),
        registration_token: None,
        public_registration: true,
        trusted_schemes: Vec::new(),
        trusted_uris: Vec::new(),
        client_documents: None,
        allow_loopback_redirects: true,
        session_duration: Duration::from_secs(3600),
        origins: Vec::new(),
        proxies: TrustedProxies::default(),
        allowed: SharedPrincipalList::default(),
        own_callback: OwnCallback::Refused,
        broker: Some(broker()),
    };
    let vault = Vault::new(Arc::new(MemoryStore::new(clock.clone())), None);
    let server = AuthServer::new(config, vault, HTTP.with(HttpClient::clone), clock);
    let discovered = tokio::join!(server.discover_provider(), describe_provider(listener, &issuer));
    discovered.1.map_err(|error| error.to_string())?;
    let metadata = format!(
        r#"{{"client_name":"App {MARKUP}>","redirect_uris":["{REDIRECT}"],"token_endpoint_auth_method":"none"}}"#
    );
    let request = request("POST /oauth/register", &metadata, "").ok_or("no request")?;
    let registered = server.respond(request, &peer("")).await;
    let registered: Value =
        serde_json::from_slice(registered.body()).map_err(|error| error.to_string())?;
    let client = registered.get("client_id").and_then(Value::as_str).unwrap_or_default();
    Ok(Site { server, client: client.to_owned(), provider: issuer, left: REQUESTS })
}

/// Serves the metadata of the identity provider, once.
async fn describe_provider(listener: TcpListener, issuer: &str) -> io::Result<()> {
    let metadata = format!(
        r#"{{"issuer":"{issuer}","authorization_endpoint":"{issuer}/authorize","token_endpoint":"{issuer}/token"}}"#
    );
    let (mut stream, _) = listener.accept().await?;
    let mut request = [0; 4096];
    let _length = stream.read(&mut request).await?;
    let length = metadata.len();
    let reply = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {length}\r\nConnection: \
         close\r\n\r\n{metadata}"
    );
    stream.write_all(reply.as_bytes()).await?;
    stream.shutdown().await
}

/// A broker with one client and one target, which cannot be reached.
fn broker() -> BrokerConfig {
    let (client, audience) = ("broker".to_owned(), "cluster".to_owned());
    let target = BrokerTargetConfig {
        token_endpoint: "https://127.0.0.1:9/token".to_owned(),
        expected_issuer: String::new(),
        connector_id: String::new(),
        scopes: "openid".to_owned(),
        client: ClientIdentity::public("muster".to_owned()),
    };
    BrokerConfig {
        clients: [(client.clone(), random::digest_of("broker-secret"))].into(),
        client_audiences: [(client, vec![audience.clone()])].into(),
        targets: [(audience, target)].into(),
        policy: AddressPolicy::Loopback,
    }
}

async fn exchange(site: &Site, input: &str) -> Result<bool, String> {
    let Some((path, reply)) = send(site, input).await else { return Ok(false) };
    judge(&reply, &site.provider)?;
    if path == "/oauth/register" && reply.status().is_success() {
        let reply: Value = serde_json::from_slice(reply.body()).unwrap_or_default();
        let uris = reply.get("redirect_uris").and_then(Value::as_array);
        for uri in uris.into_iter().flatten().filter_map(Value::as_str) {
            registered(uri)?;
        }
    }
    Ok(reply.status().is_success() || reply.status().is_redirection())
}

/// Sends an input: the path, and the response.
async fn send(site: &Site, input: &str) -> Option<(String, Response<Bytes>)> {
    let input = input.replace("CLIENT", &site.client);
    let (peer, browser) = (peer(&input), browser(&input));
    let input = match input.contains("FLOW") {
        true => input.replace("FLOW", &flow(site, &peer, &browser).await.unwrap_or_default()),
        false => input,
    };
    let (line, body) = input.split_once('\n').unwrap_or((&input, ""));
    let request = request(line, body, &browser)?;
    let path = request.uri().path().to_owned();
    Some((path, site.server.respond(request, &peer).await))
}

/// A login that waits for the consent of this browser.
async fn flow(site: &Site, peer: &Peer, browser: &str) -> Option<String> {
    let line = TARGET.seeds.first()?.replace("CLIENT", &site.client);
    let page = site.server.respond(request(&line, "", browser)?, peer).await;
    let page = String::from_utf8_lossy(page.body()).into_owned();
    let (_, rest) = page.split_once("name=\"flow\" value=\"")?;
    rest.split_once('"').map(|(flow, _)| flow.to_owned())
}

fn request(line: &str, body: &str, browser: &str) -> Option<Request<Bytes>> {
    let (method, path) = line.split_once(' ')?;
    let kind = match path.starts_with("/oauth/register") {
        true => "application/json",
        false => "application/x-www-form-urlencoded",
    };
    let request = Request::builder().method(method).uri(path).header(header::CONTENT_TYPE, kind);
    let request = request.header(header::COOKIE, format!("__Host-muster-browser={browser}"));
    request.body(Bytes::from(body.to_owned())).ok()
}

/// One of many peers: each may send a few requests per second.
fn peer(input: &str) -> Peer {
    let mut hash = DefaultHasher::new();
    input.hash(&mut hash);
    let [a, b, c, ..] = hash.finish().to_be_bytes();
    let address = IpAddr::V4(Ipv4Addr::new(10, a, b, c));
    Peer::new(SocketAddr::new(address, 50_000), SocketAddr::from(([10, 0, 0, 1], 443)))
}

/// The cookie of one of many browsers: consent of one is not that of another.
fn browser(input: &str) -> String {
    random::digest_of(input)
}

fn judge(reply: &Response<Bytes>, provider: &str) -> Result<(), String> {
    let status = reply.status().as_u16();
    // The provider cannot be reached.
    if status >= 500 && status != 503 {
        return Err(format!("the server failed with status {status}"));
    }
    let text =
        |name| reply.headers().get(name).map(|value| String::from_utf8_lossy(value.as_bytes()));
    if let Some(to) = text(header::LOCATION) {
        let to_provider =
            to.strip_prefix(provider).and_then(|path| path.strip_prefix("/authorize"));
        let query = to.strip_prefix(REDIRECT).or(to_provider);
        if !query.is_some_and(|query| query.is_empty() || query.starts_with('?')) {
            return Err(format!("a browser is sent to {to}"));
        }
    }
    let is_page = text(header::CONTENT_TYPE).is_some_and(|kind| kind.starts_with("text/html"));
    if is_page && String::from_utf8_lossy(reply.body()).contains(MARKUP) {
        return Err("markup of a request is on a page".to_owned());
    }
    Ok(())
}

/// Whether codes may be sent to a URI that a client registered.
fn registered(uri: &str) -> Result<(), String> {
    let scheme = uri.split_once(':').map_or("", |(scheme, _)| scheme).to_ascii_lowercase();
    let is_code = ["javascript", "data", "file", "vbscript", "blob", "view-source", "filesystem"];
    let is_own = uri.starts_with("https://gate.example/oauth/callback");
    if is_code.contains(&scheme.as_str()) || is_own || uri.chars().any(char::is_control) {
        return Err(format!("{uri:?} is registered"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use http::{StatusCode, header};

    use super::{MARKUP, REDIRECT, TARGET, judge, send, start};

    /// Without this, the checks of pages and redirects could not fail.
    #[tokio::test]
    async fn seeds_reach_a_consent_page_and_redirects() {
        let site = start().await.unwrap();
        let (mut consent_pages, mut to_client, mut to_provider) = (0, 0, 0);
        for seed in TARGET.seeds {
            let (_, reply) = send(&site, seed).await.unwrap();
            judge(&reply, &site.provider).unwrap();
            let body = String::from_utf8_lossy(reply.body());
            consent_pages +=
                usize::from(body.contains("Allow access?") && body.contains("x-canary"));
            let location = reply.headers().get(header::LOCATION);
            let location = location.map(|to| to.to_str().unwrap()).unwrap_or_default();
            to_client += usize::from(location.starts_with(REDIRECT));
            to_provider += usize::from(location.starts_with(&site.provider));
        }
        assert_eq!((consent_pages, to_client, to_provider), (1, 1, 1));
    }

    #[test]
    fn a_redirect_elsewhere_and_markup_are_found() {
        let redirect = |to: &str| {
            let reply = http::Response::builder().status(StatusCode::FOUND);
            reply.header(header::LOCATION, to).body(bytes::Bytes::new()).unwrap()
        };
        let provider = "http://127.0.0.1:1";
        for to in ["https://app.example/cb?error=x", "http://127.0.0.1:1/authorize?a=b"] {
            assert!(judge(&redirect(to), provider).is_ok(), "{to}");
        }
        for to in ["https://app.example/cb.evil", "https://evil.example", "http://127.0.0.1:1/x"] {
            assert!(judge(&redirect(to), provider).is_err(), "{to}");
        }
        let page = http::Response::builder().header(header::CONTENT_TYPE, "text/html");
        assert!(judge(&page.body(MARKUP.into()).unwrap(), provider).is_err());
    }
}
