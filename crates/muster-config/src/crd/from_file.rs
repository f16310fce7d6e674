//! Conversion of definition files to the form of their Kubernetes resources.
//!
//! Files are read leniently: `yes` may be a boolean, `8080` text, and `string` an argument of a workflow. A resource
//! has one form for each value: the form that the reader of the file produces. A value that already has this form is
//! unchanged, and no defaults are added.

use muster_core::fields::{Field, FieldTable, FieldType, NONE};
use serde_json::{Map, Value as Json, json};

use crate::{
    LoadError, cli,
    kinds::DefinitionKind,
    mcpserver, policy,
    reader::{Reader, load, load_unique},
    resource::{self, ResourceFormat},
    service, serviceclass, toolset, workflow,
    yaml::{Node, NodeValue},
};

/// A definition from a file, in the form of its resource.
#[derive(Debug, Clone, PartialEq)]
pub struct ResourceDefinition {
    /// Its name.
    pub name: String,
    /// Its labels and annotations.
    pub metadata: Map<String, Json>,
    /// Its spec.
    pub spec: Map<String, Json>,
}

/// The metadata of a file that the resource keeps.
static METADATA: FieldTable = FieldTable::new(
    "ObjectMeta",
    "metadata",
    &[
        Field::nullable("labels", FieldType::Map(&FieldType::Scalar), NONE, "Its labels"),
        Field::nullable("annotations", FieldType::Map(&FieldType::Scalar), NONE, "Its annotations"),
    ],
);

/// Reads a file. Fields that its format does not have are left out. `file_name` is the name of the file without its
/// extension.
pub fn from_file(
    kind: DefinitionKind,
    text: &str,
    file_name: &str,
) -> Result<ResourceDefinition, LoadError> {
    match kind {
        DefinitionKind::McpServer => {
            let server = mcpserver::parse(text, file_name)?.value.spec;
            let mut found = by_table(text, file_name, &mcpserver::FORMAT)?;
            // A file may leave these fields out, because its reader derives them from other fields. A resource states
            // them.
            found.spec.entry("type").or_insert_with(|| json!(server.kind.as_str()));
            if server.auto_start {
                found.spec.insert("autoStart".to_owned(), json!(true));
            }
            Ok(found)
        }
        DefinitionKind::Workflow => {
            let workflow = workflow::parse(text, file_name)?.value;
            match by_table(text, file_name, &workflow::FORMAT) {
                Ok(mut found) => {
                    if let Some(args) = found.spec.get_mut("args") {
                        long_arguments(args);
                    }
                    Ok(found)
                }
                // The reader of workflows accepts more than its field table describes.
                Err(_) => with_metadata(text, workflow.name, workflow.spec.to_file()),
            }
        }
        DefinitionKind::ServiceClass => by_table(text, file_name, &serviceclass::FORMAT),
        DefinitionKind::Service => by_table(text, file_name, &service::FORMAT),
        DefinitionKind::Toolset => by_table(text, file_name, &toolset::FORMAT),
        DefinitionKind::Cli => bare(text, file_name, &cli::fields::CONFIG),
        DefinitionKind::Policy => bare(text, file_name, &policy::fields::POLICY),
    }
}

/// Reads a file whose spec is described by its field table.
fn by_table(
    text: &str,
    file_name: &str,
    format: &'static ResourceFormat,
) -> Result<ResourceDefinition, LoadError> {
    let read = load_unique(text, |reader, node| {
        let found = resource::read(reader, node, format, file_name, |reader, source| {
            let fields = source.fields(reader)?;
            reader.values(&fields, format.spec)
        })?;
        Some((found.name, found.spec))
    });
    let (name, spec) = read?.value;
    with_metadata(text, name, spec)
}

/// Reads a file that is a bare spec. Its resource is named after the file.
fn bare(
    text: &str,
    file_name: &str,
    table: &'static FieldTable,
) -> Result<ResourceDefinition, LoadError> {
    let spec = load(text, |reader, node| reader.object(node, table))?.value;
    let spec = whole_numbers(spec);
    Ok(ResourceDefinition { name: file_name.to_owned(), metadata: Map::new(), spec })
}

/// Expands workflow arguments that are only a type into mappings.
fn long_arguments(args: &mut Json) {
    for arg in args.as_object_mut().into_iter().flat_map(Map::values_mut) {
        if arg.is_string() {
            *arg = json!({"type": arg.take()});
        }
    }
}

/// Writes numbers without a fraction as an API server does.
fn whole_numbers(spec: Map<String, Json>) -> Map<String, Json> {
    fn whole(value: Json) -> Json {
        match value {
            Json::Number(number) => match number.as_f64().filter(|_| number.is_f64()) {
                Some(float) if float.fract() == 0.0 && float.abs() < MAX_EXACT => {
                    #[expect(clippy::cast_possible_truncation, reason = "it is whole and in range")]
                    let whole = float as i64;
                    json!(whole)
                }
                _ => Json::Number(number),
            },
            Json::Array(items) => items.into_iter().map(whole).collect(),
            Json::Object(members) => Json::Object(whole_numbers(members)),
            other => other,
        }
    }
    spec.into_iter().map(|(key, value)| (key, whole(value))).collect()
}

/// The whole numbers below this are exact as floats.
const MAX_EXACT: f64 = 9_007_199_254_740_992.0;

fn with_metadata(
    text: &str,
    name: String,
    spec: Map<String, Json>,
) -> Result<ResourceDefinition, LoadError> {
    let metadata = load(text, metadata)?.value;
    Ok(ResourceDefinition { name, metadata, spec: whole_numbers(spec) })
}

fn metadata(reader: &mut Reader, root: &Node) -> Option<Map<String, Json>> {
    let NodeValue::Map(pairs) = &root.value else { return Some(Map::new()) };
    let found = pairs.iter().find(|(key, _)| key.as_text() == Some("metadata"));
    match found {
        Some((_, node @ Node { value: NodeValue::Map(_), .. })) => {
            reader.within("metadata", |reader| reader.object(node, &METADATA))
        }
        _ => Some(Map::new()),
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use serde_json::{Value as Json, json};

    use super::{ResourceDefinition, from_file};
    use crate::{crd::tests::conforms, kinds::DefinitionKind};

    fn read(kind: DefinitionKind, text: &str) -> ResourceDefinition {
        let found = from_file(kind, text, "a").unwrap();
        conforms(kind, &Json::Object(found.spec.clone()));
        found
    }

    #[test]
    fn each_value_of_servers_and_workflows_has_the_form_of_the_resource() {
        let server = read(
            DefinitionKind::McpServer,
            "command: run\nargs: [--port, 8080, true]\nenv: {LEVEL: 3, TLS: yes}\nautoStart: 'no'\n",
        );
        assert_eq!(server.name, "a");
        assert_eq!(server.spec["args"], json!(["--port", "8080", "true"]));
        assert_eq!(server.spec["env"], json!({"LEVEL": "3", "TLS": "yes"}));
        assert_eq!(server.spec["autoStart"], false);
        assert_eq!(server.spec["type"], "stdio");
        let short = read(DefinitionKind::McpServer, "url: http://h/mcp\n");
        let expected = json!({"url": "http://h/mcp", "type": "streamable-http", "autoStart": true});
        assert_eq!(Json::Object(short.spec), expected);

        let workflow = read(
            DefinitionKind::Workflow,
            "args: {city: string}\nsteps: [{id: one, tool: x_a, args: {n: 1}}]\n",
        );
        assert_eq!(workflow.spec["args"], json!({"city": {"type": "string"}}));
    }

    #[test]
    fn each_value_of_a_class_has_the_form_of_the_resource() {
        let class = read(
            DefinitionKind::ServiceClass,
            "\
kind: ServiceClass
metadata: {name: db, namespace: x, labels: {tier: 1}, annotations: {live: yes}}
spec:
  serviceConfig:
    lifecycleTools:
      start: {tool: x_start, outputs: {port: 8080}}
      stop: {tool: x_stop}
    healthCheck: {interval: 30s, failureThreshold: '3'}
",
        );
        assert_eq!(class.name, "db");
        assert_eq!(class.metadata["labels"], json!({"tier": "1"}));
        assert_eq!(class.metadata["annotations"], json!({"live": "yes"}));
        assert_eq!(class.metadata.len(), 2);
        let config = &class.spec["serviceConfig"];
        assert_eq!(config["lifecycleTools"]["start"]["outputs"], json!({"port": "8080"}));
        assert_eq!(config["healthCheck"]["failureThreshold"], 3);
    }

    #[test]
    fn each_value_of_other_kinds_has_the_form_of_the_resource() {
        let service = read(DefinitionKind::Service, "serviceClassName: db\nautoStart: on\n");
        assert_eq!(service.spec["autoStart"], true);
        let toolset = read(DefinitionKind::Toolset, "description:\ntools: [x_*]\n");
        assert_eq!(Json::Object(toolset.spec), json!({"tools": ["x_*"]}));
        let policy = read(
            DefinitionKind::Policy,
            "default: disabled\ntools: {a: {args: {n: {max: '5'}}}}\ncallers: [{anonymous: 1, tools: {b: {}}}]\n",
        );
        assert_eq!(policy.spec["tools"]["a"]["args"]["n"]["max"], 5);
        assert_eq!(policy.spec["callers"][0]["anonymous"], true);
        let cli = read(
            DefinitionKind::Cli,
            "command: git\ntools: [{name: log, description: d, network: 'off', timeout: '30'}]\nx-a: 1\n",
        );
        assert_eq!(cli.spec["tools"][0]["network"], false);
        assert_eq!(cli.spec["tools"][0]["timeout"], 30);
        assert_eq!(cli.spec.get("x-a"), None);
    }

    #[test]
    fn what_has_the_form_of_a_resource_stays_as_it_is() {
        let check = |kind: DefinitionKind, spec: Json| {
            let file = json!({"kind": kind.file_kind(), "metadata": {"name": "a"}, "spec": spec});
            assert_eq!(Json::Object(read(kind, &crate::writer::object(&file)).spec), spec);
        };
        check(
            DefinitionKind::McpServer,
            json!({"type": "stdio", "command": "run", "autoStart": false, "timeout": 30}),
        );
        let args = json!({"city": {"type": "string", "default": "Rome"}});
        let step = json!({"id": "a", "tool": "x_a", "args": {"n": 1.5}, "allowFailure": false});
        check(DefinitionKind::Workflow, json!({"args": args, "steps": [step]}));
    }

    #[test]
    fn the_configs_of_the_repository_are_resources() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../configs");
        let mut count = 0;
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|extension| extension == "yaml") {
                read(DefinitionKind::Cli, &fs::read_to_string(&path).unwrap());
                count += 1;
            }
        }
        assert!(count > 5, "{count}");
    }
}
