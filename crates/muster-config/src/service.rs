//! The file of one service: who made it with what, and what became of it.
//!
//! The long form is that of a Kubernetes resource. The short form has the fields of `spec` at the
//! top.

use muster_core::{name::check_resource_name, value::Value};
use muster_workflow::service::{Record, Service};
use serde_json::{Map, Value as Json};

use super::{
    LoadError, Loaded,
    mcpserver::{DEFAULT_NAMESPACE, flag, name_or, pairs, put_status, text_or_empty},
    reader::{Fields, Reader, Setting, load},
    resource::{self, Resource, json},
};
use crate::yaml::Node;

const SPEC: &[&str] = &["serviceClassName", "args", "autoStart"];
const SHORT: &[&str] = &["name", "serviceClassName", "args", "autoStart", "status"];

/// A service and what became of it.
#[derive(Debug, Clone, PartialEq)]
pub struct ServiceFile {
    /// What was asked for.
    pub service: Service,
    /// What became of it, as last written.
    pub record: Record,
}

/// Reads one file. A service without a name has that of its file, without the ending.
pub fn parse(text: &str, file_name: &str) -> Result<Loaded<ServiceFile>, LoadError> {
    load(text, |reader, node| {
        let found = match resource::is_short(node, &["serviceClassName"]) {
            true => short(reader, node, file_name),
            false => resource::read(reader, node, "Service", file_name, |reader, node| {
                let fields = reader.fields(node, "ServiceSpec", SPEC)?;
                spec(reader, &fields)
            }),
        }?;
        if let Err(invalid) = check_resource_name(&found.name) {
            return reader.refuse(node, invalid.to_string(), None);
        }
        let Asked { class, args, auto_start } = found.spec;
        let record = serde_json::from_value(found.status).unwrap_or_default();
        let service =
            Service { name: found.name, namespace: found.namespace, class, args, auto_start };
        Some(ServiceFile { service, record })
    })
}

fn short(reader: &mut Reader, node: &Node, file_name: &str) -> Option<Resource<Asked>> {
    let fields = reader.fields(node, "Service", SHORT)?;
    let name = text_or_empty(reader, &fields, "name");
    let spec = spec(reader, &fields);
    let status = reader.optional(&fields, "status", Json::Null, |_, node| Some(json(node)));
    Some(Resource {
        name: name_or(name?, file_name),
        namespace: DEFAULT_NAMESPACE.to_owned(),
        spec: spec?,
        status: status?,
    })
}

/// What a file asks for.
struct Asked {
    class: String,
    args: Map<String, Json>,
    auto_start: bool,
}

fn spec(reader: &mut Reader, fields: &Fields<'_>) -> Option<Asked> {
    let class = reader.required(fields, "serviceClassName", |reader, node| {
        let name = reader.text(node)?;
        match name.as_str() {
            "" => reader.refuse(node, "serviceClassName is required", None),
            _ => Some(name),
        }
    });
    let args = reader
        .nullable(fields, "args", |reader, node| reader.map(node, |_, node| Some(json(node))));
    let auto_start = flag(reader, fields, "autoStart");
    let Setting(args) = args?;
    let args = args.unwrap_or_default().into_iter().collect();
    Some(Asked { class: class?, args, auto_start: auto_start?.unwrap_or_default() })
}

/// The whole file.
pub fn text(file: &ServiceFile) -> String {
    let Service { name, namespace, class, args, auto_start } = &file.service;
    let key = |name: &str| Value::Text(name.to_owned());
    let mut spec = vec![(key("serviceClassName"), key(class))];
    if !args.is_empty() {
        spec.push((key("args"), Value::Map(pairs(args))));
    }
    spec.push((key("autoStart"), Value::Bool(*auto_start)));
    resource::text("Service", (name, namespace), spec, pairs(&file.record), None)
}

/// The file with another record and everything else, comments included, as it was. None where that
/// cannot be done.
pub fn with_record(file: &str, record: &Record) -> Option<String> {
    let next = put_status(file, record)?;
    let before = parse(file, "x").ok()?.value;
    let after = parse(&next, "x").ok()?.value;
    (after == ServiceFile { record: record.clone(), ..before }).then_some(next)
}

#[cfg(test)]
mod tests {
    use muster_workflow::service::{Record, Service};
    use serde_json::json;

    use super::{LoadError, ServiceFile, parse, text, with_record};

    fn file() -> ServiceFile {
        let args = json!({"port": 8080, "text": "a: b", "list": [1, {"x": null}]});
        ServiceFile {
            service: Service {
                name: "shop".to_owned(),
                namespace: "tools".to_owned(),
                class: "web".to_owned(),
                args: args.as_object().unwrap().clone(),
                auto_start: true,
            },
            record: Record {
                state: "running".to_owned(),
                given: json!({"start": {"id": "w-1"}}).as_object().unwrap().clone(),
                created_at: "2026-02-04T10:00:00Z".to_owned(),
                ..Record::default()
            },
        }
    }

    #[test]
    fn what_is_written_reads_back() {
        let written = text(&file());
        assert_eq!(parse(&written, "x").unwrap().value, file());
    }

    #[test]
    fn another_record_leaves_the_rest_alone() {
        let by_hand = "# mine\nkind: Service\nspec:\n  serviceClassName: web # why\n";
        let record = Record { state: "stopped".to_owned(), ..Record::default() };
        let after = with_record(by_hand, &record).unwrap();
        assert_eq!(after, format!("{by_hand}status:\n  state: stopped\n"));
        let again = Record { state: "failed".to_owned(), ..Record::default() };
        let last = with_record(&after, &again).unwrap();
        assert_eq!(last, format!("{by_hand}status:\n  state: failed\n"));
    }

    #[test]
    fn a_class_is_needed() {
        let error = parse("kind: Service\nspec: {}\n", "x").unwrap_err().to_string();
        assert_eq!(error, "spec → serviceClassName: Field required");
        let named = parse("spec: {serviceClassName: c}\n", "by-file").unwrap().value;
        assert_eq!(named.service.name, "by-file");
        assert!(!named.service.auto_start);
    }

    #[test]
    fn the_short_form() {
        let by_hand = "serviceClassName: web # why\nargs: {port: 1}\n";
        let record = Record { state: "stopped".to_owned(), ..Record::default() };
        let after = with_record(by_hand, &record).unwrap();
        assert_eq!(after, format!("{by_hand}status:\n  state: stopped\n"));
        let read = parse(&after, "by-file").unwrap().value;
        assert_eq!((&*read.service.name, &*read.service.class), ("by-file", "web"));
        assert_eq!((read.service.args["port"].clone(), read.record), (json!(1), record));
        let LoadError::Fields(problems) = parse("serviceClasName: web\n", "x").unwrap_err() else {
            panic!("fields")
        };
        assert_eq!(problems[0].to_string(), "serviceClassName: Field required");
        let fix = "line 1 has `serviceClasName`: write `serviceClassName`";
        assert_eq!(problems[0].fix.as_deref(), Some(fix));
    }
}
