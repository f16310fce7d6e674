//! Parts of a stored JSON value, selected by a JSON path.
//!
//! The plain prefix of a path (members by name, items by index) is followed in the file, however long that
//! is. Only the value it leads to is parsed, for the rest of the path.

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
    CHUNK, StoredOutput,
    excerpt::{BYTES_PER_TOKEN, Excerpt, ExcerptRequest, valid},
    path_cost,
    shape::Shape,
};

/// The longest value that is parsed.
const MOST_JSON: u64 = 16 << 20;

/// A step of the plain prefix of a path.
#[derive(Debug, PartialEq, Eq)]
enum Step {
    Member(String),
    Item(u64),
}

impl StoredOutput {
    /// The values that a path selects, or their number.
    pub(super) fn select(
        &self,
        path: &str,
        look: &ExcerptRequest,
        budget: usize,
    ) -> Result<Excerpt, String> {
        let wrong = |error| format!("path must be a JSON path such as $.items[0].name: {error}");
        path_cost::check_length(path)?;
        JsonPath::parse(path).map_err(wrong)?;
        let (steps, rest) = plain(path);
        let rest_of_path = JsonPath::parse(&format!("${rest}")).map_err(wrong)?;
        let unread = |error: io::Error| match error.kind() {
            io::ErrorKind::TimedOut => format!("`{}`: {error}", self.handle),
            _ => format!("`{}` is not JSON; page it, or use grep", self.handle),
        };
        let place = self.place(&steps).map_err(unread)?;
        if look.count
            && rest.is_empty()
            && let Some(place) = &place
        {
            let length = self.part(place).and_then(Shape::read).map_err(unread)?.length();
            let (text, note) = (length.to_string(), "1 selected".to_owned());
            return Ok(Excerpt { text, note, next: None });
        }
        let value: Option<Value> = match place {
            Some(place)
                if place.end - place.start > MOST_JSON
                    && rest.is_empty()
                    && self.is_text(&place) =>
            {
                return self.page_of_text(&place, look, budget).map_err(unread);
            }
            Some(place) if place.end - place.start > MOST_JSON => {
                return Err(format!(
                    "what `{path}` leads to is too long ({} bytes); go deeper, such as [0] or .name, \
                     or page it, or use grep",
                    place.end - place.start
                ));
            }
            Some(place) => {
                let part = self.part(&place).map_err(unread)?;
                Some(serde_json::from_reader(part).map_err(|error| unread(error.into()))?)
            }
            None => None,
        };
        if let Some(value) = &value {
            path_cost::check_cost(&format!("${rest}"), value)?;
        }
        let found = value.as_ref().map_or_else(Vec::new, |value| rest_of_path.query(value).all());
        Ok(shown(&found, look, budget))
    }

    /// The range that plain steps lead to.
    fn place(&self, steps: &[Step]) -> io::Result<Option<Range<u64>>> {
        let mut scan = JsonScanner::new(self.part(&(0..self.bytes))?, 0);
        let place = follow(&mut scan, steps)?;
        if scan.is_at_end()? { Ok(place) } else { Err(io::ErrorKind::InvalidData.into()) }
    }

    fn is_text(&self, place: &Range<u64>) -> bool {
        let first = self.part(place).and_then(|mut part| Ok(part.fill_buf()?.first().copied()));
        first.is_ok_and(|first| first == Some(b'"'))
    }

    /// A page of a text that is too long to be parsed.
    fn page_of_text(
        &self,
        place: &Range<u64>,
        look: &ExcerptRequest,
        budget: usize,
    ) -> io::Result<Excerpt> {
        let mut text =
            UnescapeReader::new(self.part(&(place.start + 1..place.end.saturating_sub(1)))?);
        let skipped = look.offset.unwrap_or(0);
        io::copy(&mut text.by_ref().take(skipped), &mut io::sink())?;
        let most = (budget * BYTES_PER_TOKEN) as u64;
        let mut bytes = Vec::new();
        text.by_ref().take(most).read_to_end(&mut bytes)?;
        let at_end = text.read(&mut [0])? == 0;
        let page = valid(&bytes, at_end);
        let piece = token_estimate::prefix(&page, budget);
        let more = !at_end || piece.len() < page.len();
        let next = (more && !piece.is_empty()).then(|| skipped + piece.len() as u64);
        let note = format!("1 selected, {} bytes as written", place.end - place.start);
        Ok(Excerpt { text: piece.to_owned(), note, next })
    }

    fn part(&self, part: &Range<u64>) -> io::Result<impl BufRead + use<>> {
        let mut file = self.open()?;
        file.seek(SeekFrom::Start(part.start))?;
        Ok(BufReader::with_capacity(CHUNK, file.take(part.end.saturating_sub(part.start))))
    }
}

/// Scans one value for the range that steps lead to.
fn follow(scan: &mut JsonScanner<impl BufRead>, steps: &[Step]) -> io::Result<Option<Range<u64>>> {
    let first = scan.peek()?;
    let mut found = None;
    match steps.split_first() {
        None => return scan.skip().map(Some),
        Some((Step::Member(name), rest)) if first == b'{' => {
            // Of duplicate keys the last one counts.
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

fn shown(found: &[&Value], look: &ExcerptRequest, budget: usize) -> Excerpt {
    if look.count {
        let inside = match found {
            [Value::Array(items)] => items.len(),
            [Value::Object(members)] => members.len(),
            found => found.len(),
        };
        let note = format!("{} selected", found.len());
        return Excerpt { text: inside.to_string(), note, next: None };
    }
    let text = match found {
        [Value::String(text)] => text.clone(),
        [other] => other.to_string(),
        all => serde_json::to_string(all).unwrap_or_default(),
    };
    let skipped = usize::try_from(look.offset.unwrap_or(0)).unwrap_or(usize::MAX);
    let rest = text.get(skipped..).unwrap_or_default();
    let piece = token_estimate::prefix(rest, budget);
    let next = (piece.len() < rest.len()).then_some((skipped + piece.len()) as u64);
    let note = format!("{} selected, {} bytes", found.len(), text.len());
    Excerpt { text: piece.to_owned(), note, next }
}

#[cfg(test)]
mod tests {
    use super::{Step, plain};

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
