//! The least that carries a client on pipes to a server behind HTTP: one request at a time, nothing checked, nothing
//! understood but the length of an answer. What no bridge can be faster than.
//!
//!     bridge_least PORT

use std::{
    env,
    io::{self, BufRead, Read, Write},
    net::TcpStream,
};

fn main() -> io::Result<()> {
    let port = env::args().nth(1).expect("a port");
    let mut server = TcpStream::connect(format!("127.0.0.1:{port}"))?;
    server.set_nodelay(true)?;
    let (mut input, mut output) = (io::stdin().lock(), io::stdout().lock());
    let (mut line, mut answer, mut session) = (String::new(), vec![0; 1 << 20], String::new());
    while input.read_line(&mut line)? > 0 {
        let body = line.trim_end();
        let request = format!(
            "POST /mcp HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\ncontent-type: application/json\r\n\
             accept: application/json, text/event-stream\r\n{session}content-length: {}\r\n\r\n{body}",
            body.len()
        );
        server.write_all(request.as_bytes())?;
        line.clear();
        let (mut size, mut body) = (0, None);
        while body.is_none_or(|(start, length)| size < start + length) {
            size += server.read(&mut answer[size..])?;
            if let Some(end) = answer[..size].windows(4).position(|bytes| bytes == b"\r\n\r\n") {
                let head = String::from_utf8_lossy(&answer[..end]);
                let value = |name: &str| head.lines().find_map(|line| line.strip_prefix(name));
                if let Some(id) = value("mcp-session-id: ") {
                    session = format!("mcp-session-id: {id}\r\nmcp-protocol-version: 2025-11-25\r\n");
                }
                body = Some((end + 4, value("content-length: ").map_or(0, |length| length.parse().unwrap_or(0))));
            }
        }
        if let Some((start, length)) = body.filter(|(_, length)| *length > 0) {
            answer[start + length] = b'\n';
            output.write_all(&answer[start..=start + length])?;
            output.flush()?;
        }
    }
    Ok(())
}
