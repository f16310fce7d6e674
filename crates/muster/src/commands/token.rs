//! `muster token`: named tokens for clients that cannot log in.

use std::{path::PathBuf, process::ExitCode};

use clap::{Args, Subcommand};
use jiff::Timestamp;
use muster_auth::{
    access::tokens::{StaticToken, TokenDraft, TokenFile, TokenFileError},
    clock::Clock,
};
use muster_client::user_dirs;
use serde::Serialize;

use crate::{
    error::CommandError,
    output::{
        self, Format, Printer,
        format::{OutputFormat, OutputStyle},
        table::Table,
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
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Listed {
        name: String,
        role: &'static str,
        toolset: Option<String>,
        created: String,
        expires: Option<String>,
        expired: bool,
        last_used: Option<String>,
    }
    let now = Clock::system().now();
    let last_used = file.last_used();
    let listed = |token: StaticToken| Listed {
        last_used: last_used.get(&token.digest).copied().map(moment),
        expired: token.is_expired(now),
        role: if token.operator { "operator" } else { "agent" },
        toolset: token.toolset,
        created: moment(token.created),
        expires: token.expires.map(moment),
        name: token.name,
    };
    let tokens: Vec<Listed> = file.load().map_err(failure)?.into_iter().map(listed).collect();
    let printer = Printer::stdout();
    if output == Format::Json {
        return printer.json(&tokens);
    }
    if tokens.is_empty() {
        return printer.line("No tokens. Create one with `muster token create NAME`.");
    }
    let style = OutputStyle { format: OutputFormat::Table, headings: true };
    let mut table =
        Table::new(["name", "role", "toolset", "created", "expires", "last_used"], style);
    for token in tokens {
        let expires = match (token.expires, token.expired) {
            (None, _) => "never".to_owned(),
            (Some(moment), false) => moment,
            (Some(moment), true) => format!("{moment} (expired)"),
        };
        let toolset = token.toolset.unwrap_or_else(|| "-".to_owned());
        let last_used = token.last_used.unwrap_or_else(|| "never".to_owned());
        let role = token.role.to_owned();
        table.row([token.name, role, toolset, token.created, expires, last_used]);
    }
    printer.line(&table.text())
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

/// A lifetime in seconds.
fn lifetime(text: &str) -> Result<u64, String> {
    let wrong = || "expected a number and a unit: `90m`, `12h`, `30d` or `52w`".to_owned();
    let unit = text.chars().last().ok_or_else(wrong)?;
    let seconds: u64 = match unit {
        'm' => 60,
        'h' => 60 * 60,
        'd' => 24 * 60 * 60,
        'w' => 7 * 24 * 60 * 60,
        _ => return Err(wrong()),
    };
    let number = text.strip_suffix(unit).and_then(|number| number.parse::<u32>().ok());
    let number = number.filter(|number| *number > 0).ok_or_else(wrong)?;
    Ok(seconds.saturating_mul(number.into()))
}

fn moment(seconds: u64) -> String {
    let moment =
        i64::try_from(seconds).ok().and_then(|seconds| Timestamp::from_second(seconds).ok());
    moment.map(|moment| moment.to_string()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::lifetime;

    #[test]
    fn lifetimes() {
        for (text, expected) in [
            ("90m", Some(5400)),
            ("12h", Some(43_200)),
            ("30d", Some(2_592_000)),
            ("1w", Some(604_800)),
            ("0d", None),
            ("-1d", None),
            ("30", None),
            ("d", None),
            ("", None),
            ("1.5h", None),
            ("99999999999d", None),
        ] {
            assert_eq!(lifetime(text).ok(), expected, "{text}");
        }
    }
}
