//! A minimal HTTP server: one request per connection.

use std::{io, net::Ipv4Addr, sync::Arc};

use muster_scenario::wire;
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::{TcpListener, TcpStream},
    task::JoinSet,
};

use super::Fake;

pub(crate) async fn listen(port: u16, fake: Arc<Fake>) -> io::Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await?;
    let mut connections = JoinSet::new();
    loop {
        let (stream, _) = listener.accept().await?;
        connections.spawn(serve_connection(stream, Arc::clone(&fake)));
        while connections.try_join_next().is_some() {}
    }
}

async fn serve_connection(stream: TcpStream, fake: Arc<Fake>) -> io::Result<()> {
    let mut stream = BufReader::new(stream);
    let mut head = Vec::new();
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line).await? == 0 {
            return Ok(());
        }
        let line = line.trim_end().to_owned();
        if line.is_empty() {
            break;
        }
        head.push(line);
    }
    let header = |name: &str| {
        let headers = head.iter().filter_map(|line| line.split_once(": "));
        headers.into_iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    };
    let length = header("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await?;
    let session = header("x-muster-session-id").unwrap_or_default().to_owned();
    let method =
        head.first().and_then(|line| line.split(' ').next()).unwrap_or_default().to_owned();
    let path = head.first().and_then(|line| line.split(' ').nth(1)).unwrap_or_default();
    match method.as_str() {
        "GET" if path.starts_with("/oauth/proxy/callback") => {
            let (status, text) = match fake.logins().end(path).await {
                Ok(()) => ("200 OK", "you are logged in".to_owned()),
                Err(why) => ("400 Bad Request", why),
            };
            write(stream.get_mut(), status, "text/html", &text).await
        }
        "GET" => notify(stream.get_mut(), &fake).await,
        "POST" => {
            let text = String::from_utf8_lossy(&body).into_owned();
            let answer = match wire::parse(&text) {
                Some(message) => fake.handle(message, &session).await,
                None => None,
            };
            respond(stream.get_mut(), &fake, answer).await
        }
        _ => write(stream.get_mut(), "200 OK", "text/plain", "").await,
    }
}

async fn respond(stream: &mut TcpStream, fake: &Fake, answer: Option<String>) -> io::Result<()> {
    let Some(answer) = answer else {
        return write(stream, "202 Accepted", "text/plain", "").await;
    };
    match fake.defect() {
        "status" if answer.contains("isError") => {
            write(stream, "500 Internal Server Error", "text/plain", "oh no").await
        }
        "garbage" if answer.contains("isError") => {
            write(stream, "200 OK", "application/json", "{{{").await
        }
        // Half of the correct responses are streamed, so that both ways are tested.
        _ if answer.len() % 2 == 0 => {
            let event = format!(": hello\n\nevent: message\ndata: {answer}\n\n");
            write(stream, "200 OK", "text/event-stream", &event).await
        }
        _ => write(stream, "200 OK", "application/json", &answer).await,
    }
}

async fn notify(stream: &mut TcpStream, fake: &Fake) -> io::Result<()> {
    let mut notes = fake.notes();
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
    stream.write_all(head.as_bytes()).await?;
    while let Ok(note) = notes.recv().await {
        stream.write_all(format!("data: {note}\n\n").as_bytes()).await?;
    }
    Ok(())
}

async fn write(stream: &mut TcpStream, status: &str, kind: &str, body: &str) -> io::Result<()> {
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status}\r\ncontent-type: {kind}\r\nmcp-session-id: s\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n"
    );
    stream.write_all(format!("{head}{body}").as_bytes()).await?;
    stream.shutdown().await
}
