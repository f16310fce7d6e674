//! `muster schema`: JSON Schemas of the configuration files, and CustomResourceDefinitions.

use std::process::ExitCode;

use clap::{Args, builder::PossibleValuesParser};
use muster_config::{
    crd::{CustomResource, RESOURCES},
    formats::{FORMATS, FileFormat},
};

use crate::{error::CommandError, output::Printer};

/// Print the JSON Schema of a configuration file, for your editor
///
/// Without a KIND, lists the kinds. The schemas are JSON Schema draft 2020-12. With --crd, prints the
/// CustomResourceDefinition of a kind of Kubernetes resource instead, or of all.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  muster schema
  muster schema mcpserver > mcpserver.schema.json
  muster schema config > config.schema.json
  muster schema --crd | kubectl apply -f -
  muster schema --crd mcpservers")]
pub(crate) struct Schema {
    /// The kind of file
    #[arg(value_parser = PossibleValuesParser::new(FORMATS.iter().map(|format| format.name)))]
    kind: Option<String>,
    /// Print the CustomResourceDefinition of this kind of resource, or of every kind
    #[arg(
        long,
        value_name = "RESOURCE",
        num_args = 0..=1,
        default_missing_value = "all",
        conflicts_with = "kind",
        value_parser = PossibleValuesParser::new(
            std::iter::once("all").chain(RESOURCES.iter().map(|resource| resource.plural))
        )
    )]
    crd: Option<String>,
}

pub(crate) fn run(args: &Schema) -> Result<ExitCode, CommandError> {
    let found = |kind: &String| FORMATS.iter().find(|format| format.name == *kind);
    let text = match (&args.crd, args.kind.as_ref().and_then(found)) {
        (Some(name), _) => match CustomResource::named(name) {
            Some(resource) => resource.manifest(),
            None => {
                RESOURCES.iter().map(CustomResource::manifest).collect::<Vec<_>>().join("---\n")
            }
        }
        .trim_end()
        .to_owned(),
        (None, Some(format)) => format!("{:#}", format.schema()),
        (None, None) => FORMATS.iter().map(listed).collect::<Vec<_>>().join("\n"),
    };
    Printer::stdout().line(&text)?;
    Ok(ExitCode::SUCCESS)
}

fn listed(FileFormat { name, files, .. }: &FileFormat) -> String {
    format!("{name:<14}{files}")
}
