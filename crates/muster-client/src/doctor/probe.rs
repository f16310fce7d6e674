//! Probes an address with a few bytes to find out which protocol it speaks.

use std::{io, time::Duration};

use muster_net::Url;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpStream, lookup_host},
    time::timeout,
};

/// The timeout of each step.
const STEP: Duration = Duration::from_secs(2);
/// The maximum number of bytes to read of a response.
const MAX_ANSWER: u64 = 2048;

/// A minimal TLS ClientHello without extensions. Any TLS server responds to it, if only with an alert.
const CLIENT_HELLO: [u8; 52] = *b"\x16\x03\x01\x00\x2f\x01\x00\x00\x2b\x03\x03\
    musterdoctormusterdoctormusterdo\
    \x00\x00\x04\xc0\x2f\x00\x2f\x01\x00";

/// The result of probing an address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ProbeResult {
    /// The host has no address.
    UnknownHost(String),
    /// Nothing listens on the port.
    Refused,
    /// Another error prevented the connection.
    NoConnection(String),
    /// TLS.
    Tls,
    /// HTTP without TLS.
    Http {
        /// The status of the response.
        status: u16,
        /// Its `Server` header, if there is one.
        server: Option<String>,
    },
    /// Something else, or nothing.
    Other,
}

/// Probes what responds at a URL.
pub(super) async fn probe(url: &Url) -> ProbeResult {
    // Try TLS first, because its response is unambiguous. To plain text, a TLS server may respond with an alert, with
    // nothing, or with an HTTP error in its own words.
    match ask(url, &CLIENT_HELLO).await {
        Ok(response) if matches!(response.first(), Some(0x15 | 0x16)) => return ProbeResult::Tls,
        Ok(_) => (),
        Err(answer) => return answer,
    }
    // Send the path only: the query may hold a secret.
    let request = format!(
        "GET {} HTTP/1.1\r\nHost: {}\r\nAccept: */*\r\nConnection: close\r\n\r\n",
        url.path(),
        url.host_header().to_str().unwrap_or_default(),
    );
    match ask(url, request.as_bytes()).await {
        Ok(response) => http_answer(&response).unwrap_or(ProbeResult::Other),
        Err(answer) => answer,
    }
}

fn http_answer(response: &[u8]) -> Option<ProbeResult> {
    let text = String::from_utf8_lossy(response);
    let head = text.strip_prefix("HTTP/")?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    let server = head.lines().take_while(|line| !line.is_empty()).find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("server").then(|| value.trim().to_owned())
    });
    Some(ProbeResult::Http { status, server })
}

/// Sends bytes and reads the beginning of the response.
async fn ask(url: &Url, bytes: &[u8]) -> Result<Vec<u8>, ProbeResult> {
    let address = (url.host(), url.port());
    let found = timeout(STEP, lookup_host(address)).await;
    let mut addresses = match found {
        Ok(Ok(addresses)) => addresses.peekable(),
        Ok(Err(err)) => return Err(ProbeResult::UnknownHost(err.to_string())),
        Err(_) => {
            return Err(ProbeResult::UnknownHost("the name server does not answer".to_owned()));
        }
    };
    if addresses.peek().is_none() {
        return Err(ProbeResult::UnknownHost("it has no address".to_owned()));
    }
    let mut failure = ProbeResult::Refused;
    for address in addresses {
        match timeout(STEP, TcpStream::connect(address)).await {
            Ok(Ok(mut stream)) => {
                let mut response = Vec::new();
                let exchange = async {
                    stream.write_all(bytes).await?;
                    (&mut stream).take(MAX_ANSWER).read_to_end(&mut response).await
                };
                // A timeout is not an error: a server may respond and keep the connection open.
                drop(timeout(STEP, exchange).await);
                return Ok(response);
            }
            Ok(Err(err)) if err.kind() == io::ErrorKind::ConnectionRefused => (),
            Ok(Err(err)) => failure = ProbeResult::NoConnection(err.to_string()),
            Err(_) => failure = ProbeResult::NoConnection("it does not answer".to_owned()),
        }
    }
    Err(failure)
}

#[cfg(test)]
mod tests {
    use std::{
        io::{Read as _, Write as _},
        net::TcpListener,
        thread,
    };

    use super::{ProbeResult, Url, http_answer, probe};

    /// A TLS server that responds to plain text with a plain-text error, as Apache does.
    #[tokio::test]
    async fn servers_with_tls_are_recognized_whatever_they_answer_to_plain_text() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let mut request = [0; 512];
                let read = stream.read(&mut request).unwrap();
                let answer: &[u8] = match request.get(..read).and_then(|all| all.first()) {
                    Some(0x16) => &[0x15, 3, 1, 0, 2, 2, 40],
                    _ => b"HTTP/1.1 400 Bad Request\r\n\r\nYou're speaking plain HTTP to an SSL-enabled server port.",
                };
                stream.write_all(answer).unwrap();
            }
        });
        for scheme in ["http", "https"] {
            let url = Url::parse(&format!("{scheme}://127.0.0.1:{port}/mcp")).unwrap();
            assert_eq!(probe(&url).await, ProbeResult::Tls, "{scheme}");
        }
    }

    #[test]
    fn answers() {
        let said = b"HTTP/1.1 404 Not Found\r\nserver: nginx\r\n\r\nServer: no";
        let server = Some("nginx".to_owned());
        assert_eq!(http_answer(said), Some(ProbeResult::Http { status: 404, server }));
        assert_eq!(http_answer(b"SSH-2.0"), None);
    }
}
