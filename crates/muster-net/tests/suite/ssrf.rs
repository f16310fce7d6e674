//! The SSRF guard: URLs from untrusted sources and the networks they must not reach.

use std::{
    collections::BTreeMap,
    io,
    net::IpAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use muster_core::backend::BoxFuture;
use muster_net::{
    AddressPolicy, HttpClient, HttpError, HttpRequest, HttpResponse, Resolve, TrustStore,
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
};

/// URLs that lead into a local network, or that programs interpret differently.
const CORPUS: &str = include_str!("ssrf.txt");

/// A resolver with scripted results that counts its lookups.
#[derive(Debug, Default)]
struct FakeResolver {
    names: BTreeMap<String, Vec<Vec<IpAddr>>>,
    lookups: AtomicUsize,
}

impl FakeResolver {
    fn new(names: &[(&str, &[&[&str]])]) -> Self {
        let number = |number: &&str| number.parse().unwrap();
        let names = names.iter().map(|(name, answers)| {
            let answers = answers.iter().map(|one| one.iter().map(number).collect()).collect();
            ((*name).to_owned(), answers)
        });
        Self { names: names.collect(), lookups: AtomicUsize::new(0) }
    }
}

impl Resolve for FakeResolver {
    fn resolve<'a>(&'a self, name: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>> {
        let lookup = self.lookups.fetch_add(1, Ordering::SeqCst);
        let answers = self.names.get(name);
        let answer =
            answers.and_then(|answers| answers.get(lookup.min(answers.len() - 1))).cloned();
        Box::pin(async move { answer.ok_or_else(|| io::Error::other("no such name")) })
    }
}

fn client(resolver: FakeResolver) -> HttpClient {
    HttpClient::new(Arc::new(TrustStore::system())).with_resolver(Arc::new(resolver))
}

/// Names in the corpus say what they resolve to: `to-10-0-0-1.example` to 10.0.0.1, `to6-fe80--1.example`
/// to fe80::1.
fn resolver_for(url: &str) -> FakeResolver {
    let host = url.split("://").nth(1).unwrap_or_default();
    let host = host.split(['/', ':', '?', '#']).next().unwrap_or_default().to_lowercase();
    let inner = host.strip_suffix(".example");
    let number = inner.and_then(|inner| {
        let four = inner.strip_prefix("to-").map(|rest| rest.replace('-', "."));
        four.or_else(|| inner.strip_prefix("to6-").map(|rest| rest.replace('-', ":")))
    });
    match number {
        Some(number) => FakeResolver::new(&[(&host, &[&[number.as_str()]])]),
        None => FakeResolver::default(),
    }
}

#[tokio::test]
async fn the_corpus_is_refused() {
    let urls: Vec<&str> = CORPUS.lines().filter(|line| !line.starts_with("# ")).collect();
    assert!(urls.len() >= 150, "{}", urls.len());
    for url in urls {
        let url = url.replace("\\t", "\t").replace("\\n", "\n").replace("\\0", "\0");
        for reach in [AddressPolicy::Public, AddressPolicy::Loopback] {
            let refused =
                client(resolver_for(&url)).send(HttpRequest::get(url.as_str(), reach)).await;
            assert!(is_refused(&refused), "{url:?} {reach:?}: {refused:?}");
        }
    }
}

#[tokio::test]
async fn loopback_needs_the_policy_and_an_explicit_host() {
    let (port, _) = serve(vec![ok("{}")]).await;
    for url in [
        format!("http://localhost:{port}/x"),
        format!("http://127.0.0.1:{port}/x"),
        format!("http://[::1]:{port}/x"),
        format!("http://sub.localhost:{port}/x"),
        format!("http://127.8.8.8:{port}/x"),
        format!("http://[::ffff:127.0.0.1]:{port}/x"),
    ] {
        let refused = client(FakeResolver::default())
            .send(HttpRequest::get(url.as_str(), AddressPolicy::Public))
            .await;
        assert!(is_refused(&refused), "{url}: {refused:?}");
    }
    let client = HttpClient::new(Arc::new(TrustStore::system()));
    let url = format!("http://127.0.0.1:{port}/x");
    let response = client.send(HttpRequest::get(url, AddressPolicy::Loopback)).await.unwrap();
    assert_eq!(response.body, "{}");
}

#[tokio::test]
async fn private_networks_need_the_policy() {
    for (url, fine) in [
        ("https://10.255.255.1:9/", true),
        ("https://[fd12::1]:9/", true),
        ("https://169.254.169.254/", false),
        ("https://[fd00:ec2::254]/", false),
        ("https://[fd00:ec2::23]/", false),
        ("https://100.100.100.200/", false),
        ("https://[fe80::1]/", false),
        ("https://0.0.0.0/", false),
        ("http://10.255.255.1/", false),
    ] {
        let request =
            HttpRequest::get(url, AddressPolicy::Private).timeout(Duration::from_millis(50));
        let response = client(FakeResolver::default()).send(request).await;
        assert_eq!(!is_refused(&response), fine, "{url}: {response:?}");
    }
}

#[tokio::test]
async fn dns_rebinding_is_defeated_by_a_single_lookup() {
    let (port, hits) = serve(vec![ok("secret")]).await;
    // Public at the first lookup, loopback at the second.
    let resolver =
        Arc::new(FakeResolver::new(&[("rebind.example", &[&["192.0.66.1"], &["127.0.0.1"]])]));
    let client = HttpClient::new(Arc::new(TrustStore::system()))
        .with_resolver(Arc::clone(&resolver) as Arc<dyn Resolve>);
    let request =
        HttpRequest::get(format!("https://rebind.example:{port}/"), AddressPolicy::Loopback);
    let response = client.send(request.timeout(Duration::from_millis(100))).await;
    assert!(response.is_err(), "{response:?}");
    assert_eq!(resolver.lookups.load(Ordering::SeqCst), 1);
    assert_eq!(hits.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn one_forbidden_address_refuses_the_host() {
    let resolver = FakeResolver::new(&[("mixed.example", &[&["192.0.66.1", "10.0.0.1"]])]);
    let response = client(resolver)
        .send(HttpRequest::get("https://mixed.example/", AddressPolicy::Public))
        .await;
    assert!(is_refused(&response), "{response:?}");
}

#[tokio::test]
async fn redirects_are_checked_like_the_first_url() {
    for location in [
        "http://169.254.169.254/latest/meta-data/",
        "https://169.254.169.254/",
        "http://10.0.0.1/",
        "https://10.0.0.1/",
        "//169.254.169.254/",
        "https://[::ffff:169.254.169.254]/",
        "https://2852039166/",
        "file:///etc/passwd",
        "gopher://127.0.0.1:6379/_FLUSHALL",
        "relative/path",
        "https://user@192.0.66.1/",
        "http://example.com/",
    ] {
        let (port, hits) = serve(vec![moved(location)]).await;
        let url = format!("http://127.0.0.1:{port}/");
        let response = HttpClient::new(Arc::new(TrustStore::system()))
            .send(HttpRequest::get(url, AddressPolicy::Loopback).redirects(3))
            .await;
        assert!(is_refused(&response), "{location}: {response:?}");
        assert_eq!(hits.load(Ordering::SeqCst), 1);
    }
}

#[tokio::test]
async fn redirects_are_limited() {
    let (port, hits) = serve(vec![moved("/again")]).await;
    let url = format!("http://127.0.0.1:{port}/");
    let client = HttpClient::new(Arc::new(TrustStore::system()));
    let response =
        client.send(HttpRequest::get(url.as_str(), AddressPolicy::Loopback).redirects(3)).await;
    assert_eq!(
        response.unwrap_err().to_string(),
        "the response of `127.0.0.1` cannot be read: it redirects too often"
    );
    assert_eq!(hits.load(Ordering::SeqCst), 4);
    // A request with a token is never redirected, nor one that does not allow redirects.
    let response = client
        .send(HttpRequest::get(url.as_str(), AddressPolicy::Loopback).redirects(3).bearer("t"))
        .await;
    assert_eq!(response.unwrap().status, 302);
    let response = client.send(HttpRequest::get(url.as_str(), AddressPolicy::Loopback)).await;
    assert_eq!(response.unwrap().status, 302);
    assert_eq!(hits.load(Ordering::SeqCst), 6);
}

#[tokio::test]
async fn responses_are_limited() {
    let client = HttpClient::new(Arc::new(TrustStore::system()));
    let (port, _) = serve(vec![ok(&"x".repeat(2000))]).await;
    let url = format!("http://127.0.0.1:{port}/");
    let response =
        client.send(HttpRequest::get(url.as_str(), AddressPolicy::Loopback).max_body(1000)).await;
    assert_eq!(
        response.unwrap_err().to_string(),
        "the response of `127.0.0.1` has more than 1000 bytes"
    );
    // A head and then silence.
    let (port, _) =
        serve(vec!["HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nabc".to_owned()]).await;
    let url = format!("http://127.0.0.1:{port}/");
    let request = HttpRequest::get(url, AddressPolicy::Loopback).timeout(Duration::from_millis(50));
    let response = client.send(request).await;
    assert!(matches!(response, Err(HttpError::Timeout { .. })), "{response:?}");
}

fn is_refused(result: &Result<HttpResponse, HttpError>) -> bool {
    result.as_ref().is_err_and(HttpError::is_refused)
}

fn ok(body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}", body.len())
}

fn moved(location: &str) -> String {
    format!("HTTP/1.1 302 Found\r\nlocation: {location}\r\ncontent-length: 0\r\n\r\n")
}

/// Serves the responses in order, repeating the last; connections stay open. Returns the port and the
/// number of requests.
async fn serve(responses: Vec<String>) -> (u16, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let hits = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&hits);
    let serving = async move {
        let mut open = Vec::new();
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut head = [0; 4096];
            if stream.read(&mut head).await.is_ok_and(|read| read > 0) {
                let number = seen.fetch_add(1, Ordering::SeqCst).min(responses.len() - 1);
                drop(stream.write_all(responses[number].as_bytes()).await);
            }
            open.push(stream);
        }
    };
    tokio_util::task::TaskTracker::new().spawn(serving);
    (port, hits)
}
