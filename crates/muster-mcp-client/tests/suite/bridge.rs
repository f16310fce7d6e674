//! The bridge over HTTP: streams are resumed, and long messages pass byte for byte.

use muster_mcp::stdio::{Input, Output};
use muster_mcp_client::bridge::{BridgeOptions, serve};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader},
    net::UnixStream,
    task::JoinSet,
    time::timeout,
};

use super::{
    web::{Say, Seen, Web, legacy},
    world::LIMIT,
};

/// A client of a bridge, which ends with it.
struct Client {
    stream: BufReader<UnixStream>,
    _bridge: JoinSet<()>,
}

impl Client {
    async fn connect(web: &Web) -> Self {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let theirs = theirs.into_std().unwrap();
        let writing = UnixStream::from_std(theirs.try_clone().unwrap()).unwrap();
        let reading = UnixStream::from_std(theirs).unwrap();
        let options = BridgeOptions::new(&web.url);
        let mut bridge = JoinSet::new();
        bridge.spawn(async move {
            let (input, output) = (Input::Socket(reading), Output::Socket(writing));
            serve(options, input, output, std::future::pending()).await.unwrap();
        });
        let mut client = Self { stream: BufReader::new(ours), _bridge: bridge };
        client.send(r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{}}}"#).await;
        assert!(client.line().await.contains("protocolVersion"));
        client.send(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#).await;
        client
    }

    async fn send(&mut self, message: &str) {
        self.stream.write_all(format!("{message}\n").as_bytes()).await.unwrap();
    }

    async fn line(&mut self) -> String {
        let mut line = String::new();
        timeout(LIMIT, self.stream.read_line(&mut line)).await.expect("a line in time").unwrap();
        line.trim_end_matches('\n').to_owned()
    }

    async fn call(&mut self) -> String {
        self.send(r#"{"jsonrpc":"2.0","id":"c","method":"tools/call","params":{"name":"t"}}"#)
            .await;
        self.line().await
    }
}

#[tokio::test]
async fn a_broken_stream_is_resumed() {
    let response = r#"{"jsonrpc":"2.0","id":"c","result":{ "n":1.0 }}"#;
    let web = Web::start(move |seen| {
        legacy(seen, |seen| match () {
            () if seen.is("tools/call") => {
                Some(Say::Events(vec!["id: 7\nretry: 10\ndata: \n\n".to_owned()]))
            }
            () if seen.header("last-event-id") == Some("7") => {
                Some(Say::Events(vec![format!("id: 8\ndata: {response}\n\n")]))
            }
            () => None,
        })
    })
    .await;
    assert_eq!(Client::connect(&web).await.call().await, response);
    assert_eq!(web.seen_of("tools/call").len(), 1, "the call is not repeated");
}

#[tokio::test]
async fn a_long_response_passes_byte_for_byte() {
    let long = "é".repeat(1_500_000);
    let response = format!(r#"{{"jsonrpc":"2.0","id":"c","result":{{ "text" : "{long}" }}}}"#);
    for by_events in [false, true] {
        let sent = response.clone();
        let web = Web::start(move |seen: &Seen| {
            let progress = "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\"}\n\n";
            legacy(seen, |seen| {
                seen.is("tools/call").then(|| match by_events {
                    true => Say::Events(vec![progress.to_owned(), format!("data: {sent}\n\n")]),
                    false => Say::json(sent.clone()),
                })
            })
        })
        .await;
        let mut client = Client::connect(&web).await;
        let mut received = client.call().await;
        if by_events {
            assert!(received.contains("notifications/progress"), "{received}");
            received = client.line().await;
        }
        assert!(received == response, "{} bytes of {}", received.len(), response.len());
    }
}
