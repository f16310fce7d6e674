//! The scanner of long JSON documents, compared with the parser of short ones.

use std::io::{BufReader, Cursor};

use muster_core::json::scan::JsonScanner;
use serde_json::value::RawValue;

use super::FuzzTarget;

/// Values are cut wherever a buffer ends.
const BUFFER: usize = 5;

pub(super) const TARGET: FuzzTarget = FuzzTarget {
    name: "json-scan",
    seeds: &[
        r#"{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"a\"b\\"}],"n":-1.5e3}}"#,
        r#" [ 1 , [true,false,null], {"a":{"b":[]}}, "\u00e9\ud83d\ude00" ] "#,
        "\"text\"",
    ],
    tokens: &[
        "{", "}", "[", "]", ",", ":", "\"", "\\\"", "\\\\", "\\u0041", "null", "true", "-0", "1e5",
        " ", "\n", "\"a\":", "[[", "{}",
    ],
    execute,
};

fn execute(input: &str) -> Result<bool, String> {
    let is_valid = serde_json::from_str::<&RawValue>(input).is_ok();
    let reader = BufReader::with_capacity(BUFFER, Cursor::new(input.as_bytes()));
    let mut scanner = JsonScanner::new(reader, 0);
    let mut bytes = Vec::new();
    let skipped = scanner.skip_into(&mut |chunk| bytes.extend_from_slice(chunk));
    if !is_valid {
        return Ok(false);
    }
    let range = skipped.map_err(|error| format!("a valid document is refused: {error}"))?;
    let white = [' ', '\t', '\r', '\n'];
    let document = input.trim_matches(white);
    let begin = input.len() - input.trim_start_matches(white).len();
    let expected = (begin as u64)..((begin + document.len()) as u64);
    if range != expected || bytes != document.as_bytes() {
        return Err(format!("the document is at {expected:?}, and was found at {range:?}"));
    }
    match scanner.is_at_end() {
        Ok(true) => Ok(true),
        _ => Err("something is left behind the document".to_owned()),
    }
}
