//! Error messages for invalid command lines.

use std::process::ExitCode;

use clap::{
    Command,
    error::{ContextKind, ContextValue, ErrorKind},
};

use muster_core::suggest::similar;

use crate::{entry::plain, error::CommandError, output};

/// Reports an invalid command line, or prints the requested help.
pub(super) fn report(error: &clap::Error, program: &Command, words: &[String]) -> ExitCode {
    let is_help = matches!(
        error.kind(),
        ErrorKind::DisplayHelp
            | ErrorKind::DisplayVersion
            | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
    );
    if is_help {
        // Print requested help to standard output, whichever stream clap would use.
        drop(output::Printer::stdout().part(&error.render().to_string()));
        return ExitCode::SUCCESS;
    }
    let error = understood(error, program, words);
    output::report("Error", &error);
    error.exit_code()
}

fn understood(failure: &clap::Error, program: &Command, words: &[String]) -> CommandError {
    let parsed = ParsedCommand::of(program, words);
    let text = |kind| match failure.get(kind) {
        Some(ContextValue::String(text)) => Some(text.clone()),
        Some(ContextValue::Strings(texts)) => Some(texts.join(" ")),
        _ => None,
    };
    let message = match failure.kind() {
        ErrorKind::InvalidSubcommand => {
            let word = text(ContextKind::InvalidSubcommand).unwrap_or_default();
            format!("unknown command \"{word}\" for \"{}\"", parsed.path)
        }
        ErrorKind::UnknownArgument => {
            let word = text(ContextKind::InvalidArg).unwrap_or_default();
            if word.starts_with("--") {
                format!("unknown flag: {word}")
            } else if let Some(short) = word.strip_prefix('-') {
                format!("unknown shorthand flag: '{short}' in {word}")
            } else if parsed.max == Some(0) {
                format!("unknown command \"{word}\" for \"{}\"", parsed.path)
            } else {
                parsed.count()
            }
        }
        ErrorKind::MissingRequiredArgument => {
            let missing = text(ContextKind::InvalidArg).unwrap_or_default();
            let flags: Vec<String> = missing
                .split_whitespace()
                .filter_map(|word| word.strip_prefix("--"))
                .map(|flag| format!("\"{flag}\""))
                .collect();
            if flags.is_empty() || parsed.given < parsed.min {
                parsed.count()
            } else {
                format!("required flag(s) {} not set", flags.join(", "))
            }
        }
        ErrorKind::InvalidValue => invalid_value(failure),
        ErrorKind::ArgumentConflict => conflict(failure, &parsed),
        _ => first_line(failure),
    };
    let error = CommandError::new(message);
    let near = match failure.kind() {
        ErrorKind::InvalidSubcommand => {
            let typed = text(ContextKind::InvalidSubcommand).unwrap_or_default();
            let names = parsed.command.get_subcommands().map(Command::get_name);
            similar(&typed, names).first().map(|near| (*near).to_owned())
        }
        ErrorKind::UnknownArgument => {
            let typed = text(ContextKind::InvalidArg).unwrap_or_default();
            let typed = typed.trim_start_matches('-');
            let flags = parsed.command.get_arguments().filter_map(clap::Arg::get_long);
            similar(typed, flags).first().map(|near| format!("--{near}"))
        }
        _ => text(ContextKind::SuggestedArg).or_else(|| text(ContextKind::SuggestedValue)),
    };
    let error = match near {
        Some(near) => error.hint(format!("did you mean `{near}`?")),
        None => error,
    };
    error.hint(format!("see `{} --help`", parsed.path))
}

fn first_line(failure: &clap::Error) -> String {
    let text = plain(&failure.to_string());
    text.lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned()
}

/// The message about two flags that exclude each other.
fn conflict(failure: &clap::Error, parsed: &ParsedCommand<'_>) -> String {
    let flag = |kind| match failure.get(kind) {
        Some(ContextValue::String(text)) => Some(text),
        Some(ContextValue::Strings(texts)) => texts.first(),
        _ => None,
    };
    let flag = |kind| Some(flag(kind)?.strip_prefix("--")?.split(' ').next()?.to_owned());
    let (Some(one), Some(other)) = (flag(ContextKind::InvalidArg), flag(ContextKind::PriorArg))
    else {
        return first_line(failure);
    };
    let mut set = [one, other];
    let order = |name: &String| {
        parsed.command.get_arguments().position(|arg| arg.get_long() == Some(name.as_str()))
    };
    set.sort_by_key(order);
    let group = set.join(" ");
    set.sort();
    format!(
        "if any flags in the group [{group}] are set none of the others can be; [{}] were all set",
        set.join(" ")
    )
}

/// The message about an invalid value, with the valid ones.
fn invalid_value(failure: &clap::Error) -> String {
    let Some(ContextValue::Strings(valid)) = failure.get(ContextKind::ValidValue) else {
        return first_line(failure);
    };
    let valid = valid.join(", ");
    match (failure.get(ContextKind::InvalidArg), failure.get(ContextKind::InvalidValue)) {
        (Some(ContextValue::String(arg)), Some(ContextValue::String(value)))
            if arg.starts_with("--transport ") =>
        {
            format!("unsupported transport: {value} (supported: {valid})")
        }
        _ if valid.is_empty() => first_line(failure),
        _ => format!("{} (valid: {valid})", first_line(failure)),
    }
}

/// The part of a command line that could be parsed: the subcommand and the number of its arguments.
struct ParsedCommand<'a> {
    command: &'a Command,
    path: String,
    /// The number of required arguments.
    min: usize,
    /// The maximum number of arguments, if there is one.
    max: Option<usize>,
    /// The number of given arguments.
    given: usize,
}

impl<'a> ParsedCommand<'a> {
    fn of(program: &'a Command, words: &[String]) -> Self {
        let mut command = program;
        let mut path = program.get_name().to_owned();
        let mut given = 0;
        let mut words = words.iter().skip(1);
        while let Some(word) = words.next() {
            if word.starts_with('-') && word.len() > 1 {
                let takes = |arg: &&clap::Arg| {
                    let long = word.strip_prefix("--").is_some_and(|l| arg.get_long() == Some(l));
                    let short = word.strip_prefix('-').and_then(|rest| rest.chars().next());
                    let short = word.len() == 2 && arg.get_short() == short;
                    (long || short) && arg.get_action().takes_values()
                };
                if command.get_arguments().any(|arg| takes(&arg)) {
                    words.next();
                }
                continue;
            }
            match command.find_subcommand(word).filter(|_| given == 0) {
                Some(inner) => {
                    command = inner;
                    path = format!("{path} {}", inner.get_name());
                }
                None => given += 1,
            }
        }
        let min = command.get_positionals().filter(|word| word.is_required_set()).count();
        let many = |word: &clap::Arg| matches!(word.get_action(), clap::ArgAction::Append);
        let max = match command.get_positionals().any(many) {
            true => None,
            false => Some(command.get_positionals().count()),
        };
        Self { command, path, min, max, given }
    }

    fn count(&self) -> String {
        let Self { min, max, given, .. } = self;
        match max {
            Some(max) if max == min => format!("accepts {max} arg(s), received {given}"),
            Some(max) if given > max => {
                format!("accepts at most {max} arg(s), received {given}")
            }
            _ => format!("requires at least {min} arg(s), only received {given}"),
        }
    }
}
