//! `muster schema`: JSON Schemas of the configuration files.

use std::process::ExitCode;

use clap::{Args, builder::PossibleValuesParser};
use muster_config::formats::{FORMATS, FileFormat};

use crate::{error::CommandError, output::Printer};

/// Print the JSON Schema of a configuration file, for your editor
///
/// Without a KIND, lists the kinds. The schemas are JSON Schema draft 2020-12.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  muster schema
  muster schema mcpserver > mcpserver.schema.json
  muster schema config > config.schema.json")]
pub(crate) struct Schema {
    /// The kind of file
    #[arg(value_parser = PossibleValuesParser::new(FORMATS.iter().map(|format| format.name)))]
    kind: Option<String>,
}

pub(crate) fn run(args: &Schema) -> Result<ExitCode, CommandError> {
    let found = |kind: &String| FORMATS.iter().find(|format| format.name == *kind);
    let text = match args.kind.as_ref().and_then(found) {
        Some(format) => format!("{:#}", format.schema()),
        None => FORMATS.iter().map(listed).collect::<Vec<_>>().join("\n"),
    };
    Printer::stdout().line(&text)?;
    Ok(ExitCode::SUCCESS)
}

fn listed(FileFormat { name, files, .. }: &FileFormat) -> String {
    format!("{name:<14}{files}")
}
