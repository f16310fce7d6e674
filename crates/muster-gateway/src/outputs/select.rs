//! Parts of a stored JSON value, selected by a JSON path.
//!
//! The plain prefix of a path (members by name, items by index) is followed in the file, however long that
//! is. A list that it leads to is read item by item where the path continues with `[*]` or a filter. Otherwise
//! the value it leads to is parsed, for the rest of the path.

use std::{
    io::{self, BufRead, BufReader, Read as _, Seek as _, SeekFrom},
    ops::Range,
};

use muster_core::{
    json::{scan::JsonScanner, unescape::UnescapeReader},
    token_estimate,
};
use serde_json::Value;
use serde_json_path::JsonPath;

use super::{
    CHUNK, OutputKind, StoredOutput,
    excerpt::{BYTES_PER_TOKEN, Excerpt, ExcerptRequest, NextPage, valid},
    line_pattern::LinePattern,
    lines,
    path_cost::{PathCost, check_length},
    selected_lines::{ItemSelector, SelectedLines, line_of},
};

/// The longest value that is parsed.
const MOST_JSON: u64 = 16 << 20;

/// A step of the plain prefix of a path.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    Member(String),
    Item(u64),
}

impl StoredOutput {
    /// The values that a path selects, their lines, or their number.
    pub(super) fn select(
        &self,
        path: &str,
        look: &ExcerptRequest,
        grep: Option<&LinePattern>,
        budget: usize,
    ) -> Result<Excerpt, String> {
        parse(path)?;
        let (steps, rest) = plain(path);
        let rest_of_path = parse(&format!("${rest}"))?;
        let unread = |error: io::Error| match error.kind() {
            io::ErrorKind::TimedOut | io::ErrorKind::Other => format!("`{}`: {error}", self.handle),
            _ => format!("`{}` is not JSON; page it, or use grep", self.handle),
        };
        let by_line = |input: Box<dyn BufRead>| {
            lines::excerpt(input, look, grep, budget, &self.stop).map_err(unread)
        };
        let Some(range) = self.range_of(&steps).map_err(unread)? else {
            return self.shown(&[], look, grep, budget);
        };
        let (first, bytes) = (self.first_byte(&range).map_err(unread)?, range.end - range.start);
        let is_list = first == Some(b'[');
        if rest.is_empty() && (look.is_by_line() || bytes > MOST_JSON) && !look.count {
            if first != Some(b'"') {
                return by_line(self.json_by_line(&range, is_list).map_err(unread)?);
            }
            return match look.is_by_line() {
                true => by_line(Box::new(self.text_at(&range).map_err(unread)?)),
                false => self.page_of_text(&range, look, budget).map_err(unread),
            };
        }
        if rest.is_empty() && look.count {
            return match (grep, first) {
                (None, _) => self.length(&range).map_err(unread),
                (Some(_), Some(b'"')) => by_line(Box::new(self.text_at(&range).map_err(unread)?)),
                (Some(_), _) => by_line(self.json_by_line(&range, is_list).map_err(unread)?),
            };
        }
        let cost = PathCost::of(&format!("${rest}"))?;
        // Read item by item, which takes neither memory nor time for items that are not needed.
        if (look.is_by_line() || bytes > MOST_JSON) && is_list && takes_each_item(rest) {
            let part = self.part(&range).map_err(unread)?;
            let each = rest.strip_prefix("[*]").map(plain).filter(|(_, rest)| rest.is_empty());
            let selector = match each {
                Some((steps, _)) => ItemSelector::Steps(steps),
                None => ItemSelector::Path { path: rest_of_path, cost },
            };
            let lines = SelectedLines::new(part, selector).stopped_by(&self.stop);
            return by_line(Box::new(BufReader::with_capacity(CHUNK, lines)));
        }
        if bytes <= MOST_JSON {
            let part = self.part(&range).map_err(unread)?;
            let value: Value =
                serde_json::from_reader(part).map_err(|error| unread(error.into()))?;
            if let (Value::Array(items), true) = (&value, takes_each_item(rest)) {
                let found = self.select_in_items(items, &rest_of_path, &cost)?;
                return self.shown(&found.iter().collect::<Vec<_>>(), look, grep, budget);
            }
            cost.check(&value)?;
            return self.shown(&rest_of_path.query(&value).all(), look, grep, budget);
        }
        Err(format!(
            "what `{path}` searches is too long ({bytes} bytes); go deeper, such as [0] or .name, take the \
             items of a list with [*] or [?@.name == \"x\"], or use grep"
        ))
    }

    /// Evaluates a path on each item of a list separately, so that the job can be stopped between two items.
    fn select_in_items(
        &self,
        items: &[Value],
        path: &JsonPath,
        cost: &PathCost,
    ) -> Result<Vec<Value>, String> {
        let mut found = Vec::new();
        for item in items {
            self.stop.check().map_err(|error| format!("`{}`: {error}", self.handle))?;
            let alone = Value::Array(vec![item.clone()]);
            cost.check(&alone)?;
            found.extend(path.query(&alone).all().into_iter().cloned());
        }
        Ok(found)
    }

    /// The JSON value that paths select from.
    fn json(&self) -> Range<u64> {
        self.structure.clone().unwrap_or(0..self.bytes)
    }

    /// The range that plain steps lead to.
    fn range_of(&self, steps: &[Step]) -> io::Result<Option<Range<u64>>> {
        let json = self.json();
        if self.structure.is_none() && matches!(self.kind, OutputKind::Binary { .. }) {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let mut scan = JsonScanner::new(self.part(&json)?, json.start);
        let range = follow(&mut scan, steps)?;
        if scan.is_at_end()? { Ok(range) } else { Err(io::ErrorKind::InvalidData.into()) }
    }

    /// The number of items or members of a value; 1 for anything else.
    fn length(&self, range: &Range<u64>) -> io::Result<Excerpt> {
        let mut scan = JsonScanner::new(self.part(range)?, 0);
        let mut length = 0_u64;
        match scan.peek()? {
            b'[' => scan.items(|scan| {
                length += 1;
                scan.skip().map(drop)
            })?,
            b'{' => scan.members(|scan, _| {
                length += 1;
                scan.skip().map(drop)
            })?,
            _ => length = 1,
        }
        Ok(Excerpt {
            text: length.to_string(),
            note: "1 selected".to_owned(),
            next: None,
            ..Excerpt::default()
        })
    }

    pub(super) fn first_byte(&self, range: &Range<u64>) -> io::Result<Option<u8>> {
        Ok(self.part(range)?.fill_buf()?.first().copied())
    }

    /// The contents of a JSON text.
    fn text_at(&self, range: &Range<u64>) -> io::Result<impl BufRead + use<>> {
        let inside = self.part(&(range.start + 1..range.end.saturating_sub(1)))?;
        Ok(BufReader::with_capacity(CHUNK, UnescapeReader::new(inside)))
    }

    /// A page of a text that is too long to be parsed.
    fn page_of_text(
        &self,
        range: &Range<u64>,
        look: &ExcerptRequest,
        budget: usize,
    ) -> io::Result<Excerpt> {
        let mut text = self.text_at(range)?;
        let skipped = look.offset.unwrap_or(0);
        io::copy(&mut text.by_ref().take(skipped), &mut io::sink())?;
        let most = (budget * BYTES_PER_TOKEN) as u64;
        let mut bytes = Vec::new();
        text.by_ref().take(most).read_to_end(&mut bytes)?;
        let at_end = text.read(&mut [0])? == 0;
        let page = valid(&bytes, at_end);
        let piece = token_estimate::prefix(&page, budget);
        let more = !at_end || piece.len() < page.len();
        let next =
            (more && !piece.is_empty()).then(|| NextPage::Offset(skipped + piece.len() as u64));
        let note = format!("1 selected, {} bytes as written", range.end - range.start);
        Ok(Excerpt { text: piece.to_owned(), note, next, ..Excerpt::default() })
    }

    pub(super) fn part(&self, part: &Range<u64>) -> io::Result<impl BufRead + use<>> {
        let mut file = self.open()?;
        file.seek(SeekFrom::Start(part.start))?;
        Ok(BufReader::with_capacity(CHUNK, file.take(part.end.saturating_sub(part.start))))
    }

    /// The selected values within the budget, or an excerpt of their lines.
    fn shown(
        &self,
        found: &[&Value],
        look: &ExcerptRequest,
        grep: Option<&LinePattern>,
        budget: usize,
    ) -> Result<Excerpt, String> {
        let selects_nothing = found.is_empty();
        if !look.is_by_line() {
            return Ok(Excerpt { selects_nothing, ..whole(found, look, budget) });
        }
        let lines = match found {
            [Value::String(text)] => text.clone(),
            [Value::Array(items)] => items.iter().map(|item| line_of(item) + "\n").collect(),
            [value @ Value::Object(_)] => serde_json::to_string_pretty(value).unwrap_or_default(),
            all => all.iter().map(|value| line_of(value) + "\n").collect(),
        };
        let excerpt = lines::excerpt(lines.as_bytes(), look, grep, budget, &self.stop)
            .map_err(|error| format!("`{}`: {error}", self.handle))?;
        Ok(Excerpt { selects_nothing, ..excerpt })
    }
}

/// Parses a path. The error is a message for the caller.
pub(super) fn parse(path: &str) -> Result<JsonPath, String> {
    check_length(path)?;
    // The parser panics where a path ends within such an escape.
    if path.rsplit_once("\\u").is_some_and(|(_, rest)| rest.len() < 2) {
        return Err("path ends within an escape: `\\u` needs four hexadecimal digits".to_owned());
    }
    JsonPath::parse(path)
        .map_err(|error| format!("path must be a JSON path such as $.items[0].name: {error}"))
}

/// Whether a path can be evaluated on each item of a list separately: it begins with `[*]` or with one filter, and does
/// not refer to the root.
fn takes_each_item(path: &str) -> bool {
    if path.contains('$') {
        return false;
    }
    if path.starts_with("[*]") {
        return true;
    }
    let Some(filter) = path.strip_prefix("[?") else { return false };
    let (mut depth, mut quote, mut escaped) = (0_usize, None, false);
    for sign in filter.chars() {
        if std::mem::take(&mut escaped) {
            continue;
        }
        match (sign, quote) {
            ('\\', Some(_)) => escaped = true,
            (sign, Some(open)) if sign == open => quote = None,
            (_, Some(_)) => (),
            ('\'' | '"', None) => quote = Some(sign),
            ('(' | '[', None) => depth += 1,
            (')', None) => depth = depth.saturating_sub(1),
            (']', None) if depth == 0 => return true,
            (']', None) => depth -= 1,
            // Another selector follows, which may count items.
            (',', None) if depth == 0 => return false,
            _ => (),
        }
    }
    false
}

/// Scans one value for the range that steps lead to.
pub(super) fn follow(
    scan: &mut JsonScanner<impl BufRead>,
    steps: &[Step],
) -> io::Result<Option<Range<u64>>> {
    let first = scan.peek()?;
    let mut found = None;
    match steps.split_first() {
        None => return scan.skip().map(Some),
        Some((Step::Member(name), rest)) if first == b'{' => {
            // Of duplicate keys, the last one wins.
            scan.members(|scan, key| {
                if key == name {
                    found = follow(scan, rest)?;
                    return Ok(());
                }
                scan.skip().map(drop)
            })?;
        }
        Some((Step::Item(number), rest)) if first == b'[' => {
            let mut at = 0;
            scan.items(|scan| {
                at += 1;
                if at - 1 == *number {
                    found = follow(scan, rest)?;
                    return Ok(());
                }
                scan.skip().map(drop)
            })?;
        }
        Some(_) => scan.skip().map(drop)?,
    }
    Ok(found)
}

/// The plain prefix of a path, and the rest. A rest that refers to the root needs the whole value.
fn plain(path: &str) -> (Vec<Step>, &str) {
    let whole = path.strip_prefix('$').unwrap_or(path);
    let (mut steps, mut rest) = (Vec::new(), whole);
    while let Some((step, behind)) = member(rest).or_else(|| bracket(rest)) {
        steps.push(step);
        rest = behind;
    }
    if rest.contains('$') { (Vec::new(), whole) } else { (steps, rest) }
}

/// `.name`
fn member(path: &str) -> Option<(Step, &str)> {
    let name = path.strip_prefix('.')?;
    let end =
        name.find(|sign: char| sign.is_ascii() && !sign.is_ascii_alphanumeric() && sign != '_');
    let (name, rest) = name.split_at(end.unwrap_or(name.len()));
    (!name.is_empty()).then(|| (Step::Member(name.to_owned()), rest))
}

/// `['name']`, `["name"]` or `[0]`
fn bracket(path: &str) -> Option<(Step, &str)> {
    let inside = path.strip_prefix('[')?;
    if let Some(quote) = inside.chars().next().filter(|sign| matches!(sign, '\'' | '"')) {
        let (name, rest) = inside.get(1..)?.split_once(quote)?;
        let rest = rest.strip_prefix(']').filter(|_| !name.contains('\\'))?;
        return Some((Step::Member(name.to_owned()), rest));
    }
    let (number, rest) = inside.split_once(']')?;
    Some((Step::Item(number.parse().ok()?), rest))
}

/// The selected values as JSON, or their number.
fn whole(found: &[&Value], look: &ExcerptRequest, budget: usize) -> Excerpt {
    if look.count {
        let inside = match found {
            [Value::Array(items)] => items.len(),
            [Value::Object(members)] => members.len(),
            found => found.len(),
        };
        let note = format!("{} selected", found.len());
        return Excerpt { text: inside.to_string(), note, next: None, ..Excerpt::default() };
    }
    let text = match found {
        [Value::String(text)] => text.clone(),
        [other] => other.to_string(),
        all => serde_json::to_string(all).unwrap_or_default(),
    };
    let skipped = usize::try_from(look.offset.unwrap_or(0)).unwrap_or(usize::MAX);
    let rest = text.get(skipped..).unwrap_or_default();
    let piece = token_estimate::prefix(rest, budget);
    let next =
        (piece.len() < rest.len()).then_some(NextPage::Offset((skipped + piece.len()) as u64));
    let note = format!("{} selected, {} bytes", found.len(), text.len());
    Excerpt { text: piece.to_owned(), note, next, ..Excerpt::default() }
}

#[cfg(test)]
mod tests {
    use super::{Step, plain, takes_each_item};

    #[test]
    fn a_path_that_ends_within_an_escape_is_refused() {
        for path in
            ["$['\\u", "$['a\\ud800\\u", "$['\\ud800\\ud", "$['\\uD800\\uDC", "$['\\u00", "$['\\"]
        {
            assert!(super::parse(path).is_err(), "{path}");
        }
        for path in ["$['\\u00e9']", "$['\\\\u']", "$['\\uD83D\\uDE00']", "$[\"\\\\u\"]"] {
            assert!(super::parse(path).is_ok(), "{path}");
        }
    }

    #[test]
    fn paths_that_take_items_by_themselves() {
        for path in
            ["[*]", "[*].a[0]", "[?@.a == 1].b", "[?match(@.a, ']')]", r#"[?@["a,b"] > 'x\',']"#]
        {
            assert!(takes_each_item(path), "{path}");
        }
        for path in [
            "",
            "[0]",
            "[1:3]",
            "..a",
            "[*,0]",
            "[?@.a, 0]",
            "['a']",
            "[?$[0].a == @.a]",
            "[*][?$.a]",
        ] {
            assert!(!takes_each_item(path), "{path}");
        }
    }

    #[test]
    fn the_plain_beginning_of_a_path() {
        let shown = |path| {
            let (steps, rest) = plain(path);
            let steps: Vec<String> = steps
                .into_iter()
                .map(|step| match step {
                    Step::Member(name) => name,
                    Step::Item(number) => format!("#{number}"),
                })
                .collect();
            format!("{} | {rest}", steps.join(" "))
        };
        let cases = [
            ("$", " | "),
            ("$.a_1.größe[0]['x y'][\"b.c\"]", "a_1 größe #0 x y b.c | "),
            ("$.a.*", "a | .*"),
            ("$.a..b", "a | ..b"),
            ("$[*].a", " | [*].a"),
            ("$.a[-1]", "a | [-1]"),
            ("$.a[1:2]", "a | [1:2]"),
            ("$.a['b','c']", "a | ['b','c']"),
            (r"$.a['b\'c']", r"a | ['b\'c']"),
            ("$.a[?@.x == $.y]", " | .a[?@.x == $.y]"),
        ];
        for (path, expect) in cases {
            assert_eq!(shown(path), expect, "{path}");
        }
    }
}
