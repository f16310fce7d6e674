//! Builds the argument vector of a CLI tool from checked call arguments. Pure, so it can be tested
//! exhaustively.
//!
//! **Invariant:** every value ends up inside exactly one argument, verbatim. No shell sees it.

use muster_core::{
    arguments::Arguments,
    cli::{CliConfig, CliTool, Docker, Executor, Param, ParamType, Placement},
    python,
    value::Value,
};

use crate::environment::Environment;

/// The whole argument vector, the program first.
pub fn words(
    config: &CliConfig,
    tool: &CliTool,
    place: &Executor,
    arguments: &Arguments,
    environment: &Environment,
) -> Vec<String> {
    let mut words = match place {
        Executor::Local => Vec::new(),
        Executor::Docker(docker) => docker_words(docker, environment),
    };
    words.extend(environment.command_words(&config.command));
    words.extend(python::split(&tool.command).map(str::to_owned));
    if tool.end_of_options.is_none() {
        words.extend(positionals(&tool.params, arguments));
    }
    for param in &tool.params {
        if let Some(value) = arguments.get(&param.name).or(param.default.as_ref()) {
            words.extend(flag_words(param, &python::text(value), is_on(value)));
        }
    }
    for param in &config.global_args {
        words.extend(global_words(param, environment));
    }
    if let Some(end_of_options) = &tool.end_of_options {
        let mut operands = positionals(&tool.params, arguments).peekable();
        if operands.peek().is_some() {
            words.push(end_of_options.clone());
            words.extend(operands);
        }
    }
    words
}

fn docker_words(docker: &Docker, environment: &Environment) -> Vec<String> {
    let mut words: Vec<String> = ["docker", "run", "--rm"].map(str::to_owned).into();
    for volume in &docker.volumes {
        words.extend(["-v".to_owned(), environment.expand(volume)]);
    }
    if let Some(network) = &docker.network {
        words.extend(["--network".to_owned(), network.clone()]);
    }
    if let Some(directory) = &docker.working_dir {
        words.extend(["-w".to_owned(), directory.clone()]);
    }
    words.push(docker.image.clone());
    words
}

fn positionals<'a>(
    params: &'a [Param],
    arguments: &'a Arguments,
) -> impl Iterator<Item = String> + 'a {
    params
        .iter()
        .filter(|param| param.placement == Placement::Positional)
        .filter_map(|param| arguments.get(&param.name))
        .map(python::text)
}

fn flag_words(param: &Param, text: &str, on: bool) -> Vec<String> {
    match (&param.placement, param.kind) {
        (Placement::Positional | Placement::Stdin | Placement::WorkingDir, _) => Vec::new(),
        (Placement::Flag(flag) | Placement::Joined(flag), ParamType::Boolean) => {
            if on {
                vec![flag.clone()]
            } else {
                Vec::new()
            }
        }
        (Placement::Joined(flag), _) => vec![format!("{flag}{text}")],
        (Placement::Flag(flag), _) => vec![flag.clone(), text.to_owned()],
    }
}

/// Whether a value switches a boolean flag on. A definition may quote it: `"true"`.
fn is_on(value: &Value) -> bool {
    matches!(value, Value::Bool(true)) || value.as_text() == Some("true")
}

fn global_words(param: &Param, environment: &Environment) -> Vec<String> {
    let Some(default) = &param.default else { return Vec::new() };
    let written = python::text(default);
    let text = environment.expand(&written);
    if text.is_empty() || (written.contains('$') && text == written) {
        return Vec::new();
    }
    flag_words(param, &text, matches!(text.as_str(), "true" | "True" | "1"))
}

/// The working directory of a call: the value of the first such parameter that is present.
pub fn working_dir<'a>(tool: &CliTool, arguments: &'a Arguments) -> Option<&'a Value> {
    first_present(tool, arguments, &Placement::WorkingDir)
}

/// The standard input of a call.
pub fn input(tool: &CliTool, arguments: &Arguments) -> Option<String> {
    first_present(tool, arguments, &Placement::Stdin).map(python::text)
}

fn first_present<'a>(
    tool: &CliTool,
    arguments: &'a Arguments,
    placement: &Placement,
) -> Option<&'a Value> {
    let mut params = tool.params.iter().filter(|param| param.placement == *placement);
    params.find_map(|param| arguments.get(&param.name))
}

#[cfg(test)]
mod tests;
