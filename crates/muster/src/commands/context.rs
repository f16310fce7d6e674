//! `muster context`: manages named gateway endpoints.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use muster_client::contexts::{Context as Named, ContextError, Contexts};
use muster_config::writer;
use muster_core::{
    json::{RawObject, raw},
    value::Value,
};

use super::completion;
use crate::{
    error::CommandError,
    output::{self, Printer, yaml},
};

/// Manage named gateway endpoints
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  muster context add lab --endpoint http://localhost:8090/mcp --use
  muster context list
  muster context use lab
  muster context show lab --output yaml")]
pub(crate) struct Context {
    #[command(subcommand)]
    action: Option<ContextAction>,
    /// Print no confirmation
    #[arg(short, long, global = true)]
    quiet: bool,
}

#[derive(Debug, Subcommand)]
enum ContextAction {
    /// List all contexts; `*` marks the current one
    #[command(visible_alias = "ls")]
    List,
    /// Print the name of the current context
    Current,
    /// Set the current context
    #[command(visible_alias = "switch")]
    Use {
        /// The name of the context
        #[arg(add = completion::contexts())]
        name: String,
    },
    /// Add a context
    Add {
        /// The name of the context: lower-case letters, digits and hyphens
        name: String,
        /// The endpoint of the gateway
        #[arg(long, value_name = "URL")]
        endpoint: String,
        /// Set it as the current context
        #[arg(long = "use")]
        switch: bool,
    },
    /// Delete a context
    #[command(visible_aliases = ["rm", "remove"])]
    Delete {
        /// The name of the context
        #[arg(add = completion::contexts())]
        name: String,
        /// Delete without asking
        #[arg(short, long)]
        force: bool,
    },
    /// Rename a context
    Rename {
        /// The name of the context
        #[arg(add = completion::contexts())]
        from: String,
        /// The new name
        to: String,
    },
    /// Show one context
    #[command(visible_aliases = ["describe", "get"])]
    Show {
        /// The name of the context
        #[arg(add = completion::contexts())]
        name: String,
        /// The output format: text, json or yaml
        #[arg(short, long, value_name = "FORMAT", default_value = "text")]
        output: String,
    },
    /// Change the endpoint of a context
    #[command(visible_alias = "set")]
    Update {
        /// The name of the context
        #[arg(add = completion::contexts())]
        name: String,
        /// The endpoint of the gateway
        #[arg(long, value_name = "URL")]
        endpoint: String,
    },
}

pub(crate) fn run(args: &Context) -> Result<ExitCode, CommandError> {
    let contexts = Contexts::load()
        .map_err(|err| CommandError::new(format!("failed to load contexts: {err}")))?;
    let say = |text: &str| if args.quiet { Ok(()) } else { Printer::stdout().line(text) };
    let done = match args.action.as_ref().unwrap_or(&ContextAction::List) {
        ContextAction::List => list(&contexts, args.quiet),
        ContextAction::Current => match &contexts.current {
            Some(name) => Printer::stdout().line(name),
            None => Ok(()),
        },
        ContextAction::Use { name } => switch(contexts, name).and_then(|()| say(&switched(name))),
        ContextAction::Add { name, endpoint, switch } => {
            let words = add(contexts, name, endpoint, *switch)?;
            say(&words)
        }
        ContextAction::Delete { name, force } => match delete(contexts, name, *force)? {
            Some(words) => say(&words),
            None => Printer::stdout().line("Aborted."),
        },
        ContextAction::Rename { from, to } => {
            let failed =
                |err: ContextError| CommandError::new(format!("failed to rename context: {err}"));
            change(contexts, |all| all.rename(from, to)).map_err(failed)?;
            say(&format!("Context \"{from}\" renamed to \"{to}\"."))
        }
        ContextAction::Show { name, output } => show(&contexts, name, output),
        ContextAction::Update { name, endpoint } => {
            change(contexts, |all| all.update(name, endpoint)).map_err(|err| match err {
                ContextError::Unknown(name) => CommandError::new(format!(
                    "context \"{name}\" not found. Use 'muster context add' to create a new context"
                )),
                other => other.into(),
            })?;
            say(&format!("Context \"{name}\" updated."))
        }
    };
    done.map(|()| ExitCode::SUCCESS)
}

fn change(
    mut contexts: Contexts,
    how: impl FnOnce(&mut Contexts) -> Result<(), ContextError>,
) -> Result<(), ContextError> {
    how(&mut contexts)?;
    contexts.save()
}

fn list(contexts: &Contexts, quiet: bool) -> Result<(), CommandError> {
    let printer = Printer::stdout();
    if contexts.all.is_empty() {
        if quiet {
            return Ok(());
        }
        return printer.line(
            "No contexts configured yet.\n\nTo add one, run:\n  muster context add <name> --endpoint <url>\n\
             \nA gateway on this machine is found without one.",
        );
    }
    let wide = contexts.all.iter().map(|context| context.name.chars().count()).max();
    let wide = wide.unwrap_or(0).max("NAME".len());
    printer.line(&format!("CURRENT  {:<wide$}  ENDPOINT", "NAME"))?;
    for Named { name, endpoint, .. } in &contexts.all {
        let mark = if contexts.current.as_deref() == Some(name) { "*" } else { "" };
        printer.line(&format!("{mark:<7}  {name:<wide$}  {endpoint}"))?;
    }
    Ok(())
}

fn switched(name: &str) -> String {
    format!("Switched to context \"{name}\"")
}

fn switch(contexts: Contexts, name: &str) -> Result<(), CommandError> {
    change(contexts, |all| all.switch(name)).map_err(|err| match err {
        ContextError::Unknown(name) => CommandError::new(format!(
            "context \"{name}\" not found. Use 'muster context list' to see available contexts"
        )),
        other => other.into(),
    })
}

fn add(
    mut contexts: Contexts,
    name: &str,
    endpoint: &str,
    switch: bool,
) -> Result<String, CommandError> {
    let failed = |err: ContextError| CommandError::new(format!("failed to add context: {err}"));
    contexts.add(name, endpoint).map_err(failed)?;
    if switch {
        contexts.switch(name)?;
    }
    contexts.save().map_err(failed)?;
    let mut words = format!("Context \"{name}\" added.");
    if switch {
        words = format!("{words}\n{}", switched(name));
    } else if contexts.current.is_none() {
        words = format!("{words}\n\nTo use this context, run:\n  muster context use {name}");
    }
    Ok(words)
}

/// Deletes a context. Returns `None` if the user does not confirm.
fn delete(mut contexts: Contexts, name: &str, force: bool) -> Result<Option<String>, CommandError> {
    if contexts.get(name).is_none() {
        return Err(ContextError::Unknown(name.to_owned()).into());
    }
    let is_current = contexts.current.as_deref() == Some(name);
    let note = if is_current { " (current context)" } else { "" };
    if !force && !output::confirm(&format!("Delete context \"{name}\"{note}? [y/N] "))? {
        return Ok(None);
    }
    contexts.remove(name)?;
    contexts.save()?;
    let mut words = format!("Context \"{name}\" deleted.");
    if is_current {
        words.push_str("\nNote: This was the current context. Current context is now unset.");
    }
    Ok(Some(words))
}

fn show(contexts: &Contexts, name: &str, format: &str) -> Result<(), CommandError> {
    let unknown = || CommandError::from(ContextError::Unknown(name.to_owned()));
    let context = contexts.get(name).ok_or_else(unknown)?;
    let is_current = contexts.current.as_deref() == Some(name);
    let printer = Printer::stdout();
    match format {
        "json" => {
            let described = described(context, is_current, "Output").to_raw();
            let value: serde_json::Value =
                serde_json::from_str(described.get()).unwrap_or_default();
            printer.json(&value)
        }
        "yaml" => printer.line(&yaml::document(&raw(&described(context, is_current, "output")))),
        "text" => {
            let mut lines = vec![
                format!("Name:     {}", context.name),
                format!("Endpoint: {}", context.endpoint),
            ];
            if is_current {
                lines.push("Current:  yes".to_owned());
            }
            if !context.settings.is_empty() {
                lines.push("Settings:".to_owned());
            }
            for (key, value) in &context.settings {
                lines.push(format!("  {key}: {}", writer::scalar(value)));
            }
            printer.line(&lines.join("\n"))
        }
        other => Err(CommandError::new(format!(
            "unsupported output format: \"{other}\" (valid: text, json, yaml)"
        ))),
    }
}

fn described(context: &Named, is_current: bool, output: &'static str) -> RawObject<'static> {
    let mut object = RawObject::new();
    object.set_value("name", &context.name);
    object.set_value("endpoint", &context.endpoint);
    object.set_value("current", &is_current);
    if !context.settings.is_empty() {
        let mut settings = RawObject::new();
        for (key, value) in &context.settings {
            let key = if key == "output" { output.to_owned() } else { key.clone() };
            match value {
                Value::Text(text) => settings.set_value(key, text),
                other => settings.set_value(key, &writer::scalar(other)),
            }
        }
        object.set_value("settings", &settings.to_raw());
    }
    object
}
