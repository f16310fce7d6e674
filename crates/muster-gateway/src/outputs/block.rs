//! Content blocks of a stored output that are not text, such as images.

use std::{io::Read as _, ops::Range};

use muster_core::{json::Raw, spooled::MEMORY_LIMIT};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::{OutputBody, OutputKind, StoredOutput};

/// A content block to store.
#[derive(Debug)]
pub struct NewBlock {
    /// Its description.
    pub about: BlockAbout,
    /// The block as the tool wrote it.
    pub json: OutputBody,
}

/// The description of a content block.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BlockAbout {
    /// Its type, such as `image`.
    pub r#type: String,
    /// The URI of a resource.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uri: Option<String>,
    /// Its media type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<String>,
    /// The size of its Base64 data or text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data_size: Option<u64>,
}

/// A stored content block.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct StoredBlock {
    /// Its description.
    #[serde(flatten)]
    pub about: BlockAbout,
    /// Its byte range in the file.
    pub(super) place: Range<u64>,
}

impl StoredOutput {
    /// The number of its only block, if the output has nothing else.
    pub(crate) fn only_block(&self) -> Option<u64> {
        let alone = matches!(self.kind, OutputKind::Binary { .. }) && self.blocks.len() == 1;
        alone.then_some(1)
    }

    /// A content block as the tool wrote it, from 1. The error is a message for the caller.
    pub fn block(&self, number: u64) -> Result<Raw, String> {
        let at = usize::try_from(number).ok().and_then(|number| number.checked_sub(1));
        let (handle, count) = (&self.handle, self.blocks.len());
        let Some(StoredBlock { place, .. }) = at.and_then(|at| self.blocks.get(at)) else {
            return Err(match count {
                0 => format!("`{handle}` has no blocks; leave out `block`"),
                1 => format!("`{handle}` has one block; pass block: 1"),
                _ => format!("`{handle}` has {count} blocks; pass `block` from 1 to {count}"),
            });
        };
        let bytes = place.end - place.start;
        if bytes > MEMORY_LIMIT {
            let limit = MEMORY_LIMIT / 1024 / 1024;
            return Err(format!(
                "block {number} of `{handle}` has {bytes} bytes, and a reply at most {limit} MiB; ask the tool \
                 for a smaller one"
            ));
        }
        let mut json = String::new();
        let read = self.part(place).and_then(|mut part| part.read_to_string(&mut json));
        let block = read.and_then(|_| Ok(RawValue::from_string(json)?));
        block.map_err(|error| format!("cannot read block {number} of `{handle}`: {error}"))
    }
}
