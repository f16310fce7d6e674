//! Spooled messages and results, read without loading them.

use std::{
    io::{self, BufRead, BufReader, Read},
    ops::Range,
    sync::Arc,
};

use muster_core::{
    json::{Raw, RawObject, raw, scan::JsonScanner},
    spooled::{SpooledLoadError, SpooledResult, load},
};
use muster_mcp::{
    version::SERVER_INFO_KEY,
    wire::{RpcError, code},
};
use serde::de::DeserializeOwned;
use tracing::debug;

use crate::{
    error::{MAX_IN_MEMORY, TransportError},
    message::request_number,
    spool::SpoolFile,
};

/// The read buffer.
const CHUNK: usize = 64 * 1024;
/// Ids, types and metadata that are longer are ignored.
const MAX_SHORT_VALUE: usize = 64 * 1024;
/// How much of a file that is not a message is returned, for the log.
const EXCERPT: u64 = 1024;
/// A result with more members is passed on unchanged.
const MAX_MEMBERS: usize = 64;

/// A spooled message, classified.
#[derive(Debug)]
pub(crate) enum SpooledMessage {
    /// The result of one of our requests; it stays on disk.
    Result { id: Option<u64>, result: StoredResult },
    /// Any other message, loaded into memory.
    Other(String),
    /// Any other message that is too long for memory, and the request it responds to.
    TooLarge(Option<u64>),
}

impl SpooledMessage {
    /// Classifies a message. Reads the whole file.
    pub(crate) fn read(file: SpoolFile) -> io::Result<Self> {
        let size = file.size();
        let file = Arc::new(file);
        let is_batch = file.chunk(0, CHUNK)?.trim_ascii_start().first() == Some(&b'[');
        let envelope = match is_batch {
            true => Envelope::default(),
            false => match Envelope::read(&file) {
                Ok(envelope) => envelope,
                Err(error) => {
                    debug!("a spooled message is not JSON: {error}");
                    return text(file.read(0..EXCERPT), EXCERPT).map(Self::Other);
                }
            },
        };
        let id = envelope.id.as_deref().and_then(request_number);
        match envelope.result {
            Some(result) if !envelope.has_method && !envelope.has_error => {
                let parts = vec![Part::Disk(result.range.clone())];
                Ok(Self::Result { id, result: StoredResult { file, parts, outline: result } })
            }
            _ if size > MAX_IN_MEMORY as u64 => Ok(Self::TooLarge(id)),
            _ => text(file.read(0..size), size).map(Self::Other),
        }
    }
}

/// The top-level members of a spooled message.
#[derive(Debug, Default)]
pub(crate) struct Envelope {
    pub(crate) id: Option<Raw>,
    pub(crate) has_method: bool,
    pub(crate) has_error: bool,
    result: Option<ResultOutline>,
}

impl Envelope {
    /// Reads the whole file; fails if it is not a JSON object.
    pub(crate) fn read(file: &SpoolFile) -> io::Result<Self> {
        let reader = BufReader::with_capacity(CHUNK, file.read_all());
        let mut scan = JsonScanner::new(reader, 0);
        let mut found = Self::default();
        let is_present = |value: Option<Vec<u8>>| value.as_deref() != Some(b"null");
        scan.members(|scan, key| {
            match key {
                "id" => found.id = scan.read_short(MAX_SHORT_VALUE)?.and_then(|id| parsed(&id)),
                "method" => found.has_method |= is_present(scan.read_short(4)?),
                "error" => found.has_error |= is_present(scan.read_short(4)?),
                "result" => found.result = Some(ResultOutline::read(scan)?),
                _ => return scan.skip().map(drop),
            }
            Ok(())
        })?;
        Ok(found)
    }
}

/// The outline of a result, from a scan of its file.
#[derive(Debug, Default)]
struct ResultOutline {
    range: Range<u64>,
    /// The members with the position of their values; `None` if there are too many.
    members: Option<Vec<(String, Range<u64>)>>,
    failed: bool,
    kind: Option<String>,
    meta: Option<Raw>,
}

impl ResultOutline {
    fn read(scan: &mut JsonScanner<impl BufRead>) -> io::Result<Self> {
        if scan.peek()? != b'{' {
            return Ok(Self { range: scan.skip()?, ..Self::default() });
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
                    outline.kind = scan.read_short(MAX_SHORT_VALUE)?.and_then(|kind| parsed(&kind));
                }
                "_meta" => {
                    outline.meta = scan.read_short(MAX_SHORT_VALUE)?.and_then(|meta| parsed(&meta));
                }
                _ => scan.skip().map(drop)?,
            }
            members = members.take().filter(|members| members.len() < MAX_MEMBERS);
            if let Some(members) = &mut members {
                members.push((key.to_owned(), begin..scan.at()));
            }
            Ok(())
        })?;
        Ok(Self { range: begin..scan.at(), members, ..outline })
    }
}

fn parsed<T: DeserializeOwned>(json: &[u8]) -> Option<T> {
    serde_json::from_slice(json).ok()
}

/// Reads text; bytes that are not UTF-8 become replacement characters.
fn text(mut input: impl Read, size: u64) -> io::Result<String> {
    let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or_default());
    input.read_to_end(&mut bytes)?;
    Ok(String::from_utf8(bytes)
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()))
}

/// A result that stays on disk.
#[derive(Debug)]
pub(crate) struct StoredResult {
    file: Arc<SpoolFile>,
    /// The pieces of its text, in order.
    parts: Vec<Part>,
    outline: ResultOutline,
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

impl StoredResult {
    /// Whether the upstream requires input from the client.
    pub(crate) fn requires_input(&self) -> bool {
        self.outline.kind.as_deref() == Some("input_required")
    }

    /// Removes the members that belong to the protocol era and not to the result.
    pub(crate) fn without_era(mut self) -> Self {
        let Some(members) = &mut self.outline.members else { return self };
        let complete = self.outline.kind.as_deref() == Some("complete");
        let mut own = self.outline.meta.as_deref().and_then(RawObject::parse).unwrap_or_default();
        let has_server_info = own.get(SERVER_INFO_KEY).is_some();
        if !complete && !has_server_info {
            return self;
        }
        own.remove(SERVER_INFO_KEY);
        let rest = (!own.is_empty()).then(|| own.to_raw());
        members.retain(|(key, _)| {
            !(complete && key == "resultType" || has_server_info && key == "_meta")
        });
        let mut parts = Vec::new();
        for (key, value) in members {
            parts.push(Part::Memory(format!(",{}:", raw(key)).into_bytes()));
            parts.push(Part::Disk(value.clone()));
        }
        if has_server_info {
            if let Some(meta) = &rest {
                parts.push(Part::Memory(format!(",\"_meta\":{meta}").into_bytes()));
            }
            self.outline.meta = rest;
        }
        match parts.first_mut() {
            Some(Part::Memory(first)) => first.splice(..1, *b"{"),
            _ => return self,
        };
        parts.push(Part::Memory(b"}".to_vec()));
        Self { parts, ..self }
    }

    /// Loads the result into memory, if it is not longer than [`MAX_IN_MEMORY`].
    pub(crate) async fn load(self) -> Result<Raw, TransportError> {
        let loading = tokio::task::spawn_blocking(move || load(&self, MAX_IN_MEMORY as u64));
        match loading.await {
            Ok(Ok(result)) => Ok(result),
            Ok(Err(error @ SpooledLoadError::TooLarge { .. })) => {
                let error = RpcError::new(code::INTERNAL_ERROR, error.to_string());
                Err(TransportError::refused(error))
            }
            Ok(Err(error)) => Err(TransportError::Invalid(error.to_string())),
            Err(error) => {
                Err(TransportError::Invalid(format!("its answer cannot be read: {error}")))
            }
        }
    }
}

impl SpooledResult for StoredResult {
    fn bytes(&self) -> u64 {
        self.parts.iter().map(Part::bytes).sum()
    }

    fn failed(&self) -> bool {
        self.outline.failed
    }

    fn meta(&self) -> Option<Raw> {
        self.outline.meta.clone()
    }

    fn read(&self, mut from: u64) -> io::Result<Box<dyn Read + Send>> {
        let mut all: Box<dyn Read + Send> = Box::new(io::empty());
        for part in &self.parts {
            let skipped = part.bytes().min(from);
            from -= skipped;
            all = match part.clone() {
                Part::Disk(part) => {
                    Box::new(all.chain(self.file.read(part.start + skipped..part.end)))
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

/// The result of a request.
#[derive(Debug)]
pub(crate) enum ResultBody {
    /// In memory.
    Inline(Raw),
    /// On disk.
    Spooled(StoredResult),
}

impl ResultBody {
    /// Loads the result into memory, if it is not longer than [`MAX_IN_MEMORY`].
    pub(crate) async fn load(self) -> Result<Raw, TransportError> {
        match self {
            Self::Inline(raw) => Ok(raw),
            Self::Spooled(result) => result.load().await,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{io::Read as _, sync::Arc};

    use muster_core::spooled::SpooledResult as _;

    use super::{MAX_IN_MEMORY, SpooledMessage, StoredResult};
    use crate::spool::Spool;

    fn spooled(message: &str) -> SpooledMessage {
        let mut file = Arc::new(Spool::default()).create().unwrap();
        file.write(message.as_bytes()).unwrap();
        SpooledMessage::read(file).unwrap()
    }

    fn result(result: &str) -> StoredResult {
        match spooled(&format!(r#"{{"jsonrpc":"2.0","id":7,"result": {result} }}"#)) {
            SpooledMessage::Result { id: Some(7), result } => result,
            other => panic!("{other:?}"),
        }
    }

    fn json(stored: &StoredResult, from: u64) -> String {
        let mut text = String::new();
        stored.read(from).unwrap().read_to_string(&mut text).unwrap();
        text
    }

    #[test]
    fn only_results_stay_on_disk() {
        let results = [r#"{"result":[],"id":"7"}"#, r#"{"id":7,"error":null,"result":null}"#];
        for message in results {
            assert!(
                matches!(spooled(message), SpooledMessage::Result { id: Some(7), .. }),
                "{message}"
            );
        }
        let others = [
            r#"[{"id":1,"result":{}}]"#,
            r#"{"id":1,"method":"ping","params":{}}"#,
            r#"{"id":1,"error":{"code":1}}"#,
            r#"{"id":1,"result":{"#,
            "nope",
        ];
        for message in others {
            assert!(
                matches!(spooled(message), SpooledMessage::Other(text) if text == message),
                "{message}"
            );
        }
    }

    #[test]
    fn a_result_is_read_byte_for_byte() {
        let written = r#"{ "content" : [1.0, "é\u0041"],"isError": true ,"_meta":{"a":1}}"#;
        let stored = result(written);
        assert!(stored.failed() && !stored.requires_input());
        assert_eq!(stored.meta().unwrap().get(), r#"{"a":1}"#);
        assert_eq!(stored.bytes(), written.len() as u64);
        let stored = stored.without_era();
        assert_eq!(json(&stored, 0), written);
        assert_eq!(Some(&*json(&stored, 5)), written.get(5..));
        assert!(result(r#"{"resultType":"input_required"}"#).requires_input());
    }

    #[test]
    fn members_of_the_era_are_removed() {
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
    async fn a_result_is_loaded_into_memory() {
        let written = r#"{ "content":[] }"#;
        assert_eq!(result(written).load().await.unwrap().get(), written);
        assert!(result(r#"{"a":nonsense}"#).load().await.is_err());
        let long = format!(r#"{{"a":"{}"}}"#, "x".repeat(MAX_IN_MEMORY));
        let failure = result(&long).load().await.unwrap_err().to_string();
        assert_eq!(failure, "its answer is larger than 64 MiB; ask for less of it at a time");
    }
}
