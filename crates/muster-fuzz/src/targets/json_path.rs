//! JSON paths and patterns of `get_output`.

use std::sync::LazyLock;

use muster_gateway::outputs::{
    NewOutput, OutputBody, OutputKind, Outputs, StoredOutput, excerpt::ExcerptRequest,
};

use super::{FuzzTarget, SAMPLE};

/// A stored output, and the directory that it is in.
static STORED: LazyLock<Option<(tempfile::TempDir, StoredOutput)>> = LazyLock::new(|| {
    let directory = tempfile::tempdir().ok()?;
    let outputs = Outputs::at(directory.path().join("outputs"));
    let body = OutputBody::Text(SAMPLE.to_string());
    let stored = outputs.keep("fuzz", NewOutput::new(OutputKind::Text, body)).ok()?;
    Some((directory, stored))
});

pub(super) const TARGET: FuzzTarget = FuzzTarget {
    name: "json-path",
    seeds: &[
        "$.items[?@.id > 3 && @.name != 'x'].tags[0:2]",
        "$..b[0]",
        "$['items'][*]['id','name']",
        "$.items[?count(@.tags[*]) == 2 || match(@.name, 'item [0-9]')]",
        "$.items[?@.id == $.deep[0][0][0][0][0][0]]",
        "$['items'][*]['name\\u",
        "$['\\ud83d\\ud",
    ],
    tokens: &[
        "$", "@", ".", "..", "*", "[", "]", "[?", "(", ")", "&&", "||", "!", "==", "<=", ",", ":",
        "'a'", "\"", "length(", "count(", "match(", "search(", "value(", "-1", "1e3", "null",
    ],
    execute,
};

fn execute(input: &str) -> Result<bool, String> {
    let Some((_, stored)) = &*STORED else { return Err("nothing could be stored".to_owned()) };
    let path = ExcerptRequest { path: Some(input.to_owned()), ..ExcerptRequest::default() };
    let grep = ExcerptRequest { grep: Some(input.to_owned()), ..ExcerptRequest::default() };
    drop(stored.look(&grep, 200));
    let selected = stored.look(&path, 200);
    Ok(selected.is_ok_and(|excerpt| !excerpt.text.is_empty() && excerpt.text != "[]"))
}
