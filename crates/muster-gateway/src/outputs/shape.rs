//! The shape of a JSON value of any length, read in one pass and shown within a token budget.
//!
//! Names come before depth: the members of an object are shown before their contents, and a few items of a list
//! in full before more items.
//!
//! **Invariant:** however long a value is, its shape is small.

use std::{
    collections::VecDeque,
    io::{self, BufRead, Read as _},
};

use muster_core::{
    json::{raw, scan::JsonScanner, unescape::UnescapeReader},
    token_estimate,
};

/// The depth of a shape.
const DEEPEST: usize = 16;
/// The number of items read of a list, and of members of an object.
const MOST_CHILDREN: usize = 500;
/// The number of values read in all; no reply has room for more.
const MOST_VALUES: usize = 20_000;
/// The number of values that every child may have at least, however many precede it.
const LEAST_VALUES: usize = 12;
/// The number of characters shown of a text: at first, and if there is room.
const TEXT_LENGTHS: [usize; 3] = [60, 240, MOST_TEXT];
/// The number of characters read of a text.
const MOST_TEXT: usize = 1_000;
/// The number of bytes read of a text or a number.
const MOST_READ: usize = 12 * MOST_TEXT + 2;
/// The number of members of an object that are shown before their contents.
const FIRST_MEMBERS: usize = 40;
/// The number of items of a list that are shown before their contents.
const FIRST_ITEMS: usize = 1;
/// The number of items of a list of texts or numbers that are shown before the contents of other values.
const FIRST_SCALARS: usize = 4;
/// The tokens of brackets and of the remark that there is more, or of the number of children alone.
const COMPOUND: usize = 11;

/// The shape of a value.
#[derive(Debug)]
pub(super) enum Shape {
    List {
        items: Vec<Self>,
        length: u64,
    },
    Object {
        members: Vec<(String, Self)>,
        length: u64,
    },
    Text {
        beginning: String,
        bytes: u64,
    },
    /// A number or a literal, as written.
    Other(String),
}

impl Shape {
    /// Reads the shape of one value.
    pub(super) fn read(input: impl BufRead) -> io::Result<Self> {
        let mut scan = JsonScanner::new(input, 0);
        let shape = Self::at(&mut scan, DEEPEST, MOST_VALUES)?.0;
        match scan.is_at_end()? {
            true => Ok(shape),
            false => Err(io::ErrorKind::InvalidData.into()),
        }
    }

    /// Reads a value and at most `room` values below it; returns it with the number of values read.
    fn at(
        scan: &mut JsonScanner<impl BufRead>,
        depth: usize,
        mut room: usize,
    ) -> io::Result<(Self, usize)> {
        let (mut length, mut values) = (0, 1);
        // The first children must not take all the room.
        let mut child = |scan: &mut _, children: usize| -> io::Result<Option<Self>> {
            if depth == 0 || room == 0 || children >= MOST_CHILDREN {
                return JsonScanner::skip(scan).map(|_| None);
            }
            let (shape, below) = Self::at(scan, depth - 1, (room / 3).max(LEAST_VALUES).min(room))?;
            room = room.saturating_sub(below);
            values += below;
            Ok(Some(shape))
        };
        let shape = match scan.peek()? {
            b'[' => {
                let mut items = Vec::new();
                scan.items(|scan| {
                    length += 1;
                    items.extend(child(scan, items.len())?);
                    Ok(())
                })?;
                Self::List { items, length }
            }
            b'{' => {
                let mut members = Vec::new();
                scan.members(|scan, key| {
                    length += 1;
                    members
                        .extend(child(scan, members.len())?.map(|shape| (key.to_owned(), shape)));
                    Ok(())
                })?;
                Self::Object { members, length }
            }
            b'"' => text(scan)?,
            _ => {
                let written = scan.read_short(MOST_READ)?;
                let written = written.and_then(|written| String::from_utf8(written).ok());
                let valid = |written: &String| {
                    serde_json::from_str::<serde::de::IgnoredAny>(written).is_ok()
                };
                Self::Other(written.filter(valid).ok_or(io::ErrorKind::InvalidData)?)
            }
        };
        Ok((shape, values))
    }

    /// Returns as much of the shape as fits in `budget` tokens, as JSON.
    pub(super) fn within(&self, budget: usize) -> String {
        let mut room = budget;
        let (plan, complete, mut written) = loop {
            let mut plan = Plan::new(self);
            let complete = plan.fill(room);
            let written = plan.write(TEXT_LENGTHS[0]);
            // The estimate of the parts may be below that of the whole.
            if room == 0 || !token_estimate::exceeds(&written, budget) {
                break (plan, complete, written);
            }
            room -= room.div_ceil(8);
        };
        for length in TEXT_LENGTHS.into_iter().skip(1).filter(|_| complete) {
            let longer = plan.write(length);
            if token_estimate::exceeds(&longer, budget) {
                break;
            }
            written = longer;
        }
        written
    }

    /// The value without its contents.
    fn collapsed(&self, text: usize) -> String {
        match self {
            Self::List { length: 0, .. } => "[]".to_owned(),
            Self::Object { length: 0, .. } => "{}".to_owned(),
            Self::List { length, .. } => format!("\"[{length} items]\""),
            Self::Object { length, .. } => format!("\"{{{length} members}}\""),
            Self::Text { beginning, bytes } => {
                let shown = beginning.char_indices().nth(text).map(|(end, _)| end);
                let shown = beginning.get(..shown.unwrap_or(beginning.len())).unwrap_or_default();
                match shown.len() as u64 == *bytes {
                    true => raw(shown).get().to_owned(),
                    false => raw(&format!("{shown}… ({bytes} bytes)")).get().to_owned(),
                }
            }
            Self::Other(written) => written.clone(),
        }
    }

    /// How many of its children are shown before their contents.
    fn batch(&self) -> usize {
        match self {
            Self::List { items, .. } => match items.first() {
                Some(item) if item.children() > 0 => FIRST_ITEMS,
                _ => FIRST_SCALARS,
            },
            _ => FIRST_MEMBERS,
        }
    }

    /// The tokens of the value under a key, without its contents.
    fn cost(&self, key: &str) -> usize {
        // A key has quotes and a colon.
        let around = if key.is_empty() { 1 } else { 4 };
        let value = match self.children() {
            0 => token_estimate::estimate(&self.collapsed(TEXT_LENGTHS[0])),
            _ => COMPOUND,
        };
        token_estimate::estimate(key) + around + value
    }

    /// The tokens of the members of an object that are shown with it.
    fn members_cost(&self) -> usize {
        match self {
            Self::Object { members, .. } => {
                members.iter().take(FIRST_MEMBERS).map(|(key, value)| value.cost(key)).sum()
            }
            Self::List { .. } | Self::Text { .. } | Self::Other(_) => 0,
        }
    }

    fn children(&self) -> usize {
        match self {
            Self::List { items, .. } => items.len(),
            Self::Object { members, .. } => members.len(),
            Self::Text { .. } | Self::Other(_) => 0,
        }
    }

    fn child(&self, at: usize) -> Option<(&str, &Self)> {
        match self {
            Self::List { items, .. } => items.get(at).map(|item| ("", item)),
            Self::Object { members, .. } => members.get(at).map(|(key, value)| (&**key, value)),
            Self::Text { .. } | Self::Other(_) => None,
        }
    }
}

/// A value that is shown.
struct Node<'a> {
    shape: &'a Shape,
    depth: usize,
    /// The node of its first child.
    children: usize,
    /// How many of its children are shown.
    shown: usize,
}

/// The result of an attempt to show children.
struct ShownChildren {
    /// Whether there was room.
    fits: bool,
    /// The shown children that have children themselves.
    children: Vec<usize>,
}

/// The values that are shown.
struct Plan<'a> {
    nodes: Vec<Node<'a>>,
    cost: usize,
}

impl<'a> Plan<'a> {
    fn new(root: &'a Shape) -> Self {
        let cost = root.cost("");
        Self { nodes: vec![Node { shape: root, depth: 0, children: 0, shown: 0 }], cost }
    }

    /// Shows values while they fit; true if everything does. First one of each kind, as deep as it goes, then
    /// more of them, level by level.
    fn fill(&mut self, budget: usize) -> bool {
        let (mut complete, mut more) = (true, Vec::new());
        let mut queue = VecDeque::from([0]);
        while let Some(at) = queue.pop_front() {
            let shown = self.show(at, None, budget);
            complete &= shown.fits;
            more.extend(shown.fits.then_some(at));
            queue.extend(shown.children);
        }
        let mut levels: Vec<VecDeque<(usize, usize)>> = vec![VecDeque::new(); DEEPEST + 2];
        for at in more {
            self.queue(&mut levels, at, FIRST_SCALARS);
        }
        while let Some((at, batch)) = levels.iter_mut().find_map(VecDeque::pop_front) {
            let shown = self.show(at, Some(batch), budget);
            complete &= shown.fits;
            if shown.fits {
                self.queue(&mut levels, at, batch * 2);
            }
            for child in shown.children {
                self.queue(&mut levels, child, FIRST_SCALARS);
            }
        }
        complete
    }

    /// Queues a node whose children are not all shown, on its level.
    fn queue(&self, levels: &mut [VecDeque<(usize, usize)>], at: usize, batch: usize) {
        if let Some(node) = self.nodes.get(at)
            && node.shown < node.shape.children()
            && let Some(level) = levels.get_mut(node.depth)
        {
            level.push_back((at, batch));
        }
    }

    /// Shows more children of a node: `batch` of them, or else as many as are shown at first.
    fn show(&mut self, at: usize, batch: Option<usize>, budget: usize) -> ShownChildren {
        let mut done = ShownChildren { fits: true, children: Vec::new() };
        let Some(Node { shape, shown, .. }) = self.nodes.get(at) else { return done };
        let (shape, shown): (&'a Shape, usize) = (shape, *shown);
        let (first, total) = (self.children_of(at), shape.children());
        for child in shown..total.min(shown + batch.unwrap_or_else(|| shape.batch())) {
            let Some((key, inside)) = shape.child(child) else { break };
            // An item of a list is shown with its members or not at all, except for the first one.
            let is_item = matches!(shape, Shape::List { .. });
            let members = if is_item { inside.members_cost() } else { 0 };
            let own = inside.cost(key);
            let with_members = members > 0 && self.cost + own + members <= budget;
            if self.cost + own > budget || members > 0 && !with_members && child > 0 {
                done.fits = false;
                break;
            }
            self.cost += own;
            if let Some(node) = self.nodes.get_mut(at) {
                node.shown = child + 1;
            }
            if with_members {
                self.cost += members;
                self.show_members(first + child, &mut done.children);
            } else if inside.children() > 0 {
                done.children.push(first + child);
            }
        }
        done
    }

    /// The first child of a node. The first call adds all of them.
    fn children_of(&mut self, at: usize) -> usize {
        let added = self.nodes.len();
        let Some(node) = self.nodes.get_mut(at) else { return added };
        if node.children > 0 {
            return node.children;
        }
        node.children = added;
        let (shape, depth) = (node.shape, node.depth + 1);
        let children = (0..shape.children()).filter_map(|child| shape.child(child));
        self.nodes.extend(children.map(|(_, shape)| Node { shape, depth, children: 0, shown: 0 }));
        added
    }

    /// Shows the first members of an object, and returns those with children.
    fn show_members(&mut self, at: usize, children: &mut Vec<usize>) {
        let first = self.children_of(at);
        let Some(node) = self.nodes.get_mut(at) else { return };
        let total = node.shape.children();
        node.shown = total.min(FIRST_MEMBERS);
        let shown = node.shown;
        let has_children =
            |place: &usize| self.nodes.get(*place).is_some_and(|node| node.shape.children() > 0);
        children.extend((first..first + shown).filter(has_children));
        children.extend((shown < total).then_some(at));
    }

    fn write(&self, text: usize) -> String {
        let mut written = String::new();
        self.write_node(0, text, &mut written);
        written
    }

    fn write_node(&self, at: usize, text: usize, out: &mut String) {
        let Some(Node { shape, children, shown, .. }) = self.nodes.get(at) else { return };
        if *shown == 0 {
            out.push_str(&shape.collapsed(text));
            return;
        }
        let (open, close, length, what) = match shape {
            Shape::Object { length, .. } => ('{', '}', *length, "members"),
            Shape::List { length, .. } => ('[', ']', *length, "items"),
            Shape::Text { .. } | Shape::Other(_) => return,
        };
        out.push(open);
        for child in 0..*shown {
            if child > 0 {
                out.push(',');
            }
            if let (Some((key, _)), '{') = (shape.child(child), open) {
                out.push_str(raw(key).get());
                out.push(':');
            }
            self.write_node(children + child, text, out);
        }
        if (*shown as u64) < length {
            let key = if open == '{' { "\"…\":\"" } else { "\"… " };
            for part in [",", key, &format!("{length} {what} in all, {shown} shown\"")] {
                out.push_str(part);
            }
        }
        out.push(close);
    }
}

/// The beginning of a text, and its length.
fn text(scan: &mut JsonScanner<impl BufRead>) -> io::Result<Shape> {
    let mut written = Vec::new();
    let place = scan.skip_into(&mut |bytes| {
        written.extend(bytes.iter().take(MOST_READ.saturating_sub(written.len())));
    })?;
    let bytes = (place.end - place.start).saturating_sub(2);
    let inside = written.get(1..).unwrap_or_default();
    let whole = inside.len() as u64 == bytes + 1;
    let inside = if whole { inside.strip_suffix(b"\"").unwrap_or(inside) } else { inside };
    let mut text = Vec::new();
    UnescapeReader::new(inside).read_to_end(&mut text)?;
    let bytes = if whole { text.len() as u64 } else { bytes };
    let text = String::from_utf8_lossy(&text);
    let end = text.char_indices().nth(MOST_TEXT).map_or(text.len(), |(end, _)| end);
    Ok(Shape::Text { beginning: text.get(..end).unwrap_or_default().to_owned(), bytes })
}

#[cfg(test)]
mod tests {
    use muster_core::token_estimate;
    use serde_json::{Value, json};

    use super::Shape;

    fn shape(text: &str, budget: usize) -> String {
        Shape::read(text.as_bytes())
            .map_or_else(|_| "none".to_owned(), |shape| shape.within(budget))
    }

    #[test]
    fn a_value_is_shown_as_far_as_there_is_room() {
        let value =
            json!({"a": [{"b": [1, 2]}, 3], "n": -1.5, "t": "é".repeat(70), "e": [], "o": {}});
        let text = value.to_string();
        assert_eq!(shape(&text, 1_000), text, "what fits is shown in full");
        assert_eq!(shape(&text, 1), r#""{5 members}""#);
        let numbers =
            json!({"first": {"deep": 1}, "n": (0..1000).collect::<Vec<_>>(), "last": true});
        assert_eq!(
            shape(&numbers.to_string(), 90),
            r#"{"first":{"deep":1},"n":[0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,"… 1000 items in all, 15 shown"],"last":true}"#
        );
        let precise = r#"[1.10,123456789012345678901234567890,1e400]"#;
        assert_eq!(shape(precise, 100), precise, "numbers stay as written");
    }

    #[test]
    fn names_come_before_depth() {
        let file = |name: &str| json!({"name": name, "type": "file"});
        let folder = |name: String| {
            let files: Vec<Value> = (0..50).map(|n| file(&format!("f{n}.rs"))).collect();
            json!({"name": name, "type": "directory", "children": files})
        };
        let tree: Vec<Value> = (0..8).map(|n| folder(format!("folder{n}"))).collect();
        let text = Value::Array(tree).to_string();
        let shown = shape(&text, 700);
        assert!(token_estimate::estimate(&shown) <= 700, "{shown}");
        assert!(token_estimate::estimate(&shown) > 450, "the budget is used: {shown}");
        for folder in 0..8 {
            assert!(shown.contains(&format!("folder{folder}")), "{shown}");
        }
        assert!(shown.contains("f0.rs") && shown.contains("50 items in all, "), "{shown}");
        let parsed: Value = serde_json::from_str(&shown).unwrap();
        assert_eq!(parsed.as_array().unwrap().len(), 8, "all of a list is shown without a remark");
    }

    #[test]
    fn the_first_branch_does_not_take_all_the_room() {
        let wide = json!((0..30_000).map(|n| json!([n])).collect::<Vec<_>>());
        let text = json!({"a": wide, "b": {"c": {"d": "deep"}}}).to_string();
        let shown = shape(&text, 400);
        assert!(shown.contains(r#""b":{"c":{"d":"deep"}}"#), "{shown}");
        assert!(shown.contains("30000 items in all"), "{shown}");
    }

    #[test]
    fn long_texts_are_cut() {
        let long = json!({"t": "word ".repeat(1000), "u": 1}).to_string();
        let shown = shape(&long, 100);
        assert!(shown.ends_with(r#" (5000 bytes)","u":1}"#) && shown.len() < 120, "{shown}");
        assert!(shape(&long, 2_000).len() > 1_000, "there is room for more of it");
        let text = format!(r#""{}""#, r"\u00e9".repeat(3000));
        assert!(shape(&text, 400).contains("… (18000 bytes)"));
    }

    #[test]
    fn what_is_no_json_has_no_shape() {
        for text in ["", "[1,2", "[INFO] ready", "{a:1}", "nope", "[1] 2"] {
            assert_eq!(shape(text, 100), "none", "{text}");
        }
    }
}
