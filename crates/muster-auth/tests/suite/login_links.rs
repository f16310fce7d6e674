//! Login links in the browsers of two users, and users who may not log in at all.

use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Response};
use muster_auth::{
    client::{OAuthClient, OAuthClientOptions, PostLoginRedirects},
    clock::Clock,
    principal_list::PrincipalList,
    store::{MemoryStore, Vault},
};
use muster_core::{
    backend::BoxFuture,
    call::Owner,
    credentials::{Peer, Principal, WebPages as _},
    logins::{LoginError, LoginObserver, LoginSubject, ProtectedServer},
};
use muster_net::{AddressPolicy, HttpClient, TrustStore};
use serde_json::{Value, json};
use tokio_util::task::TaskTracker;

use super::{
    client_world::Issuer,
    world::{BASE, World, location, parameter, peer, text_of},
};

#[derive(Debug)]
struct IgnoreArrival;

impl LoginObserver for IgnoreArrival {
    fn logged_in(&self, _: LoginSubject, _: String) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(std::future::ready(Ok(())))
    }
}

/// The gateway as a client of a server, whose login links are bound to browsers.
struct Links {
    client: Arc<OAuthClient>,
    site: ProtectedServer,
}

impl Links {
    async fn new(world: &World, tasks: &TaskTracker) -> Self {
        let issuer = Issuer::start(tasks).await;
        let clock = Clock::system();
        let vault = Vault::new(Arc::new(MemoryStore::new(clock.clone())), None);
        let options = OAuthClientOptions {
            policy: AddressPolicy::Loopback,
            browser_logins: Some(world.server.clone()),
            redirects: PostLoginRedirects::new(&["https://ui.example/app".to_owned()]).unwrap(),
            ..OAuthClientOptions::new(BASE)
        };
        let http = HttpClient::new(Arc::new(TrustStore::system()));
        let site = ProtectedServer {
            name: "mcp".to_owned(),
            url: format!("{}/mcp", issuer.base),
            ..ProtectedServer::default()
        };
        Self { client: OAuthClient::new(options, http, vault, clock), site }
    }

    async fn begin(&self, principal: &Arc<Principal>) -> Result<String, LoginError> {
        let person = person(principal);
        self.client.logins().begin(&person, &self.site, Arc::new(IgnoreArrival)).await
    }

    async fn open(&self, url: &str, cookie: &str) -> Response<Bytes> {
        let path = url.strip_prefix(BASE).unwrap_or(url);
        let request = Request::get(path).header("cookie", cookie).body(Bytes::new()).unwrap();
        self.client.pages().respond(request, &peer()).await
    }

    async fn has_login(&self, principal: &Arc<Principal>) -> bool {
        self.client.logins().access(&person(principal), &self.site).await.is_ok()
    }
}

fn person(principal: &Arc<Principal>) -> LoginSubject {
    LoginSubject {
        owner: Owner::Subject(Arc::clone(&principal.id)),
        principal: Some(Arc::clone(principal)),
    }
}

/// Logs in as a user in a browser of their own, and returns the principal and the cookie.
async fn log_in(world: &mut World, subject: &str) -> (Arc<Principal>, String) {
    world.idp.claims.lock().unwrap().insert("sub".to_owned(), json!(subject));
    world.cookie.clear();
    let tokens = world.login().await.unwrap();
    let principal = world.authenticate(tokens["access_token"].as_str().unwrap()).await.unwrap();
    (principal, world.cookie.clone())
}

#[tokio::test]
async fn a_login_link_works_only_for_the_user_who_asked_for_it() {
    let mut world = World::new().await;
    let tasks = TaskTracker::new();
    let links = Links::new(&world, &tasks).await;
    let (eve, eves_browser) = log_in(&mut world, "eve").await;
    let (_, anns_browser) = log_in(&mut world, "ann").await;

    let link = links.begin(&eve).await.unwrap();
    assert!(link.starts_with(&format!("{BASE}/oauth/proxy/start?state=")), "{link}");
    let page = links.open(&link, &anns_browser).await;
    assert_eq!(page.status(), 403);
    assert!(text_of(&page).contains("This link is not yours"));

    // Eve opens it herself, and passes on the page of the issuer.
    let issuers_page = location(&links.open(&link, &eves_browser).await);
    let state = parameter(&issuers_page, "state").unwrap();
    let callback = format!("/oauth/proxy/callback?state={state}&code=good");
    for browser in [anns_browser.as_str(), ""] {
        assert_eq!(links.open(&callback, browser).await.status(), 403, "{browser}");
        assert!(!links.has_login(&eve).await);
    }
    assert_eq!(links.open(&callback, &eves_browser).await.status(), 200);
    assert!(links.has_login(&eve).await);
}

#[tokio::test]
async fn a_browser_without_a_login_is_asked_for_one() {
    let mut world = World::new().await;
    let tasks = TaskTracker::new();
    let links = Links::new(&world, &tasks).await;
    let (eve, _) = log_in(&mut world, "eve").await;
    let link = links.begin(&eve).await.unwrap();
    for (subject, expected) in [("ann", 403), ("eve", 302)] {
        let reply = links.open(&link, "").await;
        let cookie = reply.headers().get("set-cookie").unwrap().to_str().unwrap();
        world.cookie = cookie.split(';').next().unwrap().to_owned();
        let provider = location(&reply);
        assert!(provider.starts_with(&world.idp.issuer), "{provider}");
        world.idp.claims.lock().unwrap().insert("sub".to_owned(), json!(subject));
        world.idp.nonce.lock().unwrap().clone_from(&parameter(&provider, "nonce").unwrap());
        let state = parameter(&provider, "state").unwrap();
        let back = location(&world.callback(&state, "code=upstream-code").await);
        assert_eq!(back, link);
        assert_eq!(links.open(&back, &world.cookie).await.status(), expected, "{subject}");
    }
}

#[tokio::test]
async fn a_browser_goes_on_to_an_allowed_page_after_the_login() {
    let mut world = World::new().await;
    let tasks = TaskTracker::new();
    let links = Links::new(&world, &tasks).await;
    let (eve, browser) = log_in(&mut world, "eve").await;
    for (redirect, status, expected) in [
        ("https://ui.example/app/done?x=1", 303, "https://ui.example/app/done?x=1&server=mcp"),
        ("https://evil.example/app", 200, ""),
    ] {
        let link = links.begin(&eve).await.unwrap();
        let link = format!("{link}&redirect={redirect}");
        // A link can be opened more than once.
        let pages = [links.open(&link, &browser).await, links.open(&link, &browser).await];
        let state = parameter(&location(&pages[1]), "state").unwrap();
        let callback = format!("/oauth/proxy/callback?state={state}&code=good");
        let reply = links.open(&callback, &browser).await;
        assert_eq!((reply.status().as_u16(), location(&reply).as_str()), (status, expected));
    }
    // A login that fails leads nowhere.
    let link = format!("{}&redirect=https://ui.example/app", links.begin(&eve).await.unwrap());
    let state = parameter(&location(&links.open(&link, &browser).await), "state").unwrap();
    let callback = format!("/oauth/proxy/callback?state={state}&error=access_denied");
    let reply = links.open(&callback, &browser).await;
    assert_eq!((reply.status().as_u16(), location(&reply).as_str()), (400, ""));
    for unknown in ["", "?state=", "?state=unknown"] {
        let page = links.open(&format!("/oauth/proxy/start{unknown}"), &browser).await;
        assert_eq!(page.status(), 400, "{unknown}");
    }
}

#[tokio::test]
async fn without_logins_a_link_leads_through_the_gateway_if_it_may_lead_on() {
    let tasks = TaskTracker::new();
    let issuer = Issuer::start(&tasks).await;
    let clock = Clock::system();
    let vault = Vault::new(Arc::new(MemoryStore::new(clock.clone())), None);
    let options = OAuthClientOptions {
        policy: AddressPolicy::Loopback,
        redirects: PostLoginRedirects::new(&["http://localhost:3000".to_owned()]).unwrap(),
        ..OAuthClientOptions::new(BASE)
    };
    let http = HttpClient::new(Arc::new(TrustStore::system()));
    let site = ProtectedServer {
        name: "mcp".to_owned(),
        url: format!("{}/mcp", issuer.base),
        ..ProtectedServer::default()
    };
    let links = Links { client: OAuthClient::new(options, http, vault, clock), site };
    let anybody = LoginSubject { owner: Owner::Session("s".into()), principal: None };
    let arrived = Arc::new(IgnoreArrival);
    let link = links.client.logins().begin(&anybody, &links.site, arrived).await.unwrap();
    assert!(link.starts_with(&format!("{BASE}/oauth/proxy/start?state=")), "{link}");
    let page = links.open(&format!("{link}&redirect=http://localhost:3000/"), "").await;
    let state = parameter(&location(&page), "state").unwrap();
    let callback = format!("/oauth/proxy/callback?state={state}&code=good");
    let reply = links.open(&callback, "").await;
    assert_eq!(location(&reply), "http://localhost:3000/?server=mcp");

    // Anybody may have opened the link of a user: the page says whose login it is now.
    let mut world = World::new().await;
    let (eve, _) = log_in(&mut world, "eve").await;
    let link = links.begin(&eve).await.unwrap();
    let page = links.open(&format!("{link}&redirect=http://localhost:3000/"), "").await;
    let state = parameter(&location(&page), "state").unwrap();
    let reply = links.open(&format!("/oauth/proxy/callback?state={state}&code=good"), "").await;
    assert_eq!((reply.status().as_u16(), location(&reply).as_str()), (200, ""));
    let text = text_of(&reply);
    assert!(text.contains("uses this sign-in from now on"), "{text}");
    assert!(text.contains("<a href=\"http://localhost:3000/?server=mcp\">"), "{text}");
}

#[tokio::test]
async fn pages_of_logins_are_rate_limited() {
    let world = World::new().await;
    let tasks = TaskTracker::new();
    let links = Links::new(&world, &tasks).await;
    for path in ["/oauth/proxy/start?state=guess", "/oauth/proxy/callback?state=guess&code=x"] {
        let mut statuses = Vec::new();
        for _ in 0..150 {
            statuses.push(links.open(path, "").await.status().as_u16());
        }
        assert!(statuses.contains(&429), "{path}: {statuses:?}");
    }
}

#[tokio::test]
async fn a_static_token_has_no_browser() {
    let world = World::new().await;
    let tasks = TaskTracker::new();
    let links = Links::new(&world, &tasks).await;
    let principal = Arc::new(Principal {
        id: "muster:token|ci".into(),
        issuer: "muster:token".into(),
        subject: "ci".into(),
        email: None,
        name: None,
        groups: Arc::new([]),
        login: "token/x".into(),
        identity: None,
        client: None,
    });
    assert!(matches!(links.begin(&principal).await, Err(LoginError::Refused(_))));
}

#[tokio::test]
async fn without_logins_a_browser_of_another_user_of_the_machine_is_refused() {
    let options = OAuthClientOptions {
        own_browsers_only: true,
        ..OAuthClientOptions::new("http://localhost:8090")
    };
    let clock = Clock::system();
    let vault = Vault::new(Arc::new(MemoryStore::new(clock.clone())), None);
    let http = HttpClient::new(Arc::new(TrustStore::system()));
    let client = OAuthClient::new(options, http, vault, clock);
    let local = "127.0.0.1:5".parse().unwrap();
    // 400: the state of the callback is not known.
    for (user, expected) in [(Some(0), 400), (Some(u32::MAX - 1), 403), (None, 403)] {
        let peer = Peer::new(local, local);
        assert_eq!(peer.user(|_, _| user), user);
        let request = Request::get("/oauth/proxy/callback?state=x&code=y").body(Bytes::new());
        let page = client.pages().respond(request.unwrap(), &peer).await;
        assert_eq!(page.status(), expected, "{user:?}");
    }
}

#[tokio::test]
async fn only_allowed_users_log_in() {
    let allow = |users: &[&str], domains: &[&str], groups: &[&str]| {
        let texts = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect();
        PrincipalList { users: texts(users), domains: texts(domains), groups: texts(groups) }
    };
    for (allowed, claims, expected) in [
        (allow(&[], &[], &[]), json!({}), true),
        (allow(&["ann@a.example"], &[], &[]), json!({"email": "ann@a.example"}), true),
        (allow(&["ann@a.example"], &[], &[]), json!({"email": "eve@a.example"}), false),
        (allow(&[], &["a.example"], &[]), json!({"email": "eve@a.example"}), true),
        (
            allow(&[], &["a.example"], &[]),
            json!({"email": "eve@a.example", "email_verified": false}),
            false,
        ),
        (allow(&[], &["a.example"], &[]), json!({"email": "eve@b.example"}), false),
        (allow(&[], &[], &["staff"]), json!({"groups": ["staff"]}), true),
        (allow(&[], &[], &["staff"]), json!({"groups": ["guests"]}), false),
    ] {
        let mut world = World::with(|config| config.allowed = allowed.clone().into()).await;
        world.server.discover_provider().await;
        for (name, value) in claims.as_object().unwrap() {
            world.idp.claims.lock().unwrap().insert(name.clone(), value.clone());
        }
        let login = world.login().await;
        assert_eq!(login.is_ok(), expected, "{claims}: {login:?}");
        if let Err(error) = login {
            assert!(error.starts_with("redirect: access_denied: "), "{error}");
            let user = match &claims["email"] {
                _ if claims["email_verified"] == false => "|alice",
                Value::String(email) => email,
                _ => "alice@example.com",
            };
            let refused = format!("{user} may not use this gateway. Ask its operator to add");
            assert!(error.contains(&refused), "{error}");
        }
        // A token that was not issued by a login here is checked as well.
        let mut token = world.idp.valid_claims();
        token["aud"] = json!("kubectl");
        for (name, value) in claims.as_object().unwrap() {
            token[name] = value.clone();
        }
        let who = world.who(&world.idp.signer.sign(&token)).await;
        assert_eq!(!who.starts_with("403 access_denied"), expected, "{claims}: {who}");
    }
}

#[tokio::test]
async fn a_changed_list_of_users_holds_for_those_who_are_logged_in() {
    let mut world = World::new().await;
    let issued = world.login().await.unwrap();
    let token = issued["access_token"].as_str().unwrap().to_owned();
    let principal = world.authenticate(&token).await.unwrap();
    assert_eq!(principal.client.as_deref(), Some(world.client.as_str()));
    let allowed = world.server.allowed_users();
    let users = vec!["ann@a.example".to_owned()];
    assert!(allowed.replace(PrincipalList { users, ..PrincipalList::default() }));
    assert!(world.who(&token).await.starts_with("403 access_denied"));
    assert!(allowed.replace(PrincipalList::default()));
    assert!(world.authenticate(&token).await.is_ok());
}
