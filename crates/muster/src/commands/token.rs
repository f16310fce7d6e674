//! `muster token`: named tokens for clients that cannot log in.

use std::{path::PathBuf, process::ExitCode};

use clap::{Args, Subcommand};
use muster_api::access::StaticTokenInfo;
use muster_auth::{
    access::tokens::{TokenFile, TokenFileError},
    clock::Clock,
};
use muster_client::user_dirs;
use muster_core::caller_directory::{TokenDraft, parse_lifetime};
use muster_engine::token_info::token_info;

use crate::{
    error::CommandError,
    output::{
        self, Format, Printer,
        format::{OutputFormat, OutputStyle},
        reply::ReplyView as _,
    },
};

/// Manage tokens for clients that cannot log in
///
/// A client sends a token as `Authorization: Bearer TOKEN`. A running gateway accepts new tokens and refuses revoked ones
/// at once. Only digests are stored, in `tokens.json` of the configuration directory. When a token was last used is
/// recorded once a minute.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  muster token create ci --expires 30d
  muster token create laptop --toolset reading
  muster token list
  muster token revoke ci")]
pub(crate) struct Token {
    #[command(subcommand)]
    action: TokenAction,
    /// The configuration directory of the gateway [default: ~/.config/muster]
    #[arg(long, global = true, value_name = "DIR")]
    config_path: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
enum TokenAction {
    /// Create a token and print it; it cannot be shown again
    Create {
        /// The name of the token: letters, digits, `.`, `_` and `-`
        name: String,
        /// Limit its callers to a toolset
        #[arg(long, value_name = "NAME")]
        toolset: Option<String>,
        /// Its lifetime, such as `12h`, `30d` or `52w` [default: it does not expire]
        #[arg(long, value_name = "DURATION", value_parser = lifetime)]
        expires: Option<u64>,
        /// Let its callers change the gateway: add servers, which run commands
        #[arg(long)]
        operator: bool,
    },
    /// List the tokens, without their secrets
    #[command(visible_alias = "ls")]
    List {
        /// The output format
        #[arg(short, long, value_enum, default_value_t)]
        output: Format,
    },
    /// Revoke a token
    #[command(visible_aliases = ["delete", "rm"])]
    Revoke {
        /// The name of the token
        name: String,
    },
}

pub(crate) fn run(args: &Token) -> Result<ExitCode, CommandError> {
    let config = match &args.config_path {
        Some(path) => path.clone(),
        None => user_dirs::config().map_err(|err| {
            CommandError::new(err.to_string()).hint("name a directory with --config-path")
        })?,
    };
    let file = TokenFile::of(&config, Clock::system());
    match &args.action {
        TokenAction::Create { name, toolset, expires, operator } => create(
            &file,
            &TokenDraft {
                name: name.clone(),
                lifetime: *expires,
                toolset: toolset.clone(),
                operator: *operator,
            },
        )?,
        TokenAction::List { output } => list(&file, *output)?,
        TokenAction::Revoke { name } => revoke(&file, name)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn create(file: &TokenFile, draft: &TokenDraft) -> Result<(), CommandError> {
    let token = file.create(draft).map_err(failure)?;
    Printer::stdout().line(token.reveal())?;
    output::hint("store it now: it cannot be shown again");
    if draft.lifetime.is_none() {
        output::hint("it does not expire; limit its lifetime with --expires");
    }
    Ok(())
}

fn list(file: &TokenFile, output: Format) -> Result<(), CommandError> {
    let tokens = file.described().map_err(failure)?;
    let tokens: Vec<StaticTokenInfo> = tokens.into_iter().map(token_info).collect();
    let printer = Printer::stdout();
    match output {
        Format::Json => printer.json(&tokens),
        Format::Table => {
            printer.line(&tokens.show(OutputStyle { format: OutputFormat::Table, headings: true }))
        }
    }
}

fn revoke(file: &TokenFile, name: &str) -> Result<(), CommandError> {
    if file.revoke(name).map_err(failure)? {
        return Printer::stdout().line(&format!("Revoked token `{name}`."));
    }
    Err(CommandError::new(format!("there is no token named `{name}`"))
        .hint("see `muster token list`"))
}

fn failure(error: TokenFileError) -> CommandError {
    let text = error.to_string();
    match error {
        TokenFileError::Exists(name) => {
            CommandError::new(text).hint(format!("revoke it first: `muster token revoke {name}`"))
        }
        TokenFileError::InvalidName(_) | TokenFileError::File { .. } => CommandError::new(text),
    }
}

fn lifetime(text: &str) -> Result<u64, String> {
    let wrong = || "expected a number and a unit: `90m`, `12h`, `30d` or `52w`".to_owned();
    parse_lifetime(text).ok_or_else(wrong)
}
