//! The file formats, with the JSON Schema of each.

use muster_core::fields::FieldTable;
use serde_json::Value as Json;

use crate::{
    cli, mcpserver, policy,
    resource::ResourceFormat,
    schema::{self, Root},
    service, serviceclass,
    settings::Settings,
    toolset, workflow,
};

/// A file format.
#[derive(Debug, Clone, Copy)]
pub struct FileFormat {
    /// Its name: `mcpserver`.
    pub name: &'static str,
    /// The files that have it.
    pub files: &'static str,
    root: Root,
}

/// Every file format.
pub static FORMATS: &[FileFormat] = &[
    FileFormat::table("cli", "CLI configs: clis/*.yaml", &cli::fields::CONFIG),
    FileFormat::table("policy", "Policies: policies/*.yaml", &policy::fields::POLICY),
    FileFormat::resource("toolset", "Toolsets: toolsets/*.yaml", &toolset::FORMAT),
    FileFormat::resource("mcpserver", "MCP servers: mcpservers/*.yaml", &mcpserver::FORMAT),
    FileFormat::resource("workflow", "Workflows: workflows/*.yaml", &workflow::FORMAT),
    FileFormat::resource(
        "serviceclass",
        "Service classes: serviceclasses/*.yaml",
        &serviceclass::FORMAT,
    ),
    FileFormat::resource("service", "Services: services/*.yaml", &service::FORMAT),
    FileFormat::table("config", "The gateway's configuration: config.yaml", Settings::table()),
];

impl FileFormat {
    const fn table(name: &'static str, files: &'static str, table: &'static FieldTable) -> Self {
        Self { name, files, root: Root::Table(table) }
    }

    const fn resource(
        name: &'static str,
        files: &'static str,
        format: &'static ResourceFormat,
    ) -> Self {
        Self { name, files, root: Root::Forms { long: format.long, short: format.short } }
    }

    /// Its JSON Schema (draft 2020-12), for editors.
    pub fn schema(&self) -> Json {
        schema::document(self.files, self.root)
    }
}

#[cfg(test)]
mod tests;
