//! The cost of validating arguments against a schema, before anything is validated.
//!
//! A server's schema is untrusted: a few hundred bytes of references can ask for more evaluations
//! than any machine makes. The cost is an upper bound: every branch counts, although a validator
//! leaves out the rest of `anyOf` after the first that fits.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

/// The maximum number of subschemas.
const MAX_SUBSCHEMAS: usize = 20_000;
/// The most different patterns of a schema: each is compiled.
const MAX_PATTERNS: usize = 100;
/// The longest pattern, in bytes.
const MAX_PATTERN: usize = 4_096;
/// The maximum nesting of evaluations: each takes space on the stack.
const MAX_DEPTH: usize = 200;
/// The maximum number of evaluations on a value without members, with references followed.
const MAX_WEIGHT: u64 = 1_000_000;
/// The budget of one validation.
const MAX_COST: u64 = 2_000_000;
/// The number of evaluations of a subschema with `unevaluatedProperties` or `unevaluatedItems`, which evaluates its own
/// branches again.
const UNEVALUATED_PASSES: usize = 3;
/// The number of text bytes that one unit of cost matches.
const MATCHED_BYTES: usize = 64;

/// A schema whose cost can be computed.
#[derive(Debug)]
pub(crate) struct CostModel {
    subschemas: Vec<Subschema>,
    /// The evaluations on one value; for recursive schemas without the recursion.
    weight: u64,
    recursive: bool,
}

/// A schema that is too complex to validate against.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TooComplex;

#[derive(Debug, Default)]
struct Subschema {
    edges: Vec<(Applies, usize)>,
    /// The cost of its own keywords.
    own: u64,
    patterns: PatternCost,
    passes: usize,
}

/// The patterns that a text is matched with.
#[derive(Debug, Default, Clone, Copy)]
struct PatternCost {
    linear: u64,
    backtracking: u64,
}

/// The values that a subschema is applied to.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Applies {
    /// The same value.
    InPlace,
    /// The member with this name.
    Member(String),
    /// Every member of an object.
    Members,
    /// Every item of an array.
    Items,
}

impl CostModel {
    /// Analyzes a schema. Fails if it is too complex, refers to itself without end, or refers to
    /// something outside.
    pub(crate) fn of(root: &Value) -> Result<Self, TooComplex> {
        let subschemas = Reader::read(root)?;
        let mut model = Self { subschemas, weight: 0, recursive: false };
        model.check_in_place_cycles()?;
        let mut visits = vec![Visit::New; model.subschemas.len()];
        model.weight = model.weigh(0, 0, &mut visits)?;
        if model.weight > MAX_WEIGHT { Err(TooComplex) } else { Ok(model) }
    }

    /// Whether a validation of arguments of this length is certainly cheap.
    pub(crate) fn is_cheap(&self, bytes: usize) -> bool {
        const CHEAP: u64 = 100_000;
        !self.recursive && self.weight.saturating_mul(bytes as u64) <= CHEAP
    }

    /// The cost of validating a value; `None` if it exceeds the budget.
    pub(crate) fn of_value(&self, value: &Value) -> Option<u64> {
        let mut left = MAX_COST;
        self.walk(0, Some(value), 0, &mut left).then(|| MAX_COST - left)
    }

    /// Deducts the cost of an evaluation from `left`; false if the budget is exceeded. Names of members are evaluated
    /// without a value.
    fn walk(&self, at: usize, value: Option<&Value>, depth: usize, left: &mut u64) -> bool {
        let Some(subschema) = self.subschemas.get(at).filter(|_| depth < MAX_DEPTH) else {
            return false;
        };
        let matching = match value {
            Some(Value::String(text)) => subschema.patterns.on(text.len()),
            _ => 0,
        };
        let Some(rest) = left.checked_sub(subschema.own.saturating_add(matching)) else {
            return false;
        };
        *left = rest;
        let mut on = |value: Option<&Value>, to: usize| self.walk(to, value, depth + 1, left);
        (0..subschema.passes).all(|_| {
            subschema.edges.iter().all(|(applies, to)| match (applies, value) {
                (Applies::InPlace, value) => on(value, *to),
                (Applies::Member(name), Some(Value::Object(members))) => {
                    members.get(name).is_none_or(|member| on(Some(member), *to))
                }
                (Applies::Members, Some(Value::Object(members))) => {
                    members.values().all(|member| on(Some(member), *to))
                }
                (Applies::Items, Some(Value::Array(items))) => {
                    items.iter().all(|item| on(Some(item), *to))
                }
                (Applies::Member(_) | Applies::Members | Applies::Items, _) => true,
            })
        })
    }

    /// Fails if a subschema applies to its own value again, directly or through others: validation would not end.
    fn check_in_place_cycles(&self) -> Result<(), TooComplex> {
        let mut visits = vec![Visit::New; self.subschemas.len()];
        (0..self.subschemas.len()).try_for_each(|at| self.descend_in_place(at, 0, &mut visits))
    }

    fn descend_in_place(
        &self,
        at: usize,
        depth: usize,
        visits: &mut [Visit],
    ) -> Result<(), TooComplex> {
        let visit = visits.get_mut(at).filter(|_| depth < MAX_DEPTH).ok_or(TooComplex)?;
        match visit {
            Visit::Done(_) => return Ok(()),
            Visit::Open => return Err(TooComplex),
            Visit::New => *visit = Visit::Open,
        }
        for (applies, to) in self.subschemas.get(at).into_iter().flat_map(|one| &one.edges) {
            if *applies == Applies::InPlace {
                self.descend_in_place(*to, depth + 1, visits)?;
            }
        }
        if let Some(visit) = visits.get_mut(at) {
            *visit = Visit::Done(0);
        }
        Ok(())
    }

    fn weigh(&mut self, at: usize, depth: usize, visits: &mut [Visit]) -> Result<u64, TooComplex> {
        let visit = visits.get_mut(at).filter(|_| depth < MAX_DEPTH).ok_or(TooComplex)?;
        match visit {
            Visit::Done(weight) => return Ok(*weight),
            Visit::Open => {
                self.recursive = true;
                return Ok(0);
            }
            Visit::New => *visit = Visit::Open,
        }
        let subschema = self.subschemas.get(at).ok_or(TooComplex)?;
        let PatternCost { linear, backtracking } = subschema.patterns;
        let passes = subschema.passes as u64;
        let mut weight = subschema.own.saturating_add(linear).saturating_add(backtracking << 6);
        let targets: Vec<usize> = subschema.edges.iter().map(|(_, to)| *to).collect();
        for to in targets {
            weight = weight.saturating_add(self.weigh(to, depth + 1, visits)?);
        }
        let weight = weight.saturating_mul(passes);
        if let Some(visit) = visits.get_mut(at) {
            *visit = Visit::Done(weight);
        }
        Ok(weight)
    }
}

/// The state of a depth-first search.
#[derive(Debug, Clone, Copy)]
enum Visit {
    New,
    Open,
    Done(u64),
}

impl PatternCost {
    fn add(&mut self, pattern: &str) {
        const FANCY: [&str; 8] = ["(?=", "(?!", "(?<", "(?>", "\\k", "(?(", "\\G", "\\K"];
        let refers = |text: &str| {
            text.as_bytes()
                .windows(2)
                .any(|pair| matches!(pair, [b'\\', digit] if digit.is_ascii_digit()))
        };
        if FANCY.iter().any(|part| pattern.contains(part)) || refers(pattern) {
            self.backtracking += 1;
        } else {
            self.linear += 1 + pattern.len() as u64 / 16;
        }
    }

    /// The cost of matching a text. Backtracking may look at all of the text from each of its
    /// characters.
    fn on(self, bytes: usize) -> u64 {
        let pieces = 1 + (bytes / MATCHED_BYTES) as u64;
        let again = pieces.saturating_mul(bytes as u64);
        let linear = self.linear.saturating_mul(pieces);
        linear.saturating_add(self.backtracking.saturating_mul(again))
    }
}

/// Reads the subschemas that are reachable from a root.
struct Reader<'a> {
    root: &'a Value,
    /// The number of each subschema, by its address in the parsed schema.
    numbers: BTreeMap<usize, usize>,
    found: Vec<&'a Value>,
    anchors: BTreeMap<&'a str, &'a Value>,
    patterns: std::collections::BTreeSet<&'a str>,
}

impl<'a> Reader<'a> {
    fn read(root: &'a Value) -> Result<Vec<Subschema>, TooComplex> {
        let mut reader = Reader {
            root,
            numbers: BTreeMap::new(),
            found: Vec::new(),
            anchors: BTreeMap::new(),
            patterns: std::collections::BTreeSet::new(),
        };
        reader.find_anchors(root);
        reader.number(root)?;
        let mut subschemas = Vec::new();
        while let Some(schema) = reader.found.get(subschemas.len()).copied() {
            let read = match schema {
                Value::Object(keywords) => reader.subschema(keywords, subschemas.is_empty())?,
                _ => Subschema { own: 1, passes: 1, ..Subschema::default() },
            };
            subschemas.push(read);
        }
        Ok(subschemas)
    }

    /// Records every anchor, even outside schemas: that can only make a schema look more complex.
    fn find_anchors(&mut self, value: &'a Value) {
        match value {
            Value::Object(members) => {
                for key in ["$anchor", "$dynamicAnchor"] {
                    if let Some(name) = members.get(key).and_then(Value::as_str) {
                        self.anchors.entry(name).or_insert(value);
                    }
                }
                members.values().for_each(|member| self.find_anchors(member));
            }
            Value::Array(items) => items.iter().for_each(|item| self.find_anchors(item)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => (),
        }
    }

    fn number(&mut self, schema: &'a Value) -> Result<usize, TooComplex> {
        let next = self.found.len();
        let number = *self.numbers.entry(std::ptr::from_ref(schema).addr()).or_insert(next);
        if number == next {
            self.found.push(schema);
        }
        if next > MAX_SUBSCHEMAS { Err(TooComplex) } else { Ok(number) }
    }

    fn subschema(
        &mut self,
        keywords: &'a Map<String, Value>,
        is_root: bool,
    ) -> Result<Subschema, TooComplex> {
        let mut read = Subschema { own: 1, passes: 1, ..Subschema::default() };
        for (keyword, value) in keywords {
            match keyword.as_str() {
                // References below another base would need another resolution.
                "$id" if !is_root => return Err(TooComplex),
                "$ref" | "$dynamicRef" => {
                    let target = self.target(value)?;
                    read.edges.push((Applies::InPlace, self.number(target)?));
                }
                "$recursiveRef" => return Err(TooComplex),
                "allOf" | "anyOf" | "oneOf" => self.list(&mut read, &Applies::InPlace, value)?,
                "not" | "if" | "then" | "else" => {
                    read.edges.push((Applies::InPlace, self.number(value)?));
                }
                "dependentSchemas" | "dependencies" => {
                    self.map(&mut read, value, |_| Applies::InPlace)?;
                }
                "properties" => {
                    self.map(&mut read, value, |name| Applies::Member(name.to_owned()))?;
                }
                "patternProperties" => {
                    for pattern in value.as_object().into_iter().flat_map(Map::keys) {
                        self.pattern(pattern, &mut PatternCost::default())?;
                    }
                    self.map(&mut read, value, |_| Applies::Members)?;
                }
                "additionalProperties" | "propertyNames" => {
                    read.edges.push((Applies::Members, self.number(value)?));
                }
                "unevaluatedProperties" => {
                    read.passes = UNEVALUATED_PASSES;
                    read.edges.push((Applies::Members, self.number(value)?));
                }
                "unevaluatedItems" => {
                    read.passes = UNEVALUATED_PASSES;
                    read.edges.push((Applies::Items, self.number(value)?));
                }
                "items" | "contains" | "additionalItems" => match value {
                    Value::Array(_) => self.list(&mut read, &Applies::Items, value)?,
                    _ => read.edges.push((Applies::Items, self.number(value)?)),
                },
                "prefixItems" => self.list(&mut read, &Applies::Items, value)?,
                "pattern" => {
                    if let Some(pattern) = value.as_str() {
                        self.pattern(pattern, &mut read.patterns)?;
                    }
                }
                "enum" | "const" | "required" => read.own += nodes(value) / 4,
                _ => (),
            }
        }
        Ok(read)
    }

    fn list(
        &mut self,
        read: &mut Subschema,
        applies: &Applies,
        value: &'a Value,
    ) -> Result<(), TooComplex> {
        for schema in value.as_array().into_iter().flatten() {
            read.edges.push((applies.clone(), self.number(schema)?));
        }
        Ok(())
    }

    fn map(
        &mut self,
        read: &mut Subschema,
        value: &'a Value,
        applies: impl Fn(&str) -> Applies,
    ) -> Result<(), TooComplex> {
        for (name, schema) in value.as_object().into_iter().flatten() {
            // An array of names is a dependency without a schema.
            if !schema.is_array() {
                read.edges.push((applies(name), self.number(schema)?));
            }
        }
        Ok(())
    }

    fn pattern(&mut self, pattern: &'a str, cost: &mut PatternCost) -> Result<(), TooComplex> {
        self.patterns.insert(pattern);
        cost.add(pattern);
        let fits = pattern.len() <= MAX_PATTERN && self.patterns.len() <= MAX_PATTERNS;
        if fits { Ok(()) } else { Err(TooComplex) }
    }

    fn target(&self, reference: &Value) -> Result<&'a Value, TooComplex> {
        let fragment = reference.as_str().and_then(|text| text.strip_prefix('#'));
        let found = match fragment.ok_or(TooComplex)? {
            "" => Some(self.root),
            pointer if pointer.starts_with('/') => {
                self.root.pointer(&percent_decoded(pointer)).or_else(|| self.root.pointer(pointer))
            }
            anchor => self.anchors.get(anchor).copied(),
        };
        found.ok_or(TooComplex)
    }
}

/// The number of values in a value, including itself.
fn nodes(value: &Value) -> u64 {
    match value {
        Value::Array(items) => 1 + items.iter().map(nodes).sum::<u64>(),
        Value::Object(members) => 1 + members.values().map(nodes).sum::<u64>(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 1,
    }
}

/// A URI fragment without percent encoding.
fn percent_decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, behind @ ..] = rest {
        let encoded = match behind {
            [high, low, ..] if *first == b'%' => {
                let digit = |byte: &u8| char::from(*byte).to_digit(16);
                digit(high)
                    .zip(digit(low))
                    .and_then(|(high, low)| u8::try_from(high * 16 + low).ok())
            }
            _ => None,
        };
        bytes.push(encoded.unwrap_or(*first));
        rest = if encoded.is_some() { behind.get(2..).unwrap_or_default() } else { behind };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{CostModel, TooComplex};

    /// `count` definitions, each `anyOf` twice the one before.
    fn doubling(count: usize) -> Value {
        let mut defs = serde_json::Map::new();
        defs.insert("d0".to_owned(), json!({"type": "string"}));
        for number in 1..count {
            let before = json!({"$ref": format!("#/$defs/d{}", number - 1)});
            defs.insert(format!("d{number}"), json!({"anyOf": [before, before]}));
        }
        json!({
            "properties": {"a": {"$ref": format!("#/$defs/d{}", count - 1)}},
            "$defs": defs,
        })
    }

    #[test]
    fn doubling_references_are_too_complex() {
        assert_eq!(CostModel::of(&doubling(40)).err(), Some(TooComplex));
        let model = CostModel::of(&doubling(6)).unwrap();
        assert!(model.is_cheap(100));
        assert_eq!(model.of_value(&json!({"a": 5})), Some(127));
        assert_eq!(model.of_value(&json!({"b": 5})), Some(1));
    }

    #[test]
    fn references_without_end_are_too_complex() {
        for schema in [
            json!({"$ref": "#"}),
            json!({"allOf": [{"$ref": "#"}]}),
            json!({"$defs": {"a": {"not": {"$ref": "#/$defs/b"}}, "b": {"$ref": "#/$defs/a"}},
                "properties": {"x": {"$ref": "#/$defs/b"}}}),
            json!({"properties": {"x": {"$dynamicRef": "#n"}}, "$dynamicAnchor": "n", "if": {"$ref": "#n"}}),
            json!({"$ref": "https://example.com/schema"}),
            json!({"$ref": "#/nowhere"}),
            json!({"properties": {"a": {"$id": "other"}}}),
        ] {
            assert_eq!(CostModel::of(&schema).err(), Some(TooComplex), "{schema}");
        }
    }

    #[test]
    fn recursion_is_counted_on_the_value() {
        let schema = json!({"properties": {"x": {"anyOf": [{"$ref": "#"}, {"$ref": "#"}]}}});
        let model = CostModel::of(&schema).unwrap();
        assert!(!model.is_cheap(1));
        let nested = |depth| (0..depth).fold(json!({}), |inner, _| json!({"x": inner}));
        assert!(model.of_value(&nested(10)).is_some());
        assert_eq!(model.of_value(&nested(40)), None);
        let tree = json!({"properties": {"x": {"$ref": "#"}}});
        assert!(CostModel::of(&tree).unwrap().of_value(&nested(60)).is_some());
        assert_eq!(CostModel::of(&tree).unwrap().of_value(&nested(120)), None);
    }

    #[test]
    fn deep_chains_are_too_complex() {
        let mut defs = serde_json::Map::new();
        for number in 0..1000 {
            let next = json!({"$ref": format!("#/$defs/d{}", number + 1)});
            defs.insert(format!("d{number}"), next);
        }
        defs.insert("d1000".to_owned(), json!(true));
        let schema = json!({"$ref": "#/$defs/d0", "$defs": defs});
        assert_eq!(CostModel::of(&schema).err(), Some(TooComplex));
    }

    #[test]
    fn nested_unevaluated_keywords_multiply() {
        let nested = |depth| {
            (0..depth).fold(
                json!(true),
                |inner, _| json!({"allOf": [inner], "unevaluatedProperties": false}),
            )
        };
        assert!(CostModel::of(&nested(5)).is_ok());
        assert_eq!(CostModel::of(&nested(30)).err(), Some(TooComplex));
    }

    #[test]
    fn long_texts_and_lists_cost_what_is_matched() {
        let text = "a".repeat(1 << 20);
        let cost = |schema: Value, value: Value| CostModel::of(&schema).unwrap().of_value(&value);
        assert_eq!(cost(json!({"properties": {"a": {}}}), json!({"a": text})), Some(2));
        assert!(cost(json!({"pattern": "^a+$"}), json!(text)).is_some());
        assert_eq!(cost(json!({"pattern": "^(?=a)(a|a)*$"}), json!(text)), None);
        let numbers: Vec<u32> = (0..100_000).collect();
        assert_eq!(cost(json!({"items": {"enum": numbers}}), json!(numbers)), None);
        assert!(cost(json!({"items": {"type": "integer"}}), json!(numbers)).is_some());
    }

    #[test]
    fn pointers_are_decoded() {
        let schema = json!({"$ref": "#/$defs/a%20b~1c", "$defs": {"a b/c": {"enum": [1, 2, 3]}}});
        assert_eq!(CostModel::of(&schema).unwrap().of_value(&json!(1)), Some(3));
    }
}
