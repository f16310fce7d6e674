//! CLI configs: the files that turn a command line program into tools.

pub mod fields;
mod lint;

use muster_core::{
    cli::{BackgroundProcesses, CliConfig, CliTool, CredentialFiles, Param, ParamType, Placement},
    effect::Effect,
    policy::pattern::Pattern,
    python,
};

use self::fields::{ARGUMENT, CONFIG, TOOL};
pub use self::lint::lint;
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

const EFFECTS: &[(&str, Effect)] =
    &[("read", Effect::Read), ("write", Effect::Write), ("destructive", Effect::Destructive)];

const BACKGROUND: &[(&str, BackgroundProcesses)] =
    &[("end", BackgroundProcesses::End), ("keep", BackgroundProcesses::Keep)];

const CREDENTIAL_FILES: &[(&str, CredentialFiles)] =
    &[("allow", CredentialFiles::Allow), ("refuse", CredentialFiles::Refuse)];

/// Programs whose options end at the first operand and that print the operands after it.
const PRINTING_PROGRAMS: &[&str] = &["echo", "printf"];

const UNPROTECTED: &str = "a value that begins with `-` is read as an option of the program; \
    set `end_of_options: \"--\"` on the tool if the program honours it";

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
    let inherit_env = reader.nullable(&fields, "inherit_env", texts);
    let working_dir = reader.nullable(&fields, "working_dir", Reader::text);
    let category = reader.nullable(&fields, "category", Reader::text);
    let end_of_options = reader.nullable(&fields, "end_of_options", Reader::text);
    let background_processes = reader.optional(
        &fields,
        "background_processes",
        BackgroundProcesses::default(),
        |reader, node| reader.choice(node, BACKGROUND),
    );
    let credential_files =
        reader.optional(&fields, "credential_files", CredentialFiles::default(), |reader, node| {
            reader.choice(node, CREDENTIAL_FILES)
        });
    let tags = reader.optional(&fields, "tags", Vec::new(), texts);
    let global_args = reader.optional(&fields, "global_args", Vec::new(), |reader, node| {
        reader.list(node, |reader, node| param(reader, node, Owner::Cli))
    });
    let defaults = ToolDefaults {
        end_of_options: end_of_options.and_then(|word| word.0),
        prints_operands: command.as_deref().is_some_and(prints_operands),
        background_processes: background_processes.unwrap_or_default(),
    };
    let tools = reader.required(&fields, "tools", |reader, node| {
        reader.list(node, |reader, node| tool(reader, node, &defaults))
    });
    Some(CliConfig {
        name: name?,
        description: description?,
        command: command?,
        env: env?,
        inherit_env: inherit_env?.0,
        working_dir: working_dir?.0,
        credential_files: credential_files?,
        category: category?.0,
        tags: tags?,
        global_args: global_args?,
        tools: tools?,
    })
}

/// The defaults that a tool takes from its CLI.
struct ToolDefaults {
    end_of_options: Option<String>,
    /// Whether a positional value can only be printed.
    prints_operands: bool,
    background_processes: BackgroundProcesses,
}

/// Whether the program only prints its operands and its command already contains the first one, so that no later word
/// is read as an option.
fn prints_operands(command: &str) -> bool {
    let mut words = python::split(command);
    let prints = words.next().is_some_and(|program| PRINTING_PROGRAMS.contains(&program));
    prints && words.next().is_some_and(|operand| !operand.starts_with('-'))
}

fn tool(reader: &mut Reader, node: &Node, defaults: &ToolDefaults) -> Option<CliTool> {
    let fields = reader.fields(node, &TOOL)?;
    let name = reader.required(&fields, "name", Reader::text);
    let description = reader.required(&fields, "description", Reader::text);
    let command = reader.optional(&fields, "command", String::new(), Reader::text);
    let end_of_options = match fields.get("end_of_options") {
        None => Some(defaults.end_of_options.clone()),
        Some(_) => reader.nullable(&fields, "end_of_options", Reader::text).map(|word| word.0),
    };
    // An empty word disables the one of the config.
    let end_of_options = end_of_options.map(|word| word.filter(|word| !word.is_empty()));
    let protected = defaults.prints_operands || matches!(&end_of_options, Some(Some(_)));
    let params = reader.optional(&fields, "args", Vec::new(), |reader, node| {
        reader.list(node, |reader, node| param(reader, node, Owner::Tool { protected }))
    });
    let timeout = reader.nullable(&fields, "timeout", Reader::number);
    let effect = reader.nullable(&fields, "effect", |reader, node| reader.choice(node, EFFECTS));
    let background_processes = reader
        .nullable(&fields, "background_processes", |reader, node| reader.choice(node, BACKGROUND));
    let network = reader.optional(&fields, "network", false, Reader::boolean);
    Some(CliTool {
        name: name?,
        description: description?,
        command: command?,
        params: params?,
        timeout: timeout?.0,
        effect: effect?.0,
        network: network?,
        end_of_options: end_of_options?,
        background_processes: background_processes?.0.unwrap_or(defaults.background_processes),
    })
}

/// The owner of a parameter. Parameters of the CLI as a whole are always flags.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Owner {
    Cli,
    /// `protected`: the program cannot read a positional value as an option.
    Tool {
        protected: bool,
    },
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
    let pattern = reader.nullable(&fields, "pattern", pattern);
    let dash = reader.optional(&fields, "allow_leading_dash", false, Reader::boolean);
    let recursive = reader.optional(&fields, "recursive", false, Reader::boolean);
    let (name, flag) = (name?, flag?.0);
    let placement = match owner {
        Owner::Tool { .. } if cwd? => Placement::WorkingDir,
        Owner::Tool { .. } if stdin? => Placement::Stdin,
        Owner::Tool { .. } if positional? => Placement::Positional,
        Owner::Tool { .. } | Owner::Cli => Placement::by_flag(flag.as_deref(), &name),
    };
    let protected = owner == Owner::Tool { protected: true };
    let allow_leading_dash = dash? || protected;
    if allow_leading_dash && !protected && placement == Placement::Positional {
        let node = fields.get("allow_leading_dash").unwrap_or(node);
        reader.within("allow_leading_dash", |reader| reader.warn(node, UNPROTECTED));
    }
    Some(Param {
        name,
        description: description?,
        kind: kind?,
        required: required?,
        default: default?.0,
        placement,
        choices: choices?.0.unwrap_or_default(),
        pattern: pattern?.0,
        allow_leading_dash,
        recursive: recursive?,
    })
}

fn pattern(reader: &mut Reader, node: &Node) -> Option<Pattern> {
    let pattern = Pattern::new(&reader.text(node)?);
    match pattern.check() {
        Ok(()) => Some(pattern),
        Err(err) => reader.refuse(node, err.to_string(), "write a regular expression"),
    }
}

fn texts(reader: &mut Reader, node: &Node) -> Option<Vec<String>> {
    reader.list(node, Reader::text)
}

#[cfg(test)]
mod tests;
