//! Addresses that strangers hand us, and where none of them may lead.

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

use muster_auth::dialer::{DialError, Dialer, Outgoing, Reach, Resolve, Trust};
use muster_core::backend::BoxFuture;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
};

/// Every way to write an address that leads inside, or that programs read differently.
const CORPUS: &str = include_str!("ssrf.txt");

/// Answers with the numbers that were planted, and counts how often it was asked.
#[derive(Debug, Default)]
struct Planted {
    names: BTreeMap<String, Vec<Vec<IpAddr>>>,
    asked: AtomicUsize,
}

impl Planted {
    fn new(names: &[(&str, &[&[&str]])]) -> Self {
        let number = |number: &&str| number.parse().unwrap();
        let names = names.iter().map(|(name, answers)| {
            let answers = answers.iter().map(|one| one.iter().map(number).collect()).collect();
            ((*name).to_owned(), answers)
        });
        Self { names: names.collect(), asked: AtomicUsize::new(0) }
    }
}

impl Resolve for Planted {
    fn resolve<'a>(&'a self, name: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>> {
        let turn = self.asked.fetch_add(1, Ordering::SeqCst);
        let answers = self.names.get(name);
        let answer = answers.and_then(|answers| answers.get(turn.min(answers.len() - 1))).cloned();
        Box::pin(async move { answer.ok_or_else(|| io::Error::other("no such name")) })
    }
}

fn dialer(resolver: Planted) -> Dialer {
    Dialer::new(Arc::new(Trust::system())).with_resolver(Arc::new(resolver))
}

/// Names in the corpus say where they lead: `to-10-0-0-1.example` to 10.0.0.1, `to6-fe80--1.example`
/// to fe80::1.
fn planted(url: &str) -> Planted {
    let host = url.split("://").nth(1).unwrap_or_default();
    let host = host.split(['/', ':', '?', '#']).next().unwrap_or_default().to_lowercase();
    let inner = host.strip_suffix(".example");
    let number = inner.and_then(|inner| {
        let four = inner.strip_prefix("to-").map(|rest| rest.replace('-', "."));
        four.or_else(|| inner.strip_prefix("to6-").map(|rest| rest.replace('-', ":")))
    });
    match number {
        Some(number) => Planted::new(&[(&host, &[&[number.as_str()]])]),
        None => Planted::default(),
    }
}

#[tokio::test]
async fn nothing_of_the_corpus_is_connected_to() {
    let urls: Vec<&str> = CORPUS.lines().filter(|line| !line.starts_with("# ")).collect();
    assert!(urls.len() >= 150, "{}", urls.len());
    for url in urls {
        let url = url.replace("\\t", "\t").replace("\\n", "\n").replace("\\0", "\0");
        for reach in [Reach::Public, Reach::Loopback] {
            let refused = dialer(planted(&url)).send(Outgoing::get(url.as_str(), reach)).await;
            assert!(
                matches!(refused, Err(DialError::Refused(_))),
                "{url:?} {reach:?}: {refused:?}"
            );
        }
    }
}

#[tokio::test]
async fn this_machine_only_where_allowed_and_said() {
    let (port, _) = serve(vec![ok("{}")]).await;
    for url in [
        format!("http://localhost:{port}/x"),
        format!("http://127.0.0.1:{port}/x"),
        format!("http://[::1]:{port}/x"),
        format!("http://sub.localhost:{port}/x"),
        format!("http://127.8.8.8:{port}/x"),
        format!("http://[::ffff:127.0.0.1]:{port}/x"),
    ] {
        let refused =
            dialer(Planted::default()).send(Outgoing::get(url.as_str(), Reach::Public)).await;
        assert!(matches!(refused, Err(DialError::Refused(_))), "{url}: {refused:?}");
    }
    let dialer = Dialer::new(Arc::new(Trust::system()));
    let url = format!("http://127.0.0.1:{port}/x");
    let answer = dialer.send(Outgoing::get(url, Reach::Loopback)).await.unwrap();
    assert_eq!(answer.body, "{}");
}

#[tokio::test]
async fn private_networks_only_where_allowed() {
    for (url, fine) in [
        ("https://10.255.255.1:9/", true),
        ("https://[fd12::1]:9/", true),
        ("https://169.254.169.254/", false),
        ("https://[fd00:ec2::254]/", false),
        ("https://100.100.100.200/", false),
        ("https://[fe80::1]/", false),
        ("https://0.0.0.0/", false),
        ("http://10.255.255.1/", false),
    ] {
        let outgoing = Outgoing::get(url, Reach::Private).within(Duration::from_millis(50));
        let answer = dialer(Planted::default()).send(outgoing).await;
        assert_eq!(!matches!(answer, Err(DialError::Refused(_))), fine, "{url}: {answer:?}");
    }
}

#[tokio::test]
async fn a_name_that_changes_its_mind_is_asked_once() {
    let (port, hits) = serve(vec![ok("secret")]).await;
    // Judged as public, then loopback for whoever asks again.
    let resolver =
        Arc::new(Planted::new(&[("rebind.example", &[&["192.0.66.1"], &["127.0.0.1"]])]));
    let dialer = Dialer::new(Arc::new(Trust::system()))
        .with_resolver(Arc::clone(&resolver) as Arc<dyn Resolve>);
    let outgoing = Outgoing::get(format!("https://rebind.example:{port}/"), Reach::Loopback);
    let answer = dialer.send(outgoing.within(Duration::from_millis(100))).await;
    assert!(answer.is_err(), "{answer:?}");
    assert_eq!(resolver.asked.load(Ordering::SeqCst), 1);
    assert_eq!(hits.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn one_bad_number_spoils_a_name() {
    let resolver = Planted::new(&[("mixed.example", &[&["192.0.66.1", "10.0.0.1"]])]);
    let answer =
        dialer(resolver).send(Outgoing::get("https://mixed.example/", Reach::Public)).await;
    assert!(matches!(answer, Err(DialError::Refused(_))), "{answer:?}");
}

#[tokio::test]
async fn redirects_are_judged_like_the_first_address() {
    for place in [
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
        let (port, hits) = serve(vec![moved(place)]).await;
        let url = format!("http://127.0.0.1:{port}/");
        let answer = Dialer::new(Arc::new(Trust::system()))
            .send(Outgoing::get(url, Reach::Loopback).redirects(3))
            .await;
        assert!(matches!(answer, Err(DialError::Refused(_))), "{place}: {answer:?}");
        assert_eq!(hits.load(Ordering::SeqCst), 1);
    }
}

#[tokio::test]
async fn redirects_end() {
    let (port, hits) = serve(vec![moved("/again")]).await;
    let url = format!("http://127.0.0.1:{port}/");
    let dialer = Dialer::new(Arc::new(Trust::system()));
    let answer = dialer.send(Outgoing::get(url.as_str(), Reach::Loopback).redirects(3)).await;
    assert_eq!(
        answer.unwrap_err().to_string(),
        "the answer of `127.0.0.1` cannot be read: it redirects too often"
    );
    assert_eq!(hits.load(Ordering::SeqCst), 4);
    // A token is not carried on, and nothing is followed that did not ask for it.
    let answer =
        dialer.send(Outgoing::get(url.as_str(), Reach::Loopback).redirects(3).bearer("t")).await;
    assert_eq!(answer.unwrap().status, 302);
    let answer = dialer.send(Outgoing::get(url.as_str(), Reach::Loopback)).await;
    assert_eq!(answer.unwrap().status, 302);
    assert_eq!(hits.load(Ordering::SeqCst), 6);
}

#[tokio::test]
async fn answers_are_bounded() {
    let dialer = Dialer::new(Arc::new(Trust::system()));
    let (port, _) = serve(vec![ok(&"x".repeat(2000))]).await;
    let url = format!("http://127.0.0.1:{port}/");
    let answer = dialer.send(Outgoing::get(url.as_str(), Reach::Loopback).at_most(1000)).await;
    assert_eq!(
        answer.unwrap_err().to_string(),
        "the answer of `127.0.0.1` has more than 1000 bytes"
    );
    // A head and then silence.
    let (port, _) =
        serve(vec!["HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nabc".to_owned()]).await;
    let url = format!("http://127.0.0.1:{port}/");
    let outgoing = Outgoing::get(url, Reach::Loopback).within(Duration::from_millis(50));
    let answer = dialer.send(outgoing).await;
    assert!(matches!(answer, Err(DialError::Slow { .. })), "{answer:?}");
}

fn ok(body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}", body.len())
}

fn moved(place: &str) -> String {
    format!("HTTP/1.1 302 Found\r\nlocation: {place}\r\ncontent-length: 0\r\n\r\n")
}

/// Answers the requests in turn, the last one for ever; connections stay open. Tells how many came.
async fn serve(answers: Vec<String>) -> (u16, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let hits = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&hits);
    let serving = async move {
        let mut open = Vec::new();
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut head = [0; 4096];
            if stream.read(&mut head).await.is_ok_and(|read| read > 0) {
                let turn = seen.fetch_add(1, Ordering::SeqCst).min(answers.len() - 1);
                drop(stream.write_all(answers[turn].as_bytes()).await);
            }
            open.push(stream);
        }
    };
    tokio_util::task::TaskTracker::new().spawn(serving);
    (port, hits)
}
