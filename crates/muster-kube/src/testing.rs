//! A fake API server with scripted responses.

use std::{sync::Arc, time::Duration};

use muster_engine::store::{DefinitionStatus, StatusCondition};
use muster_net::{AddressPolicy, Dialer, HttpClient, TrustStore};
use serde_json::{Value as Json, json};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    net::{TcpListener, TcpStream},
    task::JoinSet,
    time::sleep,
};

use crate::{
    access::{ClusterAccess, Credentials},
    api::ApiClient,
};

/// A scripted response.
pub(crate) enum Answer {
    /// A status and a body.
    Reply(u16, Json),
    /// A body, after a while.
    Late(Duration, Json),
    /// Nothing, ever.
    Silence,
    /// A status, and never the body that it announces.
    HeadOnly(u16),
    /// The lines of a watch, which stays open.
    Watch(Vec<Json>),
}

/// The status of a server that is connected or has failed.
pub(crate) fn wanted(is_connected: bool) -> DefinitionStatus {
    let state = if is_connected { "Connected" } else { "Failed" };
    let ready = StatusCondition {
        kind: "Ready",
        holds: is_connected,
        reason: state,
        message: String::new(),
    };
    DefinitionStatus {
        generation: Some(2),
        fields: json!({"state": state}).as_object().unwrap().clone(),
        conditions: vec![ready],
    }
}

/// A server that runs until it is dropped.
pub(crate) struct TestServer {
    _serving: JoinSet<()>,
}

/// A client of a server whose responses are chosen by method, path with query, and body.
pub(crate) async fn api_that(
    answers: impl Fn(&str, &str, &Json) -> Answer + Send + Sync + 'static,
) -> (Arc<ApiClient>, TestServer) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let answers = Arc::new(answers);
    let mut serving = JoinSet::new();
    serving.spawn(async move {
        let mut open = JoinSet::new();
        while let Ok((stream, _)) = listener.accept().await {
            let answers = Arc::clone(&answers);
            open.spawn(async move { serve(stream, &*answers).await });
        }
    });
    let access = ClusterAccess {
        server: AddressPolicy::Unrestricted.parse(&format!("http://{address}")).unwrap(),
        http: HttpClient::over(Dialer::new(Arc::new(TrustStore::system()))),
        credentials: Credentials::None,
    };
    (Arc::new(ApiClient::new(access)), TestServer { _serving: serving })
}

/// Responds to the only request of a connection.
async fn serve(stream: TcpStream, answers: &(impl Fn(&str, &str, &Json) -> Answer + Sync)) {
    let mut stream = BufReader::new(stream);
    let (mut head, mut length) = (Vec::new(), 0);
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).await.unwrap();
        let line = line.trim_end().to_owned();
        if line.is_empty() {
            break;
        }
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length: ") {
            length = value.parse().unwrap();
        }
        head.push(line);
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.unwrap();
    let mut words = head.first().unwrap().split(' ');
    let (method, path) = (words.next().unwrap(), words.next().unwrap());
    let body = serde_json::from_slice(&body).unwrap_or_default();
    let mut answer = answers(method, path, &body);
    if let Answer::Late(pause, body) = answer {
        sleep(pause).await;
        answer = Answer::Reply(200, body);
    }
    let (text, stays_open) = match answer {
        Answer::Reply(status, body) => {
            let body = body.to_string();
            let length = body.len();
            let head = format!("HTTP/1.1 {status} S\r\ncontent-length: {length}");
            (format!("{head}\r\nconnection: close\r\n\r\n{body}"), false)
        }
        Answer::Late(..) | Answer::Silence => (String::new(), true),
        Answer::HeadOnly(status) => {
            (format!("HTTP/1.1 {status} S\r\ncontent-length: 9\r\n\r\n"), true)
        }
        Answer::Watch(events) => {
            let lines: String = events.iter().map(|event| format!("{event}\n")).collect();
            (format!("HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n{lines}"), true)
        }
    };
    // The client may have disconnected.
    drop(stream.write_all(text.as_bytes()).await);
    if stays_open {
        std::future::pending::<()>().await;
    }
}
