//! A parser for server-sent events.

use http_body_util::BodyExt;

use super::{HttpError, Response};

/// One event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Event {
    /// `message` by default.
    pub(crate) kind: String,
    pub(crate) data: String,
}

/// The event stream of a response.
#[derive(Debug)]
pub(crate) struct Events {
    response: Response,
    buffer: Buffer,
}

impl Events {
    pub(crate) fn new(response: Response) -> Self {
        Self { response, buffer: Buffer::default() }
    }

    /// The next event; `None` at the end of the stream.
    pub(crate) async fn next(&mut self) -> Result<Option<Event>, HttpError> {
        loop {
            if let Some(event) = self.buffer.next() {
                return Ok(Some(event));
            }
            match self.response.body.frame().await {
                None => return Ok(None),
                Some(frame) => {
                    if let Ok(data) = frame?.into_data() {
                        self.buffer.bytes.extend_from_slice(&data);
                    }
                }
            }
        }
    }
}

/// Received bytes that may end in the middle of an event.
#[derive(Debug, Default)]
struct Buffer {
    bytes: Vec<u8>,
}

impl Buffer {
    /// Removes the first complete event that has data.
    fn next(&mut self) -> Option<Event> {
        loop {
            let (end, separator) = self.end()?;
            let block: Vec<u8> = self.bytes.drain(..end + separator).take(end).collect();
            let block = String::from_utf8_lossy(&block).into_owned();
            if let Some(event) = read(&block) {
                return Some(event);
            }
        }
    }

    /// The end of the first event, and the length of the blank line after it.
    fn end(&self) -> Option<(usize, usize)> {
        let find = |blank: &[u8]| {
            let at = self.bytes.windows(blank.len()).position(|window| window == blank)?;
            Some((at, blank.len()))
        };
        [find(b"\n\n"), find(b"\r\n\r\n"), find(b"\r\r")].into_iter().flatten().min()
    }
}

fn read(block: &str) -> Option<Event> {
    let mut kind = "message".to_owned();
    let mut data: Vec<&str> = Vec::new();
    for line in block.split(['\n', '\r']) {
        let (name, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match name {
            "event" => kind = value.to_owned(),
            "data" => data.push(value),
            _ => {}
        }
    }
    (!data.is_empty()).then(|| Event { kind, data: data.join("\n") })
}

#[cfg(test)]
mod tests {
    use super::Buffer;

    #[test]
    fn events_may_arrive_in_pieces() {
        let mut buffer = Buffer::default();
        let mut seen = Vec::new();
        for piece in [
            ": hello\n\neve",
            "nt: endpoint\nda",
            "ta: /message?x=1\n",
            "\ndata: {\"a\":\ndata: 1}\r\n\r\ndata:x\n\nid: 4\n\n",
        ] {
            buffer.bytes.extend_from_slice(piece.as_bytes());
            while let Some(event) = buffer.next() {
                seen.push((event.kind, event.data));
            }
        }
        let expect = [("endpoint", "/message?x=1"), ("message", "{\"a\":\n1}"), ("message", "x")];
        assert_eq!(seen, expect.map(|(kind, data)| (kind.to_owned(), data.to_owned())));
    }
}
