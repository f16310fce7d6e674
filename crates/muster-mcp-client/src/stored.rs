//! Results that stay on disk, and messages on disk told apart.

use std::{
    io::{self, BufRead, BufReader, Read},
    ops::Range,
    sync::Arc,
};

use muster_core::{
    json::{Raw, RawObject, raw, scan::JsonScanner},
    spooled::{SpoolError, SpooledResult, load},
};
use muster_mcp::{
    version::SERVER_INFO_KEY,
    wire::{RpcError, code},
};
use serde::de::DeserializeOwned;
use tracing::debug;

use super::{
    disk::Spill,
    failure::{Failure, LARGEST},
    message::number,
};

/// How much is read at a time.
const CHUNK: usize = 64 * 1024;
/// What is longer is not looked at: an id, a word, what a result says about itself.
const SHORT: usize = 64 * 1024;
/// So much is kept of what is no message.
const SHOWN: u64 = 1024;
/// A result with more members is left as it is.
const MOST_MEMBERS: usize = 64;

/// A message on disk, told apart.
#[derive(Debug)]
pub(super) enum Long {
    /// Answers a request of ours.
    Answer { id: Option<u64>, result: Stored },
    /// Something else, brought into memory.
    Other(String),
    /// Something else that memory is not to hold; the request that it answers, if it is an answer.
    TooLarge(Option<u64>),
}

impl Long {
    /// Tells a message apart. Reads all of it.
    pub(super) fn read(spill: Spill) -> io::Result<Self> {
        let spill = Arc::new(spill);
        let size = spill.size();
        let mut scan = JsonScanner::new(BufReader::with_capacity(CHUNK, spill.read(0..size)), 0);
        let mut found = Envelope::default();
        let is_one = scan.peek().is_ok_and(|first| first != b'[');
        if is_one && let Err(error) = found.read(&mut scan) {
            debug!("a long message is none: {error}");
            return text(spill.read(0..SHOWN), SHOWN).map(Self::Other);
        }
        match found.result {
            Some(result) if !found.is_other => {
                let result =
                    Stored { parts: vec![Part::Disk(result.whole.clone())], spill, result };
                Ok(Self::Answer { id: found.id, result })
            }
            _ if size > LARGEST as u64 => Ok(Self::TooLarge(found.id)),
            _ => text(spill.read(0..size), size).map(Self::Other),
        }
    }
}

#[derive(Default)]
struct Envelope {
    id: Option<u64>,
    /// It is no good answer.
    is_other: bool,
    result: Option<Outline>,
}

impl Envelope {
    fn read(&mut self, scan: &mut JsonScanner<impl BufRead>) -> io::Result<()> {
        scan.members(|scan, key| {
            match key {
                "id" => {
                    self.id = scan.read_short(SHORT)?.and_then(|id| number(&parsed::<Raw>(&id)?))
                }
                "method" | "error" => {
                    self.is_other |= scan.read_short(4)?.as_deref() != Some(b"null")
                }
                "result" => self.result = Some(Outline::read(scan)?),
                _ => return scan.skip().map(drop),
            }
            Ok(())
        })
    }
}

/// What is known of a result without reading it again.
#[derive(Debug, Default)]
struct Outline {
    whole: Range<u64>,
    /// Its members by where their values are; none if there are too many.
    members: Option<Vec<(String, Range<u64>)>>,
    failed: bool,
    kind: Option<String>,
    meta: Option<Raw>,
}

impl Outline {
    fn read(scan: &mut JsonScanner<impl BufRead>) -> io::Result<Self> {
        if scan.peek()? != b'{' {
            return Ok(Self { whole: scan.skip()?, ..Self::default() });
        }
        let begin = scan.at();
        let mut members = Some(Vec::new());
        let mut outline = Self::default();
        scan.members(|scan, key| {
            scan.peek()?;
            let begin = scan.at();
            match key {
                "isError" => outline.failed = scan.read_short(4)?.as_deref() == Some(b"true"),
                "resultType" => {
                    outline.kind = scan.read_short(SHORT)?.and_then(|kind| parsed(&kind))
                }
                "_meta" => outline.meta = scan.read_short(SHORT)?.and_then(|meta| parsed(&meta)),
                _ => scan.skip().map(drop)?,
            }
            members = members.take().filter(|members| members.len() < MOST_MEMBERS);
            if let Some(members) = &mut members {
                members.push((key.to_owned(), begin..scan.at()));
            }
            Ok(())
        })?;
        Ok(Self { whole: begin..scan.at(), members, ..outline })
    }
}

fn parsed<T: DeserializeOwned>(json: &[u8]) -> Option<T> {
    serde_json::from_slice(json).ok()
}

/// The text that is read; bytes that are not UTF-8 become replacement characters.
fn text(mut input: impl Read, size: u64) -> io::Result<String> {
    let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or_default());
    input.read_to_end(&mut bytes)?;
    Ok(String::from_utf8(bytes)
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()))
}

/// A result on disk.
#[derive(Debug)]
pub(super) struct Stored {
    spill: Arc<Spill>,
    /// What it is made of.
    parts: Vec<Part>,
    result: Outline,
}

#[derive(Debug, Clone)]
enum Part {
    Disk(Range<u64>),
    Memory(Vec<u8>),
}

impl Part {
    fn bytes(&self) -> u64 {
        match self {
            Self::Disk(part) => part.end - part.start,
            Self::Memory(bytes) => bytes.len() as u64,
        }
    }
}

impl Stored {
    /// Whether these are questions.
    pub(super) fn asks(&self) -> bool {
        self.result.kind.as_deref() == Some("input_required")
    }

    /// Takes out what belongs to the era and not to the result.
    pub(super) fn without_era(mut self) -> Self {
        let Some(members) = &mut self.result.members else { return self };
        let complete = self.result.kind.as_deref() == Some("complete");
        let mut own = self.result.meta.as_deref().and_then(RawObject::parse).unwrap_or_default();
        let introduced = own.get(SERVER_INFO_KEY).is_some();
        if !complete && !introduced {
            return self;
        }
        own.remove(SERVER_INFO_KEY);
        let kept = (!own.is_empty()).then(|| own.to_raw());
        members
            .retain(|(key, _)| !(complete && key == "resultType" || introduced && key == "_meta"));
        let mut parts = Vec::new();
        for (key, value) in members {
            parts.push(Part::Memory(format!(",{}:", raw(key)).into_bytes()));
            parts.push(Part::Disk(value.clone()));
        }
        if introduced {
            if let Some(meta) = &kept {
                parts.push(Part::Memory(format!(",\"_meta\":{meta}").into_bytes()));
            }
            self.result.meta = kept;
        }
        match parts.first_mut() {
            Some(Part::Memory(first)) => first.splice(..1, *b"{"),
            _ => return self,
        };
        parts.push(Part::Memory(b"}".to_vec()));
        Self { parts, ..self }
    }

    /// Brings it into memory, if that may hold it.
    pub(super) async fn load(self) -> Result<Raw, Failure> {
        let loading = tokio::task::spawn_blocking(move || load(&self, LARGEST as u64));
        match loading.await {
            Ok(Ok(result)) => Ok(result),
            Ok(Err(error @ SpoolError::TooLarge { .. })) => {
                Err(Failure::refused(RpcError::new(code::INTERNAL_ERROR, error.to_string())))
            }
            Ok(Err(error)) => Err(Failure::Broken(error.to_string())),
            Err(error) => Err(Failure::Broken(format!("its answer cannot be read: {error}"))),
        }
    }
}

impl SpooledResult for Stored {
    fn bytes(&self) -> u64 {
        self.parts.iter().map(Part::bytes).sum()
    }

    fn failed(&self) -> bool {
        self.result.failed
    }

    fn meta(&self) -> Option<Raw> {
        self.result.meta.clone()
    }

    fn read(&self, mut from: u64) -> io::Result<Box<dyn Read + Send>> {
        let mut all: Box<dyn Read + Send> = Box::new(io::empty());
        for part in &self.parts {
            let skipped = part.bytes().min(from);
            from -= skipped;
            all = match part.clone() {
                Part::Disk(part) => {
                    Box::new(all.chain(self.spill.read(part.start + skipped..part.end)))
                }
                Part::Memory(mut bytes) => {
                    drop(bytes.drain(..usize::try_from(skipped).unwrap_or(bytes.len())));
                    Box::new(all.chain(io::Cursor::new(bytes)))
                }
            };
        }
        Ok(all)
    }
}

/// The result of a request, wherever it is.
#[derive(Debug)]
pub(super) enum Taken {
    /// In memory.
    Raw(Raw),
    /// On disk.
    Stored(Stored),
}

impl Taken {
    /// Brings it into memory, if that may hold it.
    pub(super) async fn load(self) -> Result<Raw, Failure> {
        match self {
            Self::Raw(raw) => Ok(raw),
            Self::Stored(stored) => stored.load().await,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{io::Read as _, sync::Arc};

    use muster_core::spooled::SpooledResult as _;

    use super::{LARGEST, Long, Stored};
    use crate::disk::Disk;

    fn long(message: &str) -> Long {
        let mut spill = Arc::new(Disk::default()).begin().unwrap();
        spill.write(message.as_bytes()).unwrap();
        Long::read(spill).unwrap()
    }

    fn result(result: &str) -> Stored {
        match long(&format!(r#"{{"jsonrpc":"2.0","id":7,"result": {result} }}"#)) {
            Long::Answer { id: Some(7), result } => result,
            other => panic!("{other:?}"),
        }
    }

    fn json(stored: &Stored, from: u64) -> String {
        let mut text = String::new();
        stored.read(from).unwrap().read_to_string(&mut text).unwrap();
        text
    }

    #[test]
    fn only_good_answers_stay_on_disk() {
        let answers = [r#"{"result":[],"id":"7"}"#, r#"{"id":7,"error":null,"result":null}"#];
        for message in answers {
            assert!(matches!(long(message), Long::Answer { id: Some(7), .. }), "{message}");
        }
        let others = [
            r#"[{"id":1,"result":{}}]"#,
            r#"{"id":1,"method":"ping","params":{}}"#,
            r#"{"id":1,"error":{"code":1}}"#,
            r#"{"id":1,"result":{"#,
            "nope",
        ];
        for message in others {
            assert!(matches!(long(message), Long::Other(text) if text == message), "{message}");
        }
    }

    #[test]
    fn a_result_is_read_as_it_was_written() {
        let written = r#"{ "content" : [1.0, "é\u0041"],"isError": true ,"_meta":{"a":1}}"#;
        let stored = result(written);
        assert!(stored.failed() && !stored.asks());
        assert_eq!(stored.meta().unwrap().get(), r#"{"a":1}"#);
        assert_eq!(stored.bytes(), written.len() as u64);
        let stored = stored.without_era();
        assert_eq!(json(&stored, 0), written);
        assert_eq!(Some(&*json(&stored, 5)), written.get(5..));
        assert!(result(r#"{"resultType":"input_required"}"#).asks());
    }

    #[test]
    fn what_belongs_to_the_era_is_taken_out() {
        let cases = [
            (
                r#"{"resultType":"complete","content":[ 1 ],"x":null}"#,
                r#"{"content":[ 1 ],"x":null}"#,
            ),
            (
                r#"{"a":1,"_meta":{"io.modelcontextprotocol/serverInfo":{},"b":2}}"#,
                r#"{"a":1,"_meta":{"b":2}}"#,
            ),
            (r#"{"a":1,"_meta":{"io.modelcontextprotocol/serverInfo":{}}}"#, r#"{"a":1}"#),
            (r#"{"resultType":"other","a":1}"#, r#"{"resultType":"other","a":1}"#),
        ];
        for (from, to) in cases {
            let stored = result(from).without_era();
            assert_eq!(json(&stored, 0), to);
            assert_eq!(Some(&*json(&stored, 3)), to.get(3..));
            assert_eq!(stored.bytes(), to.len() as u64);
        }
    }

    #[tokio::test]
    async fn a_result_comes_back_into_memory() {
        let written = r#"{ "content":[] }"#;
        assert_eq!(result(written).load().await.unwrap().get(), written);
        assert!(result(r#"{"a":nonsense}"#).load().await.is_err());
        let long = format!(r#"{{"a":"{}"}}"#, "x".repeat(LARGEST));
        let failure = result(&long).load().await.unwrap_err().to_string();
        assert_eq!(failure, "its answer is larger than 64 MiB; ask for less of it at a time");
    }
}
