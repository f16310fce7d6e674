//! How a command lays out what it prints.

use crate::error::CommandError;

/// How a command lays out what it prints.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OutputFormat {
    /// Columns for people.
    #[default]
    Table,
    /// More columns for people.
    Wide,
    /// As the gateway gave it.
    Json,
    /// The same as YAML.
    Yaml,
}

impl OutputFormat {
    /// All of them by name.
    pub const NAMES: [&'static str; 4] = ["table", "wide", "json", "yaml"];

    /// Reads a name.
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

/// Everything that was said about how to print.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutputStyle {
    /// The format.
    pub format: OutputFormat,
    /// Whether columns have headings.
    pub headings: bool,
}
