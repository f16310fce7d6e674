//! Resource files: MCP servers, workflows, service classes and services.
//!
//! The long form is that of a Kubernetes resource. The short form has the fields of `spec` at the top.

mod put_member;

use muster_core::{
    fields::{Field, FieldDefault, FieldTable, FieldType, NONE},
    json::raw,
    value::Value,
};

use super::{
    reader::{Fields, Nullable, Reader},
    writer,
};
use crate::yaml::{self, Node, NodeValue};

pub(super) use self::put_member::{put_member, put_status};

pub(crate) const API_VERSION: &str = "muster.giantswarm.io/v1alpha1";

/// The namespace of resources whose file does not name one.
const DEFAULT_NAMESPACE: &str = "default";

/// One kind of resource file.
#[derive(Debug)]
pub struct ResourceFormat {
    /// Its `kind`.
    pub kind: &'static str,
    /// The fields of the long form.
    pub long: &'static FieldTable,
    /// The fields of the short form.
    pub short: &'static FieldTable,
    /// The fields of `spec`.
    pub spec: &'static FieldTable,
    /// Fields of `spec` that only a file in the short form has at the top.
    short_only: &'static [&'static str],
}

impl ResourceFormat {
    pub(super) const fn new(
        long: &'static FieldTable,
        short: &'static FieldTable,
        spec: &'static FieldTable,
        short_only: &'static [&'static str],
    ) -> Self {
        Self { kind: long.model, long, short, spec, short_only }
    }
}

/// The format of resources of a kind, from the table of their `spec`.
macro_rules! resource_format {
    ($kind:literal, $spec:expr, $short_only:expr) => {{
        use muster_core::fields::{Field, FieldTable};
        use $crate::resource::{ResourceFormat, SHORT_FIELDS, long_fields};

        static LONG_FIELDS: [Field; 5] = long_fields(&[$kind], $spec);
        static LONG: FieldTable = FieldTable::new($kind, $kind, &LONG_FIELDS);
        static SHORT: FieldTable =
            FieldTable::new($kind, concat!($kind, " in the short form"), &SHORT_FIELDS)
                .including(&[$spec]);
        ResourceFormat::new(&LONG, &SHORT, $spec, $short_only)
    }};
}
pub(super) use resource_format;

const NAME: &str = "Its name, unique among resources of its kind";
const STATUS: &str = "Its last known state; written by muster";
const UNNAMED: FieldDefault = FieldDefault::Unset("the file's name without its extension");

/// The fields of the long form.
pub(super) const fn long_fields(
    kind: &'static [&'static str],
    spec: &'static FieldTable,
) -> [Field; 5] {
    [
        Field::optional(
            "apiVersion",
            FieldType::Enum(&[API_VERSION]),
            NONE,
            "The version of the format",
        ),
        Field::optional("kind", FieldType::Enum(kind), NONE, "The kind of resource"),
        Field::optional("metadata", FieldType::Object(&METADATA), NONE, "Its name and labels"),
        Field::required("spec", FieldType::Object(spec), "Its definition"),
        Field::optional("status", FieldType::Any, NONE, STATUS),
    ]
}

/// The fields of the short form in addition to those of `spec`.
pub(super) static SHORT_FIELDS: [Field; 2] = [
    Field::optional("name", FieldType::String, UNNAMED, NAME).or_null(),
    Field::optional("status", FieldType::Any, NONE, STATUS),
];

static METADATA: FieldTable = FieldTable::new(
    "ObjectMeta",
    "metadata",
    &[
        Field::optional("name", FieldType::String, UNNAMED, NAME).or_null(),
        Field::optional(
            "namespace",
            FieldType::String,
            FieldDefault::Json("\"default\""),
            "The namespace of its events",
        )
        .or_null(),
        Field::optional(
            "labels",
            FieldType::Any,
            NONE,
            "Labels by name; `filter_tools` finds the tools of workflows by theirs",
        )
        .or_null(),
        Field::optional("annotations", FieldType::Any, NONE, "Preserved, not used").or_null(),
        Field::optional("creationTimestamp", FieldType::Any, NONE, "Preserved, not used").or_null(),
    ],
);

/// The form of a resource file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    Long,
    Short,
}

/// A resource file.
pub(super) struct Resource<'n, T> {
    pub(super) name: String,
    pub(super) namespace: String,
    /// Metadata that is preserved, but not used.
    pub(super) extra: Vec<(Value, Value)>,
    pub(super) spec: T,
    pub(super) status: Option<&'n Node>,
}

/// The mapping that holds the fields of `spec`.
#[derive(Clone, Copy)]
pub(super) struct SpecNode<'n> {
    pub(super) node: &'n Node,
    pub(super) form: Form,
    format: &'static ResourceFormat,
}

impl<'n> SpecNode<'n> {
    /// Its fields. Unknown ones are reported as warnings.
    pub(super) fn fields(self, reader: &mut Reader) -> Option<Fields<'n>> {
        let table = match self.form {
            Form::Long => self.format.spec,
            Form::Short => self.format.short,
        };
        reader.fields(self.node, table)
    }
}

/// Reads a file in either form. A resource without a name gets that of its file.
pub(super) fn read<'n, T>(
    reader: &mut Reader,
    node: &'n Node,
    format: &'static ResourceFormat,
    file_name: &str,
    spec: impl FnOnce(&mut Reader, SpecNode<'_>) -> Option<T>,
) -> Option<Resource<'n, T>> {
    if is_short(node, format) {
        let fields = reader.known_fields(node, format.short)?;
        let name = text_or_empty(reader, &fields, "name");
        let spec = spec(reader, SpecNode { node, form: Form::Short, format });
        return Some(Resource {
            name: or_else(name?, file_name),
            namespace: DEFAULT_NAMESPACE.to_owned(),
            extra: Vec::new(),
            spec: spec?,
            status: fields.get("status"),
        });
    }
    let fields = reader.fields(node, format.long)?;
    let kind = reader.optional(&fields, "kind", (), |reader, node| match node.as_text() {
        Some(found) if found == format.kind => Some(()),
        _ => {
            let (expected, fix) = (format.kind, format!("write `kind: {}`", format.kind));
            reader.refuse(node, format!("Input should be '{expected}'"), fix)
        }
    });
    let metadata = reader.optional(&fields, "metadata", None, |reader, node| {
        let fields = reader.fields(node, &METADATA)?;
        let name = text_or_empty(reader, &fields, "name");
        let namespace = text_or_empty(reader, &fields, "namespace");
        Some(Some((name?, namespace?, other_pairs(node, &["name", "namespace"]))))
    });
    let spec = reader.required(&fields, "spec", |reader, node| {
        spec(reader, SpecNode { node, form: Form::Long, format })
    });
    let (name, namespace, extra) = metadata?.unwrap_or_default();
    kind?;
    Some(Resource {
        name: or_else(name, file_name),
        namespace: or_else(namespace, DEFAULT_NAMESPACE),
        extra,
        spec: spec?,
        status: fields.get("status"),
    })
}

/// Whether a file is in the short form: it has a field that only the short form has at the top, or none
/// that only the long form has.
fn is_short(node: &Node, format: &ResourceFormat) -> bool {
    let NodeValue::Map(pairs) = &node.value else { return false };
    let has = |name: &str| pairs.iter().any(|(key, _)| key.as_text() == Some(name));
    let is_long = ["apiVersion", "kind", "metadata"].into_iter().any(has);
    !has("spec") && (!is_long || format.short_only.iter().copied().any(has))
}

fn text_or_empty(reader: &mut Reader, fields: &Fields<'_>, name: &str) -> Option<String> {
    let Nullable(text) = reader.nullable(fields, name, Reader::text)?;
    Some(text.unwrap_or_default())
}

fn or_else(name: String, fallback: &str) -> String {
    if name.is_empty() { fallback.to_owned() } else { name }
}

/// The pairs of a mapping whose keys are not in `names`.
pub(super) fn other_pairs(node: &Node, names: &[&str]) -> Vec<(Value, Value)> {
    let NodeValue::Map(pairs) = &node.value else { return Vec::new() };
    let others =
        pairs.iter().filter(|(key, _)| key.as_text().is_none_or(|key| !names.contains(&key)));
    others.map(|(key, value)| (key.to_value(), value.to_value())).collect()
}

/// The fields of a serializable struct.
pub(super) fn pairs(value: &impl serde::Serialize) -> Vec<(Value, Value)> {
    match Value::from_json(&raw(value)) {
        Value::Map(pairs) => pairs,
        _ => Vec::new(),
    }
}

/// Writes a file in the long form.
pub(super) fn text(
    kind: &str,
    (name, namespace): (&str, &str),
    extra: Vec<(Value, Value)>,
    spec: Vec<(Value, Value)>,
    status: Vec<(Value, Value)>,
) -> String {
    let text = |text: &str| Value::Text(text.to_owned());
    let mut metadata = vec![(text("name"), text(name)), (text("namespace"), text(namespace))];
    metadata.extend(extra);
    let mut document = vec![
        (text("apiVersion"), text(API_VERSION)),
        (text("kind"), text(kind)),
        (text("metadata"), Value::Map(metadata)),
        (text("spec"), Value::Map(spec)),
    ];
    if !status.is_empty() {
        document.push((text("status"), Value::Map(status)));
    }
    writer::document(&document)
}

/// Returns the section of a file that has the fields of `spec`. The inner `None` stands for the top level, the outer
/// for a file that cannot be read.
#[expect(clippy::option_option, reason = "a file in the short form is not one that cannot be read")]
pub(super) fn section(file: &str) -> Option<Option<&'static str>> {
    let root = yaml::parse(file).ok()?;
    let NodeValue::Map(pairs) = &root.value else { return None };
    let is_long = pairs.iter().any(|(key, _)| key.as_text() == Some("spec"));
    Some(is_long.then_some("spec"))
}

/// The metadata of a file that is preserved when the file is rewritten.
pub(super) fn extra_metadata(file: &str) -> Vec<(Value, Value)> {
    let Ok(root) = yaml::parse(file) else { return Vec::new() };
    let NodeValue::Map(pairs) = &root.value else { return Vec::new() };
    let metadata = pairs.iter().find(|(key, _)| key.as_text() == Some("metadata"));
    metadata.map(|(_, metadata)| other_pairs(metadata, &["name", "namespace"])).unwrap_or_default()
}
