//! CLI configs: the files that turn a command line program into tools.

pub mod fields;

use muster_core::cli::{CliConfig, CliTool, Param, ParamType, Placement};

use self::fields::{ARGUMENT, CONFIG, TOOL};
use super::{
    LoadError, Loaded,
    reader::{Reader, load},
};
use crate::yaml::Node;

const KINDS: &[(&str, ParamType)] = &[
    ("string", ParamType::String),
    ("integer", ParamType::Integer),
    ("number", ParamType::Number),
    ("boolean", ParamType::Boolean),
];

/// Reads a CLI config.
pub fn parse(text: &str) -> Result<Loaded<CliConfig>, LoadError> {
    load(text, config)
}

fn config(reader: &mut Reader, node: &Node) -> Option<CliConfig> {
    let fields = reader.fields(node, &CONFIG)?;
    let name = reader.optional(&fields, "name", "climax".to_owned(), Reader::text);
    let description = reader.optional(&fields, "description", String::new(), Reader::text);
    let command = reader.required(&fields, "command", Reader::text);
    let env =
        reader.optional(&fields, "env", Vec::new(), |reader, node| reader.map(node, Reader::text));
    let working_dir = reader.nullable(&fields, "working_dir", Reader::text);
    let category = reader.nullable(&fields, "category", Reader::text);
    let tags = reader.optional(&fields, "tags", Vec::new(), texts);
    let global_args = reader.optional(&fields, "global_args", Vec::new(), |reader, node| {
        reader.list(node, |reader, node| param(reader, node, Owner::Cli))
    });
    let tools = reader.required(&fields, "tools", |reader, node| reader.list(node, tool));
    Some(CliConfig {
        name: name?,
        description: description?,
        command: command?,
        env: env?,
        working_dir: working_dir?.0,
        category: category?.0,
        tags: tags?,
        global_args: global_args?,
        tools: tools?,
    })
}

fn tool(reader: &mut Reader, node: &Node) -> Option<CliTool> {
    let fields = reader.fields(node, &TOOL)?;
    let name = reader.required(&fields, "name", Reader::text);
    let description = reader.required(&fields, "description", Reader::text);
    let command = reader.optional(&fields, "command", String::new(), Reader::text);
    let params = reader.optional(&fields, "args", Vec::new(), |reader, node| {
        reader.list(node, |reader, node| param(reader, node, Owner::Tool))
    });
    let timeout = reader.nullable(&fields, "timeout", Reader::number);
    Some(CliTool {
        name: name?,
        description: description?,
        command: command?,
        params: params?,
        timeout: timeout?.0,
    })
}

/// The owner of a parameter. Those of the CLI as a whole are always flags.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Owner {
    Cli,
    Tool,
}

fn param(reader: &mut Reader, node: &Node, owner: Owner) -> Option<Param> {
    let fields = reader.fields(node, &ARGUMENT)?;
    let name = reader.required(&fields, "name", Reader::text);
    let description = reader.optional(&fields, "description", String::new(), Reader::text);
    let kind = reader
        .optional(&fields, "type", ParamType::String, |reader, node| reader.choice(node, KINDS));
    let required = reader.optional(&fields, "required", false, Reader::boolean);
    let default = reader.nullable(&fields, "default", |_, node| Some(node.to_value()));
    let flag = reader.nullable(&fields, "flag", Reader::text);
    let positional = reader.optional(&fields, "positional", false, Reader::boolean);
    let cwd = reader.optional(&fields, "cwd", false, Reader::boolean);
    let stdin = reader.optional(&fields, "stdin", false, Reader::boolean);
    let choices = reader.nullable(&fields, "enum", texts);
    let (name, flag) = (name?, flag?.0);
    let placement = match owner {
        Owner::Tool if cwd? => Placement::WorkingDir,
        Owner::Tool if stdin? => Placement::Stdin,
        Owner::Tool if positional? => Placement::Positional,
        Owner::Tool | Owner::Cli => Placement::by_flag(flag.as_deref(), &name),
    };
    Some(Param {
        name,
        description: description?,
        kind: kind?,
        required: required?,
        default: default?.0,
        placement,
        choices: choices?.0.unwrap_or_default(),
    })
}

fn texts(reader: &mut Reader, node: &Node) -> Option<Vec<String>> {
    reader.list(node, Reader::text)
}

#[cfg(test)]
mod tests;
