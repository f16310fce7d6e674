//! Composes parser events into nodes; resolves anchors and aliases within limits.

use std::{borrow::Cow, collections::BTreeMap};

use saphyr_parser::{Event, Marker, Parser, ScalarStyle, ScanError, Span, StrInput, Tag};

use super::{
    Node, NodeValue, RepeatedKey, SyntaxError,
    layout::{Layout, Place, Stop},
    pairs, scalar, shield,
};

/// The maximum nesting of collections, with aliases expanded.
const MAX_DEPTH: usize = 128;

/// The maximum that aliases may copy, as a multiple of the text: nodes for each byte, and text in
/// [`TEXT_UNIT`]s. Short documents may copy [`MIN_COPIED`], and none more than [`MAX_COPIED`].
const COPIED_PER_BYTE: usize = 4;
const MIN_COPIED: usize = 20_000;
const MAX_COPIED: usize = 1_000_000;

/// Bytes of text that weigh as much as a node.
const TEXT_UNIT: usize = 32;

/// The bytes parsed in all attempts together before layout repairs stop.
const MAX_READ: usize = 8 << 20;

/// Composes the only document of `text`.
pub(super) fn document(text: &str) -> Result<Node, SyntaxError> {
    composed(text).map(|(node, _)| node)
}

/// The keys that are repeated within a mapping.
pub(super) fn repeated_keys(text: &str) -> Vec<RepeatedKey> {
    composed(text).map(|(_, repeated)| repeated).unwrap_or_default()
}

fn composed(text: &str) -> Result<(Node, Vec<RepeatedKey>), SyntaxError> {
    let mut layout = Layout::new(text);
    let mut read = 0;
    loop {
        read += layout.text.len();
        match attempt(&layout) {
            Ok(composed) => return Ok(composed),
            Err(Failure::Meaning(error)) => return Err(error),
            Err(Failure::Syntax(message, stop)) => {
                if read > MAX_READ || !layout.mend(&stop) {
                    return Err(explained(&message, &stop, &layout));
                }
            }
        }
    }
}

/// Why composing failed.
enum Wrong {
    /// The parser failed; a layout repair may help.
    Syntax(ScanError),
    /// The document is valid YAML that is not supported.
    Meaning(SyntaxError),
}

impl From<SyntaxError> for Wrong {
    fn from(error: SyntaxError) -> Self {
        Self::Meaning(error)
    }
}

/// Why an attempt failed.
enum Failure {
    Syntax(String, Stop),
    Meaning(SyntaxError),
}

fn attempt(layout: &Layout) -> Result<(Node, Vec<RepeatedKey>), Failure> {
    let shielded = shield::shield(&layout.text);
    let ended = layout.text.ends_with('\n');
    let mut composer = Composer {
        parser: Parser::new_from_str(&shielded.text),
        stand_in: shielded.stand_in,
        layout,
        unended: (!ended).then(|| layout.text.chars().count()),
        open: Vec::new(),
        last_event_end: (1, 0),
        anchors: BTreeMap::new(),
        copied: 0,
        repeated: Vec::new(),
        max_copied: (layout.text.len() * COPIED_PER_BYTE).clamp(MIN_COPIED, MAX_COPIED),
    };
    let composed = composer.document();
    let repeated = std::mem::take(&mut composer.repeated);
    composed.map(|node| (node, repeated)).map_err(|wrong| match wrong {
        Wrong::Meaning(error) => Failure::Meaning(error),
        Wrong::Syntax(error) => {
            let (failed, open, last_event_end) =
                (place(error.marker()), composer.open, composer.last_event_end);
            Failure::Syntax(error.info().to_owned(), Stop { failed, open, last_event_end })
        }
    })
}

fn explained(message: &str, stop: &Stop, layout: &Layout) -> SyntaxError {
    let message = match layout.unclosed(stop) {
        Some((bracket, line)) => format!("{message}; the `{bracket}` of line {line} is not closed"),
        None if layout.has_tab(stop) => format!("{message}; write spaces instead of the tab"),
        None => message.to_owned(),
    };
    SyntaxError { line: stop.failed.0, column: layout.column(stop.failed), message }
}

fn place(marker: &Marker) -> Place {
    (marker.line(), marker.col())
}

struct Composer<'t> {
    parser: Parser<'t, StrInput<'t>>,
    stand_in: char,
    layout: &'t Layout,
    /// The number of characters, if the last line has no line end.
    unended: Option<usize>,
    /// The starts of collections that are still open.
    open: Vec<Place>,
    /// The end of the last event.
    last_event_end: Place,
    /// Anchors by the parser's ID; `None` while the value is being composed.
    anchors: BTreeMap<usize, Option<Anchored>>,
    copied: usize,
    repeated: Vec<RepeatedKey>,
    max_copied: usize,
}

/// The target of an alias.
struct Anchored {
    node: Node,
    weight: usize,
    depth: usize,
}

impl<'t> Composer<'t> {
    fn document(&mut self) -> Result<Node, Wrong> {
        let mut root = None;
        loop {
            let (event, span) = self.next()?;
            match event {
                Event::StreamEnd => break,
                Event::DocumentStart(_) if root.is_some() => {
                    let message = "a second document starts here: write one document per file, or give the file to `muster apply -f`";
                    return Err(self.refuse(span, message));
                }
                Event::DocumentStart(_) => {
                    let (event, span) = self.next()?;
                    root = Some(self.node(event, span)?);
                }
                _ => {}
            }
        }
        match root {
            Some(root) => Ok(root),
            None => Ok(Node { line: 1, column: 1, value: NodeValue::Scalar(scalar::null()) }),
        }
    }

    fn next(&mut self) -> Result<(Event<'t>, Span), Wrong> {
        match self.parser.next_event() {
            Some(Ok((event, span))) => {
                self.last_event_end = place(&span.end);
                Ok((event, span))
            }
            Some(Err(error)) => Err(Wrong::Syntax(error)),
            None => Ok((Event::StreamEnd, Span::default())),
        }
    }

    fn node(&mut self, event: Event<'t>, span: Span) -> Result<Node, Wrong> {
        let (anchor, value) = match event {
            Event::Alias(anchor) => return self.alias(anchor, span),
            Event::Scalar(text, style, anchor, tag) => {
                let text = self.content(text, style, span);
                let scalar = scalar::read(&text, style, tag.as_deref())
                    .map_err(|message| self.refuse(span, message))?;
                (anchor, NodeValue::Scalar(scalar))
            }
            Event::SequenceStart(anchor, tag) => {
                self.open(anchor, tag.as_deref(), "seq", span)?;
                (anchor, self.list()?)
            }
            Event::MappingStart(anchor, tag) => {
                self.open(anchor, tag.as_deref(), "map", span)?;
                (anchor, self.map()?)
            }
            _ => return Err(self.refuse(span, "a value is missing here")),
        };
        let (line, column) = self.position(span);
        let node = Node { line, column, value };
        if anchor > 0 {
            self.remember(anchor, &node, span)?;
        }
        Ok(node)
    }

    /// The text of a scalar as in PyYAML: a last line without a line end gets none.
    fn content(&self, text: Cow<'t, str>, style: ScalarStyle, span: Span) -> Cow<'t, str> {
        let text = shield::unshield(text, self.stand_in);
        let block = matches!(style, ScalarStyle::Literal | ScalarStyle::Folded);
        match text.strip_suffix('\n') {
            Some(unended) if block && self.unended == Some(span.end.index()) => {
                Cow::Owned(unended.to_owned())
            }
            Some(_) | None => text,
        }
    }

    fn open(
        &mut self,
        anchor: usize,
        tag: Option<&Tag>,
        kind: &str,
        span: Span,
    ) -> Result<(), Wrong> {
        if anchor > 0 {
            self.anchors.insert(anchor, None);
        }
        self.open.push(place(&span.start));
        self.limit_depth(0, span)?;
        match tag.map(scalar::full_name) {
            Some(tag) if tag != "!" && tag != format!("tag:yaml.org,2002:{kind}") => {
                Err(self.refuse(span, scalar::no_constructor(&tag)))
            }
            Some(_) | None => Ok(()),
        }
    }

    fn list(&mut self) -> Result<NodeValue, Wrong> {
        let mut items = Vec::new();
        loop {
            match self.next()? {
                (Event::SequenceEnd, _) => break,
                (event, span) => items.push(self.node(event, span)?),
            }
        }
        self.open.pop();
        Ok(NodeValue::List(items))
    }

    fn map(&mut self) -> Result<NodeValue, Wrong> {
        let (mut merged, mut own) = (Vec::new(), Vec::new());
        loop {
            let (event, span) = self.next()?;
            if matches!(event, Event::MappingEnd) {
                break;
            }
            let key = match plain(&event) {
                Some("<<") => None,
                Some("=") => Some(self.node(quoted(event), span)?),
                Some(_) | None => Some(self.node(event, span)?),
            };
            let (event, span) = self.next()?;
            let value = self.node(event, span)?;
            match key {
                Some(key) => own.push((key, value)),
                None => merged.extend(pairs::mergeable(value)?),
            }
        }
        self.open.pop();
        self.repeated.extend(pairs::repeated(&own));
        merged.append(&mut own);
        Ok(NodeValue::Map(pairs::unique(merged)?))
    }

    fn alias(&mut self, anchor: usize, span: Span) -> Result<Node, Wrong> {
        let Some(Some(anchored)) = self.anchors.get(&anchor) else {
            return Err(self.refuse(span, "this alias stands for a value that contains it"));
        };
        self.limit_depth(anchored.depth, span)?;
        self.copied = self.charge(anchored.weight, span)?;
        Ok(anchored.node.clone())
    }

    fn remember(&mut self, anchor: usize, node: &Node, span: Span) -> Result<(), Wrong> {
        let (weight, depth) = measure(node);
        self.copied = self.charge(weight, span)?;
        self.anchors.insert(anchor, Some(Anchored { node: node.clone(), weight, depth }));
        Ok(())
    }

    /// Returns the total copied with `weight` more, or fails if it exceeds the limit.
    fn charge(&self, weight: usize, span: Span) -> Result<usize, Wrong> {
        match self.copied + weight {
            copied if copied > self.max_copied => {
                Err(self.refuse(span, "aliases make this document too large"))
            }
            copied => Ok(copied),
        }
    }

    /// Whether a value of `more` levels fits within the nesting limit.
    fn limit_depth(&self, more: usize, span: Span) -> Result<(), Wrong> {
        if self.open.len() + more > MAX_DEPTH {
            let message = format!("values nest more than {MAX_DEPTH} levels deep");
            return Err(self.refuse(span, message));
        }
        Ok(())
    }

    fn refuse(&self, span: Span, message: impl Into<String>) -> Wrong {
        let (line, column) = self.position(span);
        Wrong::Meaning(SyntaxError { line, column, message: message.into() })
    }

    /// The line and the column in the file, both from 1.
    fn position(&self, span: Span) -> (usize, usize) {
        let place = place(&span.start);
        (place.0, self.layout.column(place))
    }
}

/// The weight and the depth of a tree.
fn measure(node: &Node) -> (usize, usize) {
    match &node.value {
        NodeValue::Scalar(_) => (1 + node.written().map_or(0, str::len) / TEXT_UNIT, 0),
        NodeValue::List(items) => sum(items.iter()),
        NodeValue::Map(pairs) => sum(pairs.iter().flat_map(|(key, value)| [key, value])),
    }
}

fn sum<'n>(children: impl Iterator<Item = &'n Node>) -> (usize, usize) {
    let (weight, depth) = children
        .map(measure)
        .fold((1, 0), |(weight, depth), (more, below)| (weight + more, depth.max(below)));
    (weight, depth + 1)
}

fn plain<'e>(event: &'e Event<'_>) -> Option<&'e str> {
    match event {
        Event::Scalar(text, ScalarStyle::Plain, _, None) => Some(text),
        _ => None,
    }
}

/// `=` is an ordinary key, though it is invalid as a value.
fn quoted(event: Event<'_>) -> Event<'_> {
    match event {
        Event::Scalar(text, _, anchor, tag) => {
            Event::Scalar(text, ScalarStyle::SingleQuoted, anchor, tag)
        }
        event => event,
    }
}
