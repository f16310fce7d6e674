//! The bytes of a segment: a header, then frames, each with its length and checksum.
//!
//! A frame is a text that later frames refer to by its number, or a call. Names repeat all the time, so that a call
//! without arguments takes about fifty bytes. A segment needs no other file to be read.

use muster_core::{call::Role, effect::Effect, observer::CallStatus};

/// The first bytes of a segment: the format with its version.
const MAGIC: [u8; 8] = *b"mstcall1";
/// The length of the header: the format, and the id of the first call.
pub(super) const HEADER: usize = 16;
/// The length of a frame's head.
const FRAME_HEAD: usize = 8;
/// The longest frame.
const MAX_FRAME: usize = 256 * 1024;
/// The kinds of frames.
const TEXT: u8 = 1;
const CALL: u8 = 2;
/// The number of names of a call.
pub(super) const NAMES: usize = 6;

/// A call in a segment, with its names as texts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct StoredCall<'a> {
    pub(super) id: u64,
    /// When it began, in microseconds since 1970.
    pub(super) began: u64,
    pub(super) micros: u64,
    /// How long the backend took; none if it was not reached.
    pub(super) backend_micros: Option<u64>,
    pub(super) status: CallStatus,
    pub(super) effect: Option<Effect>,
    pub(super) role: Role,
    pub(super) depth: u8,
    pub(super) argument_bytes: u64,
    pub(super) result_bytes: u64,
    pub(super) subject: &'a str,
    pub(super) token: &'a str,
    pub(super) surface: &'a str,
    pub(super) server: &'a str,
    pub(super) tool: &'a str,
    pub(super) rule: &'a str,
    pub(super) error: &'a str,
    pub(super) arguments: &'a str,
}

/// The header of a segment whose first call has this id.
pub(super) fn header(first: u64) -> [u8; HEADER] {
    let mut bytes = [0; HEADER];
    let (magic, id) = bytes.split_at_mut(MAGIC.len());
    magic.copy_from_slice(&MAGIC);
    id.copy_from_slice(&first.to_le_bytes());
    bytes
}

/// The id of the first call of a segment; none if the bytes are no segment.
pub(super) fn first_id(bytes: &[u8]) -> Option<u64> {
    let rest = bytes.strip_prefix(&MAGIC)?;
    rest.first_chunk::<8>().map(|id| u64::from_le_bytes(*id))
}

/// The numbers of the names of a call. `number` finds that of a text in this segment, or none for a new one: then the
/// frame of the text is written.
pub(super) fn number_names<'a>(
    out: &mut Vec<u8>,
    call: &StoredCall<'a>,
    mut number: impl FnMut(&'a str) -> Result<u64, u64>,
) -> [u64; NAMES] {
    let names = [call.subject, call.token, call.surface, call.server, call.tool, call.rule];
    names.map(|name| match number(name) {
        Ok(known) => known,
        Err(new) => {
            frame(out, |out| {
                out.push(TEXT);
                out.extend_from_slice(name.as_bytes());
            });
            new
        }
    })
}

/// Writes the frame of a call whose names have these numbers.
pub(super) fn encode(out: &mut Vec<u8>, call: &StoredCall<'_>, names: [u64; NAMES]) {
    frame(out, |out| {
        out.push(CALL);
        let byte = |number: usize| u8::try_from(number).unwrap_or(u8::MAX);
        let effect = call.effect.map_or(0, |effect| effect as u8 + 1);
        let role = u8::from(call.role == Role::Operator);
        out.extend_from_slice(&[byte(call.status.number()), effect, role, call.depth]);
        let backend = call.backend_micros.map_or(0, |micros| micros.saturating_add(1));
        let sizes = [call.argument_bytes, call.result_bytes];
        for value in [call.began, call.micros, backend].into_iter().chain(sizes).chain(names) {
            varint(out, value);
        }
        for text in [call.error, call.arguments] {
            varint(out, u64::try_from(text.len()).unwrap_or_default());
            out.extend_from_slice(text.as_bytes());
        }
    });
}

fn frame(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend_from_slice(&[0; FRAME_HEAD]);
    write(out);
    let Some((head, payload)) =
        out.get_mut(start..).and_then(|f| f.split_at_mut_checked(FRAME_HEAD))
    else {
        return;
    };
    let length = u32::try_from(payload.len()).unwrap_or(u32::MAX);
    let (first, second) = head.split_at_mut(4);
    first.copy_from_slice(&length.to_le_bytes());
    second.copy_from_slice(&checksum(payload).to_le_bytes());
}

fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// FNV-1a: detects what a crash or a bad disk leaves, not what somebody forges.
fn checksum(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811c_9dc5, |sum, byte| (sum ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
}

/// Reads the frames of a segment, up to the first that is incomplete or damaged.
pub(super) struct SegmentReader<'a> {
    rest: &'a [u8],
    /// The number of bytes before `rest`.
    pub(super) read: usize,
    pub(super) texts: Vec<&'a str>,
    next_id: u64,
}

impl<'a> SegmentReader<'a> {
    /// None if the bytes are no segment.
    pub(super) fn new(bytes: &'a [u8]) -> Option<Self> {
        let next_id = first_id(bytes)?;
        Some(Self { rest: bytes.get(HEADER..)?, read: HEADER, texts: Vec::new(), next_id })
    }

    /// The id of the next call.
    pub(super) const fn next_id(&self) -> u64 {
        self.next_id
    }

    fn payload(&mut self) -> Option<&'a [u8]> {
        let (length, rest) = self.rest.split_first_chunk::<4>()?;
        let (sum, rest) = rest.split_first_chunk::<4>()?;
        let length = usize::try_from(u32::from_le_bytes(*length)).ok()?;
        let (payload, rest) = rest.split_at_checked(length).filter(|_| length <= MAX_FRAME)?;
        if checksum(payload) != u32::from_le_bytes(*sum) {
            return None;
        }
        self.rest = rest;
        self.read += FRAME_HEAD + length;
        Some(payload)
    }

    fn call(&mut self, payload: &'a [u8]) -> Option<StoredCall<'a>> {
        let ([status, effect, role, depth], mut rest) = payload.split_first_chunk::<4>()?;
        let mut numbers = [0; 11];
        for slot in &mut numbers {
            *slot = take_varint(&mut rest)?;
        }
        let [began, micros, backend, argument_bytes, result_bytes, names @ ..] = numbers;
        let text = |number: u64| {
            usize::try_from(number).ok().and_then(|number| self.texts.get(number)).copied()
        };
        let [subject, token, surface, server, tool, rule] = names;
        let call = StoredCall {
            id: self.next_id,
            began,
            micros,
            backend_micros: backend.checked_sub(1),
            status: *CallStatus::ALL.get(usize::from(*status))?,
            effect: match effect {
                1 => Some(Effect::Read),
                2 => Some(Effect::Write),
                3 => Some(Effect::Destructive),
                _ => None,
            },
            role: if *role == 1 { Role::Operator } else { Role::Agent },
            depth: *depth,
            argument_bytes,
            result_bytes,
            subject: text(subject)?,
            token: text(token)?,
            surface: text(surface)?,
            server: text(server)?,
            tool: text(tool)?,
            rule: text(rule)?,
            error: take_text(&mut rest)?,
            arguments: take_text(&mut rest)?,
        };
        self.next_id += 1;
        Some(call)
    }
}

impl<'a> Iterator for SegmentReader<'a> {
    type Item = StoredCall<'a>;

    fn next(&mut self) -> Option<StoredCall<'a>> {
        loop {
            match self.payload()?.split_first()? {
                (&TEXT, text) => self.texts.push(std::str::from_utf8(text).ok()?),
                (&CALL, call) => return self.call(call),
                _ => return None,
            }
        }
    }
}

fn take_varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0_u64;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

fn take_text<'a>(bytes: &mut &'a [u8]) -> Option<&'a str> {
    let length = usize::try_from(take_varint(bytes)?).ok()?;
    let (text, rest) = bytes.split_at_checked(length)?;
    *bytes = rest;
    std::str::from_utf8(text).ok()
}

#[cfg(test)]
mod tests {
    use muster_core::{call::Role, effect::Effect, observer::CallStatus};

    use super::{SegmentReader, StoredCall, encode, header, number_names};

    fn call(id: u64) -> StoredCall<'static> {
        StoredCall {
            id,
            began: 1_800_000_000_000_000 + id,
            micros: 12_345,
            backend_micros: (id != 8).then_some(0),
            status: CallStatus::Denied,
            effect: Some(Effect::Destructive),
            role: Role::Operator,
            depth: 2,
            argument_bytes: 20,
            result_bytes: u64::MAX,
            subject: "ada",
            token: "",
            surface: "meta",
            server: "github",
            tool: "x_github_delete",
            rule: "tools.github/*",
            error: "größer",
            arguments: "{\"a\":1}",
        }
    }

    fn segment() -> Vec<u8> {
        let mut bytes = header(7).to_vec();
        let mut texts: Vec<&str> = Vec::new();
        for id in 7..10 {
            let names = number_names(&mut bytes, &call(id), |text| {
                if let Some(at) = texts.iter().position(|known| *known == text) {
                    return Ok(at as u64);
                }
                texts.push(text);
                Err(texts.len() as u64 - 1)
            });
            encode(&mut bytes, &call(id), names);
        }
        bytes
    }

    #[test]
    fn calls_are_read_as_they_were_written() {
        let bytes = segment();
        let mut reader = SegmentReader::new(&bytes).unwrap();
        let read: Vec<_> = reader.by_ref().collect();
        assert_eq!(read, [call(7), call(8), call(9)]);
        assert_eq!((reader.read, reader.next_id()), (bytes.len(), 10));
    }

    #[test]
    fn damage_ends_a_segment_and_nothing_else() {
        let bytes = segment();
        let whole = |bytes: &[u8]| SegmentReader::new(bytes).map(Iterator::count);
        for length in 0..bytes.len() {
            assert!(whole(&bytes[..length]).is_none_or(|calls| calls < 3), "{length}");
        }
        for at in 16..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x55;
            assert!(whole(&damaged).is_some_and(|calls| calls < 3), "{at}");
        }
        assert_eq!(whole(b"something else, of a certain length"), None);
    }
}
