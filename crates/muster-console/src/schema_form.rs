//! A form for the arguments that a JSON Schema describes.

use serde_json::{Map, Value};

use crate::{
    html::{Element, el},
    request::PageRequest,
    widgets::cut,
};

/// The maximum number of fields. The arguments of a larger schema are entered as JSON.
const MAX_FIELDS: usize = 60;
/// The maximum length of a field's description, in bytes.
const MAX_ABOUT: usize = 600;
/// The field for all arguments at once.
const ALL: &str = "json";

/// The fields of a form.
#[derive(Debug)]
pub(crate) struct SchemaForm {
    fields: Vec<FormField>,
}

#[derive(Debug)]
struct FormField {
    name: String,
    control: Control,
    is_required: bool,
    about: String,
    default: Option<String>,
}

/// The control by which a value is entered.
#[derive(Debug, PartialEq, Eq)]
enum Control {
    Text,
    Number,
    /// One of these words.
    Choice(Vec<String>),
    /// A list of texts, one per line.
    Lines,
    /// Names and values, one `NAME=VALUE` per line.
    Pairs,
    Json,
}

impl SchemaForm {
    /// The form of a schema.
    pub(crate) fn new(schema: &Value) -> Self {
        let required: Vec<&str> = match schema.get("required").and_then(Value::as_array) {
            Some(names) => names.iter().filter_map(Value::as_str).collect(),
            None => Vec::new(),
        };
        let properties = schema.get("properties").and_then(Value::as_object);
        let properties = properties.filter(|properties| properties.len() <= MAX_FIELDS);
        let field = |(name, property): (&String, &Value)| FormField {
            name: name.clone(),
            control: Control::of(property),
            is_required: required.contains(&name.as_str()),
            about: property
                .get("description")
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned(),
            default: property
                .get("default")
                .map(|value| cut(&shown(value), MAX_ABOUT).into_owned())
                .filter(|text| !text.is_empty()),
        };
        let mut fields: Vec<_> = properties.into_iter().flatten().map(field).collect();
        fields.sort_by_key(|field| !field.is_required);
        Self { fields }
    }

    /// The fields, with the values that were entered.
    pub(crate) fn fields(&self, entered: &PageRequest) -> Vec<Element> {
        let mut fields: Vec<Element> =
            self.fields.iter().map(|field| field.element(entered)).collect();
        fields.push(self.all(entered));
        fields
    }

    /// The same with the fields in `first` at the top, and all others folded away until one of them has a value.
    pub(crate) fn folded(&self, entered: &PageRequest, first: &[&str]) -> Vec<Element> {
        let place = |field: &FormField| first.iter().position(|name| *name == field.name);
        let is_first = |field: &&FormField| field.is_required || place(field).is_some();
        let (mut shown, others): (Vec<&FormField>, Vec<_>) = self.fields.iter().partition(is_first);
        shown.sort_by_key(|field| place(field).unwrap_or(first.len()));
        let is_open = others.iter().any(|field| field.is_entered(entered));
        let elements = |fields: &[&FormField]| -> Vec<Element> {
            fields.iter().map(|field| field.element(entered)).collect()
        };
        let more = el("details")
            .flag("open", is_open)
            .put(el("summary").put("More fields"))
            .put(el("div").class("fields").put(elements(&others)));
        let mut fields = elements(&shown);
        fields.extend((!others.is_empty()).then_some(more));
        fields.push(self.all(entered));
        fields
    }

    /// The field for all arguments at once.
    fn all(&self, entered: &PageRequest) -> Element {
        let all = el("textarea")
            .attr("id", ALL)
            .attr("name", ALL)
            .attr("rows", "5")
            .attr("spellcheck", "false")
            .put(entered.field(ALL).unwrap_or_default());
        let label = el("label").attr("for", ALL).put("All arguments as a JSON object");
        if self.fields.is_empty() {
            return el("div").put(label).put(all);
        }
        let hint = el("p").class("hint").put("If this is filled in, the fields above are ignored.");
        el("details")
            .flag("open", entered.field(ALL).is_some_and(|text| !text.is_empty()))
            .put(el("summary").put("Write JSON instead"))
            .put((label, hint, all))
    }

    /// Returns the arguments that were entered. Empty fields are left out.
    pub(crate) fn arguments(&self, entered: &PageRequest) -> Result<Map<String, Value>, String> {
        if let Some(text) = entered.field(ALL).filter(|text| !text.trim().is_empty()) {
            return serde_json::from_str(text)
                .map_err(|error| format!("the JSON object cannot be read: {error}"));
        }
        let mut arguments = Map::new();
        for field in &self.fields {
            let text = entered.field(&field.input()).unwrap_or_default();
            if !text.is_empty() {
                arguments.insert(field.name.clone(), field.control.value(&field.name, text)?);
            }
        }
        Ok(arguments)
    }
}

impl FormField {
    /// The name of its input.
    fn input(&self) -> String {
        format!("arg.{}", self.name)
    }

    /// Whether it has a value.
    fn is_entered(&self, entered: &PageRequest) -> bool {
        entered.field(&self.input()).is_some_and(|text| !text.is_empty())
    }

    fn element(&self, entered: &PageRequest) -> Element {
        let id = self.input();
        let value = entered.field(&id).unwrap_or_default();
        let mark = if self.is_required { " required" } else { "" };
        let label =
            el("label").attr("for", &id).put(&self.name).put(el("span").class("muted").put(mark));
        let hint = match &self.control {
            Control::Lines => "one in a line",
            Control::Pairs => "NAME=VALUE, one in a line",
            Control::Json => "JSON",
            Control::Text | Control::Number | Control::Choice(_) => "",
        };
        let default = self.default.as_ref().map(|default| format!("default: {default}"));
        let about = cut(&self.about, MAX_ABOUT).into_owned();
        let parts = [Some(about), Some(hint.to_owned()), default];
        let parts: Vec<String> =
            parts.into_iter().flatten().filter(|part| !part.is_empty()).collect();
        let about = el("p").class("hint").put(parts.join(" · "));
        let named = |element: Element| {
            element.attr("id", &id).attr("name", &id).flag("required", self.is_required)
        };
        let control = match &self.control {
            Control::Text => named(el("input").attr("type", "text"))
                .attr("autocomplete", "off")
                .attr("value", value),
            Control::Number => {
                named(el("input").attr("type", "number")).attr("step", "any").attr("value", value)
            }
            Control::Choice(words) => {
                let option = |word: &str, shown: &str| {
                    el("option").attr("value", word).flag("selected", word == value).put(shown)
                };
                let words = words.iter().map(|word| option(word, word));
                let words = std::iter::once(option("", "–")).chain(words);
                named(el("select")).put(words.collect::<Vec<_>>())
            }
            Control::Lines | Control::Pairs | Control::Json => {
                named(el("textarea")).attr("rows", "3").attr("spellcheck", "false").put(value)
            }
        };
        el("div").put((label, about, control))
    }
}

impl Control {
    fn of(property: &Value) -> Self {
        let kind = property.get("type").and_then(Value::as_str).unwrap_or_default();
        if let Some(words) = property.get("enum").and_then(Value::as_array) {
            let texts: Option<Vec<String>> =
                words.iter().map(|word| word.as_str().map(str::to_owned)).collect();
            return texts.map_or(Self::Json, Self::Choice);
        }
        let holds = |key: &str, kinds: &[&str]| {
            let inner =
                property.get(key).and_then(|inner| inner.get("type")).and_then(Value::as_str);
            inner.is_some_and(|inner| kinds.contains(&inner))
        };
        match kind {
            "string" => Self::Text,
            "integer" | "number" => Self::Number,
            "boolean" => Self::Choice(vec!["true".to_owned(), "false".to_owned()]),
            "array" if holds("items", &["string"]) => Self::Lines,
            "object" if holds("additionalProperties", &["string"]) => Self::Pairs,
            _ => Self::Json,
        }
    }

    fn value(&self, name: &str, text: &str) -> Result<Value, String> {
        let lines = || text.lines().map(str::trim_end).filter(|line| !line.is_empty());
        Ok(match self {
            Self::Text => Value::from(text),
            // Pass on a text that is not a number: the check of the arguments reports the problem.
            Self::Number => serde_json::from_str(text).unwrap_or_else(|_| Value::from(text)),
            Self::Choice(words) if words.iter().all(|word| word == "true" || word == "false") => {
                Value::from(text == "true")
            }
            Self::Choice(_) => Value::from(text),
            Self::Lines => lines().collect(),
            Self::Pairs => {
                let pair = |line: &str| match line.split_once('=') {
                    Some((key, value)) => Ok((key.trim().to_owned(), Value::from(value))),
                    None => Err(format!("`{name}`: write NAME=VALUE, not `{line}`")),
                };
                Value::Object(lines().map(pair).collect::<Result<_, _>>()?)
            }
            Self::Json => serde_json::from_str(text)
                .map_err(|error| format!("`{name}` is not JSON: {error}"))?,
        })
    }
}

/// A default as text.
fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use http::Request;
    use serde_json::{Value, json};

    use super::SchemaForm;
    use crate::{html::Html, request::PageRequest};

    fn schema() -> Value {
        json!({"type": "object", "required": ["name"], "properties": {
            "limit": {"type": "integer", "default": 5},
            "name": {"type": "string", "description": "<who>"},
            "deep": {"type": "boolean"},
            "kind": {"enum": ["a", "b"]},
            "args": {"type": "array", "items": {"type": "string"}},
            "env": {"type": "object", "additionalProperties": {"type": "string"}},
            "any": {"type": ["object", "null"]},
        }})
    }

    fn entered(pairs: &[(&str, &str)]) -> PageRequest {
        let form = form_urlencoded::Serializer::new(String::new()).extend_pairs(pairs).finish();
        PageRequest::new(&Request::post("/console").body(Bytes::from(form)).unwrap())
    }

    #[test]
    fn values_have_the_types_of_the_schema() {
        let read = |pairs: &[(&str, &str)]| {
            SchemaForm::new(&schema()).arguments(&entered(pairs)).map(Value::Object)
        };
        let all = [
            ("arg.name", "Ann"),
            ("arg.limit", "12"),
            ("arg.deep", "false"),
            ("arg.kind", "b"),
            ("arg.args", "-v\r\nx y\r\n\r\n"),
            ("arg.env", "A=1\nB=x=y"),
            ("arg.any", "{\"c\": [1]}"),
        ];
        let expected = json!({"limit": 12, "name": "Ann", "deep": false, "kind": "b", "args": ["-v", "x y"],
            "env": {"A": "1", "B": "x=y"}, "any": {"c": [1]}});
        assert_eq!(read(&all).unwrap(), expected);
        assert_eq!(read(&[("arg.limit", "x"), ("arg.other", "1")]).unwrap(), json!({"limit": "x"}));
        assert_eq!(read(&[("arg.name", "Ann"), ("json", "{\"q\": 1}")]).unwrap(), json!({"q": 1}));
        assert_eq!(
            read(&[("arg.env", "novalue")]).unwrap_err(),
            "`env`: write NAME=VALUE, not `novalue`"
        );
        assert!(read(&[("arg.any", "{")]).unwrap_err().starts_with("`any` is not JSON"));
        assert!(
            read(&[("json", "[1]")]).unwrap_err().starts_with("the JSON object cannot be read")
        );
    }

    #[test]
    fn other_fields_are_folded_away_until_they_have_a_value() {
        let shown = |pairs: &[(&str, &str)]| {
            let fields = SchemaForm::new(&schema()).folded(&entered(pairs), &["deep"]);
            Html::default().put(fields).into_string()
        };
        let page = shown(&[("arg.deep", "true")]);
        let (first, folded) = page.split_once("<details><summary>More fields<").unwrap();
        let places = ["arg.deep", "arg.name"].map(|name| first.find(&format!("id=\"{name}\"")));
        assert!(places[0].is_some() && places[0] < places[1], "{page}");
        assert!(["arg.limit", "arg.kind", "arg.any"].iter().all(|name| folded.contains(name)));
        assert!(shown(&[("arg.limit", "3")]).contains("<details open><summary>More fields<"));
    }

    #[test]
    fn required_fields_come_first_and_keep_what_was_entered() {
        let fields = SchemaForm::new(&schema()).fields(&entered(&[("arg.name", "\"><b>")]));
        let page = Html::default().put(fields).into_string();
        assert!(page.starts_with("<div><label for=\"arg.name\">name"), "{page}");
        assert!(page.contains("value=\"&quot;&gt;&lt;b&gt;\""), "{page}");
        assert!(page.contains("&lt;who&gt;") && page.contains("default: 5"), "{page}");
    }
}
