//! The output formats of commands that use a gateway.

use crate::error::CommandError;

/// The output format of commands that use a gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OutputFormat {
    /// A table for people.
    #[default]
    Table,
    /// A table with more columns and uncut cells.
    Wide,
    /// JSON, as the gateway returned it.
    Json,
    /// The same content as in JSON, as YAML.
    Yaml,
}

impl OutputFormat {
    /// The names of all formats.
    pub const NAMES: [&'static str; 4] = ["table", "wide", "json", "yaml"];

    /// Parses a name.
    pub fn parse(name: &str) -> Result<Self, CommandError> {
        match name {
            "table" => Ok(Self::Table),
            "wide" => Ok(Self::Wide),
            "json" => Ok(Self::Json),
            "yaml" => Ok(Self::Yaml),
            other => Err(CommandError::new(format!(
                "unsupported output format: \"{other}\" (valid: {})",
                Self::NAMES.join(", ")
            ))),
        }
    }
}

/// The output format and its options.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutputStyle {
    /// The format.
    pub format: OutputFormat,
    /// Whether columns have headings.
    pub headings: bool,
}
