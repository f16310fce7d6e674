//! Service files.

pub mod fields;

use muster_core::{name::check_resource_name, value::Value};
use muster_workflow::service::{Service, ServiceRecord};
use serde::Deserialize;
use serde_json::{Map, Value as Json};

use self::fields::SPEC;
use super::{
    LoadError, Loaded,
    reader::{load_unique, values::json},
    resource::{self, Resource, ResourceFormat, pairs, put_status, resource_format},
};

/// The file format.
pub static FORMAT: ResourceFormat = resource_format!("Service", &SPEC, &["serviceClassName"]);

/// A service and its last known state.
#[derive(Debug, Clone, PartialEq)]
pub struct ServiceFile {
    /// Its definition.
    pub service: Service,
    /// Its last known state.
    pub record: ServiceRecord,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Spec {
    service_class_name: String,
    #[serde(default)]
    args: Map<String, Json>,
    #[serde(default)]
    auto_start: bool,
}

/// Reads a file. A service without a name gets that of its file, without the extension.
pub fn parse(text: &str, file_name: &str) -> Result<Loaded<ServiceFile>, LoadError> {
    load_unique(text, |reader, node| {
        let Resource { name, namespace, spec, status, .. } =
            resource::read(reader, node, &FORMAT, file_name, |reader, source| {
                let fields = source.fields(reader)?;
                let values = Json::Object(reader.values(&fields, &SPEC)?);
                let spec = serde_json::from_value(values).ok();
                match spec.filter(|spec: &Spec| !spec.service_class_name.is_empty()) {
                    Some(spec) => Some(spec),
                    None => reader.refuse(source.node, "serviceClassName is required", None),
                }
            })?;
        if let Err(invalid) = check_resource_name(&name) {
            return reader.refuse(node, invalid.to_string(), None);
        }
        let Spec { service_class_name: class, args, auto_start } = spec;
        // A broken status does not invalidate the file.
        let record = status.and_then(|status| serde_json::from_value(json(status)).ok());
        let service = Service { name, namespace, class, args, auto_start };
        Some(ServiceFile { service, record: record.unwrap_or_default() })
    })
}

/// Writes a file in the long form.
pub fn text(service: &Service) -> String {
    let Service { name, namespace, class, args, auto_start } = service;
    let key = |name: &str| Value::Text(name.to_owned());
    let mut spec = vec![(key("serviceClassName"), key(class))];
    if !args.is_empty() {
        spec.push((key("args"), Value::Map(pairs(args))));
    }
    spec.push((key("autoStart"), Value::Bool(*auto_start)));
    resource::text(FORMAT.kind, (name, namespace), Vec::new(), spec, Vec::new())
}

/// Replaces the status in the text of a file, and preserves everything else, comments included. `None`
/// where that is impossible.
pub fn with_record(file: &str, record: &ServiceRecord) -> Option<String> {
    let next = put_status(file, record)?;
    let before = parse(file, "x").ok()?.value;
    let after = parse(&next, "x").ok()?.value;
    (after == ServiceFile { record: record.clone(), ..before }).then_some(next)
}

#[cfg(test)]
mod tests {
    use muster_workflow::service::{Service, ServiceRecord};
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
            record: ServiceRecord {
                state: "running".to_owned(),
                given: json!({"start": {"id": "w-1"}}).as_object().unwrap().clone(),
                created_at: "2026-02-04T10:00:00Z".to_owned(),
                ..ServiceRecord::default()
            },
        }
    }

    #[test]
    fn what_is_written_reads_back() {
        let written = text(&file().service);
        let read = parse(&written, "x").unwrap().value;
        assert_eq!((read.service, read.record), (file().service, ServiceRecord::default()));
        let with_status = with_record(&written, &file().record).unwrap();
        assert_eq!(parse(&with_status, "x").unwrap().value, file());
    }

    #[test]
    fn another_record_leaves_the_rest_alone() {
        let by_hand = "# mine\nkind: Service\nspec:\n  serviceClassName: web # why\n";
        let record = ServiceRecord { state: "stopped".to_owned(), ..ServiceRecord::default() };
        let after = with_record(by_hand, &record).unwrap();
        assert_eq!(after, format!("{by_hand}status:\n  state: stopped\n"));
        let again = ServiceRecord { state: "failed".to_owned(), ..ServiceRecord::default() };
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
        let record = ServiceRecord { state: "stopped".to_owned(), ..ServiceRecord::default() };
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
