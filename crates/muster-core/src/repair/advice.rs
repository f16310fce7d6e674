//! Advice on invalid arguments: a fix, and the schema of the argument in question.

use muster_schema::{Violation, ViolationKind};
use serde_json::{Value, value::RawValue};

use super::{lenient_object::members, schema_view::SchemaView};
use crate::{
    json::{Raw, raw},
    next_step::NextStep,
    schema::validator::BoundedSchema,
    suggest,
    text::shortened,
};

/// The longest schema shown with an error.
const MAX_SCHEMA_LEN: usize = 1_500;

/// How to fix invalid arguments.
#[derive(Debug)]
pub struct Advice {
    /// The fix, in one line.
    pub fix: String,
    /// The schema of the argument in question.
    pub fragment: Option<SchemaFragment>,
}

/// The schema of one argument.
#[derive(Debug)]
pub struct SchemaFragment {
    /// Its name.
    pub argument: String,
    /// Its schema; `None` if it is too long.
    pub schema: Option<Raw>,
}

/// Returns how to fix arguments that violate a schema; `None` if they are valid.
pub fn advice(tool: &str, schema: &RawValue, arguments: &RawValue) -> Option<Advice> {
    let shape = SchemaView::of(schema);
    let given: Value = serde_json::from_str(arguments.get()).ok()?;
    let validator = BoundedSchema::compile(shape.root())?;
    let first = validator.violations(&given, arguments.get().len(), 1).into_iter().next()?;
    let Violation { pointer, kind, message: _ } = first;
    let mut steps =
        pointer.split('/').skip(1).map(|step| step.replace("~1", "/").replace("~0", "~"));
    let Some(argument) = steps.next() else {
        return Some(at_top(tool, &shape, arguments, &kind));
    };
    let place = steps.fold(argument.clone(), |place, step| place + "." + &step);
    let place = &*shortened(&place);
    let fix = match kind {
        ViolationKind::Missing(property) => format!("add `{property}` to `{place}`"),
        ViolationKind::Unexpected(unexpected) => {
            let unexpected = unexpected.join("`, `");
            format!("take `{}` out of `{place}`", shortened(&unexpected))
        }
        ViolationKind::Type => match expected(&shape, &argument, place) {
            Some(kinds) => format!("give `{place}` as {kinds}"),
            None => format!("change the type of `{place}`"),
        },
        ViolationKind::Other => format!("change `{place}` so that it fits its schema"),
    };
    Some(Advice { fix, fragment: fragment(&shape, &argument) })
}

/// The advice on an undeclared argument.
pub(super) fn undeclared(tool: &str, shape: &SchemaView, name: &str) -> Advice {
    if let Some(&near) = suggest::similar(name, shape.names()).first() {
        let fix = format!("there is no argument `{name}`; did you mean `{near}`?");
        return Advice { fix, fragment: fragment(shape, near) };
    }
    let names: Vec<&str> = shape.names().take(MAX_NAMES).collect();
    let name = shortened(name);
    let fix = match names.as_slice() {
        [] if shape.is_open() => format!("put `{name}` into `arguments` if it is one"),
        [] => format!("`{}` takes no arguments: leave out `{name}`", shortened(tool)),
        names => format!("there is no argument `{name}`; there are: `{}`", names.join("`, `")),
    };
    Advice { fix, fragment: None }
}

const MAX_NAMES: usize = 20;

fn at_top(tool: &str, shape: &SchemaView, given: &RawValue, kind: &ViolationKind) -> Advice {
    match kind {
        ViolationKind::Missing(property) => missing(tool, shape, given, property),
        ViolationKind::Unexpected(unexpected) => {
            let name = unexpected.first().map(String::as_str).unwrap_or_default();
            undeclared(tool, shape, name)
        }
        ViolationKind::Type | ViolationKind::Other => {
            Advice { fix: format!("send {}", example(tool, shape)), fragment: None }
        }
    }
}

fn missing(tool: &str, shape: &SchemaView, given: &RawValue, name: &str) -> Advice {
    let given = members(given).unwrap_or_default();
    let unknown_keys = given.iter().map(|(key, _)| key.as_str()).filter(|key| !shape.declares(key));
    let fix = match suggest::similar(name, unknown_keys).first() {
        Some(near) => format!("`{near}` is called `{name}`"),
        None => format!("add `{name}`: {}", example(tool, shape)),
    };
    Advice { fix, fragment: fragment(shape, name) }
}

fn fragment(shape: &SchemaView, argument: &str) -> Option<SchemaFragment> {
    let schema = raw(shape.resolved(shape.property(argument)?));
    let schema = (schema.get().len() <= MAX_SCHEMA_LEN).then_some(schema);
    Some(SchemaFragment { argument: argument.to_owned(), schema })
}

/// The types of an argument, as text; only for the argument itself, not its members.
fn expected(shape: &SchemaView, argument: &str, place: &str) -> Option<String> {
    let kinds = shape.types(shape.property(argument)?).filter(|_| argument == place)?;
    Some(kinds.join(" or "))
}

/// An example call of the tool.
pub(super) fn example(tool: &str, shape: &SchemaView) -> String {
    let required = shape.required();
    let shown = if required.is_empty() { shape.names().take(1).collect() } else { required };
    let placeholder = |name: &str| {
        let kinds = shape.property(name).and_then(|schema| shape.types(schema));
        format!("<{}>", kinds.as_ref().and_then(|kinds| kinds.first()).unwrap_or(&"value"))
    };
    let arguments: serde_json::Map<String, Value> = shown
        .into_iter()
        .take(MAX_NAMES)
        .map(|name| (name.to_owned(), Value::String(placeholder(name))))
        .collect();
    let name = shortened(tool).into_owned();
    NextStep::CallTool { name, arguments: raw(&arguments) }.to_string()
}
