//! Joins the texts of a result into one, and checks whether it is JSON.

use std::{
    io::{self, BufRead, Read},
    ops::Range,
    sync::Arc,
};

use muster_core::{json::scan::JsonScanner, spooled::SpooledResult};

use super::outline::unescaped;

/// Reads the texts of a result one after the other, each on its own lines.
pub(super) struct JoinedTexts {
    result: Arc<dyn SpooledResult>,
    texts: std::vec::IntoIter<Range<u64>>,
    current: Option<Box<dyn Read + Send>>,
}

impl JoinedTexts {
    pub(super) fn new(result: &Arc<dyn SpooledResult>, texts: Vec<Range<u64>>) -> Self {
        Self { result: Arc::clone(result), texts: texts.into_iter(), current: None }
    }
}

impl Read for JoinedTexts {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        loop {
            if let Some(current) = &mut self.current {
                match current.read(out)? {
                    0 if !out.is_empty() => (),
                    size => return Ok(size),
                }
            }
            let Some(text) = self.texts.next() else { return Ok(0) };
            let text = unescaped(&*self.result, &text)?;
            self.current = Some(match self.current.is_some() {
                true => Box::new((&b"\n"[..]).chain(text)),
                false => Box::new(text),
            });
        }
    }
}

/// Whether a text is one JSON object or array.
pub(super) fn is_json(text: impl BufRead) -> io::Result<bool> {
    let mut scan = JsonScanner::new(text, 0);
    match scan.peek() {
        Ok(b'{' | b'[') => (),
        Ok(_) => return Ok(false),
        Err(error) => return unless_broken(error),
    }
    match scan.skip() {
        Ok(_) => scan.is_at_end(),
        Err(error) => unless_broken(error),
    }
}

/// Returns `false` for truncated or malformed JSON, which is not an I/O error.
fn unless_broken(error: io::Error) -> io::Result<bool> {
    match error.kind() {
        io::ErrorKind::UnexpectedEof | io::ErrorKind::InvalidData => Ok(false),
        _ => Err(error),
    }
}
