//! Server-sent events: bytes in, events out.

use std::{sync::Arc, time::Duration};

use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use memchr::memchr2;

use super::{
    disk::{Disk, Full, HELD, Spill},
    failure::{Failure, LARGEST, too_large},
};

/// The largest event taken into memory.
const LIMIT: usize = LARGEST;

/// One event, or what a server said between two.
#[derive(Debug, Default)]
pub(super) struct Event {
    /// Its kind; empty for a message.
    pub(super) kind: String,
    /// What it says; nothing where only a place in the stream was marked.
    pub(super) data: Vec<u8>,
    /// What it says, if that is long.
    pub(super) long: Option<Spill>,
    /// The place in the stream after it.
    pub(super) id: Option<String>,
    /// How long to wait before coming again.
    pub(super) retry: Option<Duration>,
}

impl Event {
    /// Whether it says nothing.
    pub(super) const fn is_silent(&self) -> bool {
        self.data.is_empty() && self.long.is_none()
    }
}

/// The event is larger than is taken: it may have so many bytes.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TooLarge(u64);

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
    progress: Progress,
    limit: usize,
    disk: Option<Arc<Disk>>,
}

/// How much of an event has come.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Progress {
    #[default]
    Nothing,
    /// Some lines.
    Lines,
    /// A part of a line of data, which is on disk already.
    Flowing,
}

impl Default for Parser {
    fn default() -> Self {
        Self {
            buffer: Vec::new(),
            begin: 0,
            scanned: 0,
            after_return: false,
            event: Event::default(),
            progress: Progress::Nothing,
            limit: LIMIT,
            disk: None,
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
            let Some(end) = memchr2(b'\n', b'\r', unseen) else {
                self.scanned = self.buffer.len();
                return self.relieve().map(|()| None);
            };
            let end = self.scanned + end;
            self.after_return = self.buffer.get(end) == Some(&b'\r');
            let begin = std::mem::replace(&mut self.begin, end + 1);
            self.scanned = end + 1;
            if self.progress == Progress::Flowing {
                self.progress = Progress::Lines;
                let rest = self.buffer.get(begin..end).unwrap_or_default();
                spill(&mut self.event, &[rest, b"\n"])?;
                continue;
            }
            if begin == end {
                if let Some(event) = self.dispatch() {
                    return Ok(Some(event));
                }
                continue;
            }
            let line = self.buffer.get(begin..end).unwrap_or_default();
            take_line(&mut self.event, without_mark(line))?;
            self.progress = Progress::Lines;
            let size = self.event.data.len();
            if size > HELD {
                to_disk(&mut self.event, &mut self.disk)?;
            }
            if self.event.data.len() > self.limit {
                return Err(TooLarge(self.limit as u64));
            }
        }
    }

    /// Takes what has come of a long event to disk while its line has no end.
    fn relieve(&mut self) -> Result<(), TooLarge> {
        let line = self.buffer.get(self.begin..).unwrap_or_default();
        let size = line.len() + self.event.data.len();
        if self.progress == Progress::Flowing {
            spill(&mut self.event, &[line])?;
            self.begin = self.scanned;
            return Ok(());
        }
        let value = without_mark(line).strip_prefix(b"data:").filter(|value| !value.is_empty());
        if let Some(value) = value.filter(|_| self.event.long.is_some() || size > HELD)
            && to_disk(&mut self.event, &mut self.disk)?
        {
            spill(&mut self.event, &[value.strip_prefix(b" ").unwrap_or(value)])?;
            (self.progress, self.begin) = (Progress::Flowing, self.scanned);
            return Ok(());
        }
        if size > self.limit { Err(TooLarge(self.limit as u64)) } else { Ok(()) }
    }

    fn dispatch(&mut self) -> Option<Event> {
        let mut event = std::mem::take(&mut self.event);
        // The line feed after the last line of data is not part of it.
        event.data.pop();
        let progress = std::mem::take(&mut self.progress);
        (progress != Progress::Nothing).then_some(event)
    }
}

/// A line without the mark that a stream may begin with.
fn without_mark(line: &[u8]) -> &[u8] {
    line.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(line)
}

fn take_line(event: &mut Event, line: &[u8]) -> Result<(), TooLarge> {
    let colon = line.iter().position(|byte| *byte == b':').unwrap_or(line.len());
    let (field, value) = line.split_at(colon);
    let value = value.strip_prefix(b":").unwrap_or(value);
    let value = value.strip_prefix(b" ").unwrap_or(value);
    let text = || String::from_utf8_lossy(value).into_owned();
    match field {
        b"data" if event.long.is_some() => return spill(event, &[value, b"\n"]),
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
    Ok(())
}

/// Takes what an event says to disk, if there is one.
fn to_disk(event: &mut Event, disk: &mut Option<Arc<Disk>>) -> Result<bool, TooLarge> {
    if event.long.is_none() {
        event.long = disk.as_ref().and_then(Disk::begin);
        if event.long.is_none() {
            *disk = None;
            return Ok(false);
        }
        let data = std::mem::take(&mut event.data);
        spill(event, &[&data])?;
    }
    Ok(true)
}

fn spill(event: &mut Event, pieces: &[&[u8]]) -> Result<(), TooLarge> {
    let Some(spill) = &mut event.long else { return Ok(()) };
    for piece in pieces {
        spill.write(piece).map_err(|Full| TooLarge(spill.most()))?;
    }
    Ok(())
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

    /// Events of which the long ones go to disk.
    pub(super) fn with_disk(body: Incoming, disk: &Arc<Disk>) -> Self {
        let disk = Some(Arc::clone(disk));
        Self { body, parser: Parser { disk, ..Parser::default() } }
    }

    /// The next event; `None` when the stream has ended. Cancel-safe.
    pub(super) async fn next(&mut self) -> Result<Option<Event>, Failure> {
        loop {
            match self.parser.next() {
                Ok(Some(event)) => return Ok(Some(event)),
                Err(TooLarge(most)) => return Err(Failure::Broken(too_large(most))),
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
    use std::{io::Read as _, sync::Arc, time::Duration};

    use proptest::prelude::*;

    use super::{Disk, Event, HELD, Parser, TooLarge};

    impl PartialEq for Event {
        fn eq(&self, other: &Self) -> bool {
            let parts = |event: &Self| {
                let Self { kind, data, long: _, id, retry } = event;
                (kind.clone(), data.clone(), id.clone(), *retry)
            };
            parts(self) == parts(other) && self.long.is_none() && other.long.is_none()
        }
    }

    fn events(chunks: &[&[u8]]) -> Vec<Event> {
        parsed(Parser::default(), chunks)
    }

    fn parsed(mut parser: Parser, chunks: &[&[u8]]) -> Vec<Event> {
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
        assert_eq!(parser.next().err(), Some(TooLarge(8)));
        let mut parser = Parser { limit: 8, ..Parser::default() };
        parser.push(b"data: 12345\ndata: 6789\n");
        assert_eq!(parser.next().err(), Some(TooLarge(8)));
    }

    #[test]
    fn a_long_event_goes_to_disk() {
        let long = "x".repeat(HELD + 10);
        let said =
            format!("\u{feff}id: 1\ndata: a{long}\r\ndata:b\n\ndata: short\n\ndata: {long}\n\n");
        for size in [1000, HELD / 2, 3 * HELD] {
            let disk = Some(Arc::new(Disk::default()));
            let chunks: Vec<&[u8]> = said.as_bytes().chunks(size).collect();
            let mut found = parsed(Parser { disk, ..Parser::default() }, &chunks).into_iter();
            let mut next = || {
                let event = found.next().unwrap();
                let mut text = String::from_utf8(event.data).unwrap();
                if let Some(spill) = event.long {
                    let size = spill.size();
                    Arc::new(spill).read(0..size).read_to_string(&mut text).unwrap();
                }
                (text, event.id)
            };
            assert!(next() == (format!("a{long}\nb\n"), Some("1".to_owned())), "{size}");
            assert_eq!(next(), ("short".to_owned(), None));
            assert!(next() == (format!("{long}\n"), None), "{size}");
        }
        let disk = Some(Arc::new(Disk::within(HELD as u64, HELD as u64)));
        let mut parser = Parser { disk, ..Parser::default() };
        parser.push(said.as_bytes());
        assert_eq!(parser.next().err(), Some(TooLarge(HELD as u64)));
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
