//! Server-sent events: bytes in, events out.

use std::time::Duration;

use http_body_util::BodyExt as _;
use hyper::body::Incoming;

use super::failure::{Failure, LARGEST, too_large};

/// The largest event taken.
const LIMIT: usize = LARGEST;

/// One event, or what a server said between two.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Event {
    /// Its kind; empty for a message.
    pub(super) kind: String,
    /// What it says; nothing where only a place in the stream was marked.
    pub(super) data: Vec<u8>,
    /// The place in the stream after it.
    pub(super) id: Option<String>,
    /// How long to wait before coming again.
    pub(super) retry: Option<Duration>,
}

/// The event is larger than is taken.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TooLarge;

/// Reads events out of chunks of bytes.
#[derive(Debug)]
pub(super) struct Parser {
    buffer: Vec<u8>,
    /// Where the next line begins.
    begin: usize,
    /// How far there is no line end behind it.
    scanned: usize,
    /// The last line ended in a carriage return: a line feed after it belongs to it.
    after_return: bool,
    event: Event,
    /// Whether the event has any line.
    touched: bool,
    limit: usize,
}

impl Default for Parser {
    fn default() -> Self {
        Self {
            buffer: Vec::new(),
            begin: 0,
            scanned: 0,
            after_return: false,
            event: Event::default(),
            touched: false,
            limit: LIMIT,
        }
    }
}

impl Parser {
    /// Takes bytes in.
    pub(super) fn push(&mut self, chunk: &[u8]) {
        if self.begin > 0 {
            self.buffer.drain(..self.begin);
            self.scanned -= self.begin;
            self.begin = 0;
        }
        self.buffer.extend_from_slice(chunk);
    }

    /// The next whole event.
    pub(super) fn next(&mut self) -> Result<Option<Event>, TooLarge> {
        loop {
            if self.after_return && self.scanned < self.buffer.len() {
                self.after_return = false;
                if self.buffer.get(self.scanned) == Some(&b'\n') {
                    self.begin += 1;
                    self.scanned += 1;
                }
            }
            let unseen = self.buffer.get(self.scanned..).unwrap_or_default();
            let Some(end) = unseen.iter().position(|byte| matches!(byte, b'\n' | b'\r')) else {
                self.scanned = self.buffer.len();
                let size = self.scanned - self.begin + self.event.data.len();
                return if size > self.limit { Err(TooLarge) } else { Ok(None) };
            };
            let end = self.scanned + end;
            self.after_return = self.buffer.get(end) == Some(&b'\r');
            let begin = std::mem::replace(&mut self.begin, end + 1);
            self.scanned = end + 1;
            if begin == end {
                if let Some(event) = self.dispatch() {
                    return Ok(Some(event));
                }
                continue;
            }
            let line = self.buffer.get(begin..end).unwrap_or_default();
            take_line(&mut self.event, line.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(line));
            self.touched = true;
            if self.event.data.len() > self.limit {
                return Err(TooLarge);
            }
        }
    }

    fn dispatch(&mut self) -> Option<Event> {
        let mut event = std::mem::take(&mut self.event);
        // The line feed after the last line of data is not part of it.
        event.data.pop();
        std::mem::take(&mut self.touched).then_some(event)
    }
}

fn take_line(event: &mut Event, line: &[u8]) {
    let colon = line.iter().position(|byte| *byte == b':').unwrap_or(line.len());
    let (field, value) = line.split_at(colon);
    let value = value.strip_prefix(b":").unwrap_or(value);
    let value = value.strip_prefix(b" ").unwrap_or(value);
    let text = || String::from_utf8_lossy(value).into_owned();
    match field {
        b"data" => {
            event.data.extend_from_slice(value);
            event.data.push(b'\n');
        }
        b"event" => event.kind = text(),
        b"id" if !value.contains(&0) => event.id = Some(text()),
        b"retry" => {
            let milliseconds = text().parse().ok();
            event.retry = milliseconds.map(Duration::from_millis).or(event.retry);
        }
        // A comment begins with a colon; unknown fields are for others.
        _ => (),
    }
}

/// The events of one response.
#[derive(Debug)]
pub(super) struct Stream {
    body: Incoming,
    parser: Parser,
}

impl Stream {
    pub(super) fn new(body: Incoming) -> Self {
        Self { body, parser: Parser::default() }
    }

    /// The next event; `None` when the stream has ended. Cancel-safe.
    pub(super) async fn next(&mut self) -> Result<Option<Event>, Failure> {
        loop {
            match self.parser.next() {
                Ok(Some(event)) => return Ok(Some(event)),
                Err(TooLarge) => {
                    return Err(Failure::Broken(too_large()));
                }
                Ok(None) => (),
            }
            match self.body.frame().await {
                None => return Ok(None),
                Some(Ok(frame)) => {
                    if let Some(chunk) = frame.data_ref() {
                        self.parser.push(chunk);
                    }
                }
                Some(Err(err)) => {
                    return Err(Failure::Lost(format!("the stream broke off: {err}")));
                }
            }
        }
    }

    /// What is left of the response.
    pub(super) fn into_body(self) -> Incoming {
        self.body
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::{Event, Parser, TooLarge};

    fn events(chunks: &[&[u8]]) -> Vec<Event> {
        let mut parser = Parser::default();
        let mut found = Vec::new();
        for chunk in chunks {
            parser.push(chunk);
            while let Some(event) = parser.next().unwrap() {
                found.push(event);
            }
        }
        found
    }

    fn data(data: &str) -> Event {
        Event { data: data.into(), ..Event::default() }
    }

    #[test]
    fn fields_make_an_event() {
        let text =
            b"event: endpoint\ndata: /m?x=1\nid: 7\nretry: 200\n\n: ping\n\ndata:a\ndata: b\n\n";
        let mut named = data("/m?x=1");
        named.kind = "endpoint".to_owned();
        named.id = Some("7".to_owned());
        named.retry = Some(Duration::from_millis(200));
        assert_eq!(events(&[text]), [named, Event::default(), data("a\nb")]);
    }

    #[test]
    fn a_place_may_be_marked_without_data() {
        let event = Event { id: Some("1".to_owned()), ..Event::default() };
        assert_eq!(events(&[b"id: 1\ndata: \n\n"]), [event]);
    }

    #[test]
    fn an_unfinished_event_is_none() {
        assert!(events(&[b"data: a\n"]).is_empty());
    }

    #[test]
    fn an_event_has_a_limit() {
        let mut parser = Parser { limit: 8, ..Parser::default() };
        parser.push(b"data: 123456789");
        assert_eq!(parser.next(), Err(TooLarge));
        let mut parser = Parser { limit: 8, ..Parser::default() };
        parser.push(b"data: 12345\ndata: 6789\n");
        assert_eq!(parser.next(), Err(TooLarge));
    }

    proptest! {
        #[test]
        fn neither_chunks_nor_line_ends_matter(
            texts in prop::collection::vec("[ -~é]{0,9}", 1..5),
            line_end in prop::sample::select(vec!["\n", "\r\n", "\r"]),
            size in 1_usize..9,
        ) {
            let mut stream = String::from("\u{feff}");
            for text in &texts {
                stream.extend(["data: ", text, line_end, "data: x", line_end, line_end]);
            }
            let chunks: Vec<&[u8]> = stream.as_bytes().chunks(size).collect();
            let expect: Vec<Event> = texts.iter().map(|text| data(&format!("{text}\nx"))).collect();
            prop_assert_eq!(events(&chunks), expect);
        }
    }
}
