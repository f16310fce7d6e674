//! A parser of server-sent events.

use std::{sync::Arc, time::Duration};

use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use memchr::memchr2;

use crate::{
    error::{MAX_IN_MEMORY, TransportError},
    spool::{Payload, SPOOL_THRESHOLD, Spool, SpoolError, SpoolFile},
};

/// An event.
#[derive(Debug, Default)]
pub(crate) struct SseEvent {
    /// The event type; empty for a message.
    pub(crate) event_type: String,
    /// The data; empty if the event only sets an id or a delay.
    pub(crate) data: Vec<u8>,
    /// The data, if it is long.
    pub(crate) spooled: Option<SpoolFile>,
    /// The id to resume the stream after.
    pub(crate) id: Option<String>,
    /// The delay before a reconnect.
    pub(crate) retry: Option<Duration>,
}

impl SseEvent {
    /// The message; `None` if there is no data.
    pub(crate) fn into_payload(self) -> Option<Payload> {
        match self.spooled {
            Some(file) => Some(Payload::Spooled(file)),
            None if self.data.is_empty() => None,
            None => Some(Payload::Memory(self.data.into())),
        }
    }
}

/// Parses events from chunks of bytes.
#[derive(Debug)]
pub(crate) struct SseParser {
    buffer: Vec<u8>,
    /// The start of the next line.
    begin: usize,
    /// The buffer contains no further line end up to here.
    scanned: usize,
    /// The last line ended with a carriage return: a line feed that follows belongs to it.
    after_return: bool,
    event: SseEvent,
    progress: Progress,
    limit: usize,
    spool: Option<Arc<Spool>>,
}

/// How much of an event has arrived.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Progress {
    #[default]
    Nothing,
    /// Some lines.
    Lines,
    /// A part of a data line, already spooled.
    Spooling,
}

impl Default for SseParser {
    fn default() -> Self {
        Self {
            buffer: Vec::new(),
            begin: 0,
            scanned: 0,
            after_return: false,
            event: SseEvent::default(),
            progress: Progress::Nothing,
            limit: MAX_IN_MEMORY,
            spool: None,
        }
    }
}

impl SseParser {
    /// Appends a chunk.
    pub(super) fn push(&mut self, chunk: &[u8]) {
        if self.begin > 0 {
            self.buffer.drain(..self.begin);
            self.scanned -= self.begin;
            self.begin = 0;
        }
        self.buffer.extend_from_slice(chunk);
    }

    /// The next complete event.
    pub(super) fn next(&mut self) -> Result<Option<SseEvent>, SpoolError> {
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
                return self.spool_partial_line().map(|()| None);
            };
            let end = self.scanned + end;
            self.after_return = self.buffer.get(end) == Some(&b'\r');
            let begin = std::mem::replace(&mut self.begin, end + 1);
            self.scanned = end + 1;
            if self.progress == Progress::Spooling {
                self.progress = Progress::Lines;
                let rest = self.buffer.get(begin..end).unwrap_or_default();
                append(&mut self.event, &[rest, b"\n"])?;
                continue;
            }
            if begin == end {
                if let Some(event) = self.dispatch() {
                    return Ok(Some(event));
                }
                continue;
            }
            let line = self.buffer.get(begin..end).unwrap_or_default();
            parse_line(&mut self.event, without_bom(line))?;
            self.progress = Progress::Lines;
            let size = self.event.data.len();
            if size > SPOOL_THRESHOLD {
                move_to_spool(&mut self.event, &mut self.spool)?;
            }
            if self.event.data.len() > self.limit {
                return Err(SpoolError::TooLarge(self.limit as u64));
            }
        }
    }

    /// Spools the received part of a long event whose line is incomplete.
    fn spool_partial_line(&mut self) -> Result<(), SpoolError> {
        let line = self.buffer.get(self.begin..).unwrap_or_default();
        let size = line.len() + self.event.data.len();
        if self.progress == Progress::Spooling {
            append(&mut self.event, &[line])?;
            self.begin = self.scanned;
            return Ok(());
        }
        let value = without_bom(line).strip_prefix(b"data:").filter(|value| !value.is_empty());
        if let Some(value) =
            value.filter(|_| self.event.spooled.is_some() || size > SPOOL_THRESHOLD)
            && move_to_spool(&mut self.event, &mut self.spool)?
        {
            append(&mut self.event, &[value.strip_prefix(b" ").unwrap_or(value)])?;
            (self.progress, self.begin) = (Progress::Spooling, self.scanned);
            return Ok(());
        }
        if size > self.limit { Err(SpoolError::TooLarge(self.limit as u64)) } else { Ok(()) }
    }

    fn dispatch(&mut self) -> Option<SseEvent> {
        let mut event = std::mem::take(&mut self.event);
        // The line feed after the last line of data is not part of it.
        event.data.pop();
        let progress = std::mem::take(&mut self.progress);
        (progress != Progress::Nothing).then_some(event)
    }
}

/// A line without the byte order mark that a stream may begin with.
fn without_bom(line: &[u8]) -> &[u8] {
    line.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(line)
}

fn parse_line(event: &mut SseEvent, line: &[u8]) -> Result<(), SpoolError> {
    let colon = line.iter().position(|byte| *byte == b':').unwrap_or(line.len());
    let (field, value) = line.split_at(colon);
    let value = value.strip_prefix(b":").unwrap_or(value);
    let value = value.strip_prefix(b" ").unwrap_or(value);
    let text = || String::from_utf8_lossy(value).into_owned();
    match field {
        b"data" if event.spooled.is_some() => return append(event, &[value, b"\n"]),
        b"data" => {
            event.data.extend_from_slice(value);
            event.data.push(b'\n');
        }
        b"event" => event.event_type = text(),
        b"id" if !value.contains(&0) => event.id = Some(text()),
        b"retry" => {
            let milliseconds = text().parse().ok();
            event.retry = milliseconds.map(Duration::from_millis).or(event.retry);
        }
        // Comments begin with a colon; unknown fields are ignored.
        _ => (),
    }
    Ok(())
}

/// Moves the data of an event to the spool; `false` if there is none.
fn move_to_spool(event: &mut SseEvent, spool: &mut Option<Arc<Spool>>) -> Result<bool, SpoolError> {
    if event.spooled.is_none() {
        event.spooled = spool.as_ref().and_then(Spool::create);
        if event.spooled.is_none() {
            *spool = None;
            return Ok(false);
        }
        let data = std::mem::take(&mut event.data);
        append(event, &[&data])?;
    }
    Ok(true)
}

fn append(event: &mut SseEvent, pieces: &[&[u8]]) -> Result<(), SpoolError> {
    let Some(file) = &mut event.spooled else { return Ok(()) };
    for piece in pieces {
        file.write(piece)?;
    }
    Ok(())
}

/// Reads the events of one response.
#[derive(Debug)]
pub(crate) struct EventReader {
    body: Incoming,
    parser: SseParser,
}

impl EventReader {
    /// A reader that spools the data of long events.
    pub(crate) fn new(body: Incoming, spool: &Arc<Spool>) -> Self {
        let spool = Some(Arc::clone(spool));
        Self { body, parser: SseParser { spool, ..SseParser::default() } }
    }

    /// The next event; `None` at the end of the stream. Cancel-safe.
    pub(crate) async fn next(&mut self) -> Result<Option<SseEvent>, TransportError> {
        loop {
            match self.parser.next() {
                Ok(Some(event)) => return Ok(Some(event)),
                Err(error) => return Err(TransportError::Invalid(error.to_string())),
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
                    return Err(TransportError::Lost(format!("the stream broke off: {err}")));
                }
            }
        }
    }

    /// The unread rest of the response.
    pub(crate) fn into_body(self) -> Incoming {
        self.body
    }
}

#[cfg(test)]
mod tests {
    use std::{io::Read as _, sync::Arc, time::Duration};

    use proptest::prelude::*;

    use super::{SPOOL_THRESHOLD, Spool, SpoolError, SseEvent, SseParser};

    impl PartialEq for SseEvent {
        fn eq(&self, other: &Self) -> bool {
            let parts = |event: &Self| {
                let Self { event_type, data, spooled: _, id, retry } = event;
                (event_type.clone(), data.clone(), id.clone(), *retry)
            };
            parts(self) == parts(other) && self.spooled.is_none() && other.spooled.is_none()
        }
    }

    fn events(chunks: &[&[u8]]) -> Vec<SseEvent> {
        parsed(SseParser::default(), chunks)
    }

    fn parsed(mut parser: SseParser, chunks: &[&[u8]]) -> Vec<SseEvent> {
        let mut found = Vec::new();
        for chunk in chunks {
            parser.push(chunk);
            while let Some(event) = parser.next().unwrap() {
                found.push(event);
            }
        }
        found
    }

    fn data(data: &str) -> SseEvent {
        SseEvent { data: data.into(), ..SseEvent::default() }
    }

    #[test]
    fn fields_make_an_event() {
        let text =
            b"event: endpoint\ndata: /m?x=1\nid: 7\nretry: 200\n\n: ping\n\ndata:a\ndata: b\n\n";
        let mut named = data("/m?x=1");
        named.event_type = "endpoint".to_owned();
        named.id = Some("7".to_owned());
        named.retry = Some(Duration::from_millis(200));
        assert_eq!(events(&[text]), [named, SseEvent::default(), data("a\nb")]);
    }

    #[test]
    fn an_event_may_set_an_id_without_data() {
        let event = SseEvent { id: Some("1".to_owned()), ..SseEvent::default() };
        assert_eq!(events(&[b"id: 1\ndata: \n\n"]), [event]);
    }

    #[test]
    fn an_incomplete_event_is_not_returned() {
        assert!(events(&[b"data: a\n"]).is_empty());
    }

    #[test]
    fn an_event_is_limited() {
        let mut parser = SseParser { limit: 8, ..SseParser::default() };
        parser.push(b"data: 123456789");
        assert_eq!(parser.next().err(), Some(SpoolError::TooLarge(8)));
        let mut parser = SseParser { limit: 8, ..SseParser::default() };
        parser.push(b"data: 12345\ndata: 6789\n");
        assert_eq!(parser.next().err(), Some(SpoolError::TooLarge(8)));
    }

    #[test]
    fn a_long_event_is_spooled() {
        let long = "x".repeat(SPOOL_THRESHOLD + 10);
        let stream =
            format!("\u{feff}id: 1\ndata: a{long}\r\ndata:b\n\ndata: short\n\ndata: {long}\n\n");
        for size in [1000, SPOOL_THRESHOLD / 2, 3 * SPOOL_THRESHOLD] {
            let spool = Some(Arc::new(Spool::default()));
            let chunks: Vec<&[u8]> = stream.as_bytes().chunks(size).collect();
            let mut found =
                parsed(SseParser { spool, ..SseParser::default() }, &chunks).into_iter();
            let mut next = || {
                let event = found.next().unwrap();
                let mut text = String::from_utf8(event.data).unwrap();
                if let Some(file) = event.spooled {
                    let size = file.size();
                    Arc::new(file).read(0..size).read_to_string(&mut text).unwrap();
                }
                (text, event.id)
            };
            assert!(next() == (format!("a{long}\nb\n"), Some("1".to_owned())), "{size}");
            assert_eq!(next(), ("short".to_owned(), None));
            assert!(next() == (format!("{long}\n"), None), "{size}");
        }
        let limit = SPOOL_THRESHOLD as u64;
        let spool = Some(Arc::new(Spool::with_limits(limit, limit)));
        let mut parser = SseParser { spool, ..SseParser::default() };
        parser.push(stream.as_bytes());
        assert_eq!(parser.next().err(), Some(SpoolError::TooLarge(limit)));
    }

    proptest! {
        #[test]
        fn chunk_boundaries_and_line_ends_do_not_matter(
            texts in prop::collection::vec("[ -~é]{0,9}", 1..5),
            line_end in prop::sample::select(vec!["\n", "\r\n", "\r"]),
            size in 1_usize..9,
        ) {
            let mut stream = String::from("\u{feff}");
            for text in &texts {
                stream.extend(["data: ", text, line_end, "data: x", line_end, line_end]);
            }
            let chunks: Vec<&[u8]> = stream.as_bytes().chunks(size).collect();
            let expect: Vec<SseEvent> = texts.iter().map(|text| data(&format!("{text}\nx"))).collect();
            prop_assert_eq!(events(&chunks), expect);
        }
    }
}
