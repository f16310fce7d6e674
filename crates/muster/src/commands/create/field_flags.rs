//! The flags of `muster create mcpserver`, generated from the field table.

use std::sync::LazyLock;

use clap::{Arg, ArgAction, ArgMatches, Command, FromArgMatches, builder::TypedValueParser as _};
use muster_config::mcpserver::fields::SPEC;
use muster_core::{
    fields::{Field, FieldType},
    json::{Raw, RawObject},
};

use crate::{commands::completion, error::CommandError};

/// The values of the flags, as typed. Each field that fits on a command line has a flag.
#[derive(Debug)]
pub(super) struct FieldFlags(Vec<(&'static Field, Vec<String>)>);

impl FieldFlags {
    /// Sets the fields in the arguments of a core tool.
    pub(super) fn set(&self, arguments: &mut RawObject<'_>) -> Result<(), CommandError> {
        for (field, values) in &self.0 {
            let name = field.name;
            match (&field.holds, values.first()) {
                (FieldType::Map(_), _) => arguments.set_value(name, &pairs(field, values)?),
                (FieldType::List(_), _) => {
                    let items = values.iter().flat_map(|value| value.split(',')).map(str::trim);
                    let items: Vec<&str> = items.filter(|item| !item.is_empty()).collect();
                    arguments.set_value(name, &items);
                }
                (FieldType::Boolean, Some(value)) => arguments.set_value(name, &(value == "true")),
                (FieldType::Integer { .. }, Some(value)) => {
                    arguments.set_value(name, &value.parse::<i64>().unwrap_or_default());
                }
                (_, Some(value)) => arguments.set_value(name, value),
                (_, None) => (),
            }
        }
        Ok(())
    }
}

fn pairs(field: &Field, pairs: &[String]) -> Result<Raw, CommandError> {
    let mut object = RawObject::new();
    for pair in pairs {
        // The value may be a secret: only the flag is named.
        let (key, value) = pair.split_once('=').ok_or_else(|| {
            let flag = flag_name(field);
            CommandError::new(format!("a value of --{flag} has no `=`"))
                .hint(format!("write --{flag} KEY=VALUE"))
        })?;
        object.set_value(key.to_owned(), value);
    }
    Ok(object.to_raw())
}

impl FromArgMatches for FieldFlags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let given = FLAGS.iter().filter_map(|(field, _)| {
            let values = matches.get_many::<String>(field.name)?;
            Some((*field, values.cloned().collect()))
        });
        Ok(Self(given.collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl clap::Args for FieldFlags {
    fn augment_args(command: Command) -> Command {
        command.args(FLAGS.iter().map(|(field, name)| flag(field, name)))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

/// The fields that fit on a command line, with the names of their flags.
static FLAGS: LazyLock<Vec<(&Field, String)>> = LazyLock::new(|| {
    let fits = |field: &&Field| !matches!(field.holds, FieldType::Object(_) | FieldType::Any);
    SPEC.all().filter(fits).map(|field| (field, flag_name(field))).collect()
});

fn flag(field: &'static Field, name: &'static str) -> Arg {
    let meaning = field.meaning.replace('`', "");
    let arg = Arg::new(field.name).long(name).action(ArgAction::Set);
    let arg = if name == field.name { arg } else { arg.visible_alias(field.name) };
    match &field.holds {
        FieldType::Map(_) => arg
            .action(ArgAction::Append)
            .value_name("KEY=VALUE")
            .help(format!("{meaning} (can be repeated)")),
        FieldType::List(_) => arg
            .value_name("WORDS")
            .allow_hyphen_values(true)
            .help(format!("{meaning}, with commas between")),
        FieldType::Boolean => {
            arg.value_name("BOOL").num_args(0..=1).default_missing_value("true").help(meaning)
        }
        FieldType::Integer { min, max } => {
            let range = clap::value_parser!(i64).range(*min..=*max);
            let checked = range.map(|number| number.to_string());
            arg.value_name("N").value_parser(checked).help(meaning)
        }
        FieldType::EnumByCheck(words) => arg
            .value_name("TYPE")
            .add(completion::fixed(words))
            .help(format!("{meaning} ({})", words.join(", "))),
        _ => arg.value_name("TEXT").help(meaning),
    }
}

/// The flag of a field: `tool-prefix` of `toolPrefix`, and for mappings `header` of `headers`.
fn flag_name(field: &Field) -> String {
    let mut name = String::new();
    for letter in field.name.chars() {
        if letter.is_ascii_uppercase() {
            name.push('-');
        }
        name.push(letter.to_ascii_lowercase());
    }
    match (&field.holds, name.strip_suffix('s')) {
        (FieldType::Map(_), Some(singular)) => singular.to_owned(),
        _ => name,
    }
}
