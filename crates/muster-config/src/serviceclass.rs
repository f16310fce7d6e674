//! Service class files.

pub mod fields;

use muster_workflow::service::{ServiceClass, class::ClassSpec};
use serde_json::Value as Json;

use self::fields::SPEC;
use super::{
    LoadError, Loaded,
    reader::load_unique,
    resource::{self, ResourceFormat, resource_format},
};

/// The file format.
pub static FORMAT: ResourceFormat = resource_format!("ServiceClass", &SPEC, &["serviceConfig"]);

/// Reads a file. A class without a name gets that of its file, without the extension.
pub fn parse(text: &str, file_name: &str) -> Result<Loaded<ServiceClass>, LoadError> {
    load_unique(text, |reader, node| {
        let found = resource::read(reader, node, &FORMAT, file_name, |reader, source| {
            let fields = source.fields(reader)?;
            let values = reader.values(&fields, &SPEC)?;
            serde_json::from_value::<ClassSpec>(Json::Object(values)).ok()
        })?;
        let class = ServiceClass { name: found.name, namespace: found.namespace, spec: found.spec };
        match class.check() {
            Ok(()) => Some(class),
            Err(invalid) => reader.refuse(node, invalid.to_string(), None),
        }
    })
}

/// Writes a file in the long form. Metadata of the file `before` is preserved.
pub fn text(class: &ServiceClass, before: Option<&str>) -> String {
    let name = (class.name.as_str(), class.namespace.as_str());
    let extra = before.map(resource::extra_metadata).unwrap_or_default();
    resource::text(FORMAT.kind, name, extra, resource::pairs(&class.spec), Vec::new())
}

#[cfg(test)]
mod tests;
