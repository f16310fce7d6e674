//! `muster import`: imports the servers of other MCP clients.

mod replace;

use std::{
    io::{self, BufRead as _, IsTerminal as _},
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::Args;
use muster_client::{
    env_vars,
    import::{
        clients::McpClient,
        moved_secrets::MovedSecret,
        plan::{ImportAction, ImportPlan},
        read,
    },
    secrets,
};

use crate::{
    error::CommandError,
    output::{Printer, Tone, shell_quoted},
};

/// Import the servers of other MCP clients
///
/// Reads the configurations of Claude Desktop, Claude Code, Cursor, VS Code, Windsurf, Codex and Gemini
/// CLI, or the given files and directories: `mcp.json`, CLI configs, muster configurations. Shows the
/// plan and asks before writing. Secrets are moved into private files in the `secrets` directory and
/// referenced as `secret://NAME`. The files of the clients are not changed, unless --replace takes the imported
/// servers out of them: then the clients do not start them beside muster. --undo puts them back.
#[derive(Debug, Args)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a switch of its own on the command line"
)]
#[command(after_help = "\
Examples:
  muster import --dry-run
  muster import --yes
  muster import --from cursor --from codex
  muster import --from cursor --replace
  muster import --from cursor --undo
  muster import ./mcp.json ./clis/git.yaml")]
pub(crate) struct Import {
    /// Files and directories to import instead of the clients' configurations
    #[arg(value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// Import from this client only (can be repeated)
    #[arg(long, value_name = "CLIENT", value_parser = super::connect::client())]
    from: Vec<McpClient>,
    /// The configuration directory to import into [default: ~/.config/muster]
    #[arg(long, value_name = "DIR")]
    config_path: Option<PathBuf>,
    /// Take the imported servers out of the clients' configurations
    #[arg(long, conflicts_with = "paths")]
    replace: bool,
    /// Put the servers that --replace took out back
    #[arg(long, conflicts_with_all = ["paths", "replace", "dry_run"])]
    undo: bool,
    /// Show the plan without writing anything
    #[arg(long, conflicts_with = "yes")]
    dry_run: bool,
    /// Write without asking
    #[arg(long, short)]
    yes: bool,
}

impl Import {
    /// The command line that applies the plan.
    fn apply_command(&self) -> String {
        let mut words = vec!["muster".to_owned(), "import".to_owned()];
        let path = |path: &PathBuf| shell_quoted(&path.to_string_lossy());
        words.extend(self.paths.iter().map(path));
        words.extend(
            self.from.iter().flat_map(|from| ["--from".to_owned(), from.name().to_owned()]),
        );
        words.extend(
            self.config_path.iter().flat_map(|own| ["--config-path".to_owned(), path(own)]),
        );
        words.extend(self.replace.then(|| "--replace".to_owned()));
        words.push("--yes".to_owned());
        words.join(" ")
    }
}

pub(crate) fn run(args: &Import) -> Result<ExitCode, CommandError> {
    let home = PathBuf::from(env_vars::get("HOME").ok_or_else(|| {
        CommandError::new("there is no home directory: HOME is not set")
            .hint("set HOME, or name the files to import")
    })?);
    if args.undo {
        return replace::undo(args, &home);
    }
    let root = args.config_path.clone().unwrap_or_else(|| home.join(".config/muster"));
    let printer = Printer::stdout();
    let mut plan = ImportPlan::default();
    let mut replacements = Vec::new();
    for (source, path) in sources(args, &home) {
        match read::read(&path) {
            Ok(found) => {
                printer.line(&format!(
                    "{} {}",
                    printer.paint(Tone::Strong, &source),
                    path.display()
                ))?;
                let before = plan.steps.len();
                plan.add(&root, &source, found);
                show(&printer, &plan, before)?;
                if args.replace {
                    let steps = plan.steps.get(before..).unwrap_or_default();
                    replacements.extend(replace::planned(&printer, &source, path, steps)?);
                }
            }
            Err(err) if args.paths.is_empty() => {
                printer.line(&format!("{} {err}", printer.paint(Tone::Warning, &source)))?;
            }
            Err(err) => return Err(CommandError::new(err.to_string())),
        }
    }
    if plan.steps.is_empty() {
        let error = CommandError::new("found nothing to import");
        return Err(error.hint(match args.paths.is_empty() {
            true => "name a file, such as `muster import ./mcp.json`",
            false => "servers are expected under `mcpServers`, `servers` or `mcp_servers`",
        }));
    }
    if plan.is_empty() && replacements.is_empty() {
        printer.line("\nNothing to do.")?;
        return Ok(ExitCode::SUCCESS);
    }
    if args.dry_run || !(args.yes || confirmed(&printer)?) {
        let again = args.apply_command();
        printer.line(&format!("\nNothing was changed. To import, run: {again}"))?;
        return Ok(ExitCode::SUCCESS);
    }
    plan.apply(&root).map_err(|err| CommandError::new(err.to_string()))?;
    printer.line(&format!("\nImported into {}.", root.display()))?;
    replace::apply(&printer, &replacements)?;
    printer.line("A running gateway uses the new servers at once; start one with: muster serve")?;
    Ok(ExitCode::SUCCESS)
}

fn sources(args: &Import, home: &Path) -> Vec<(String, PathBuf)> {
    if !args.paths.is_empty() {
        let name =
            |path: &PathBuf| path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        return args.paths.iter().map(|path| (name(path), path.clone())).collect();
    }
    let clients = match args.from.as_slice() {
        [] => &McpClient::ALL[..],
        some => some,
    };
    let files = clients.iter().flat_map(|client| {
        let paths = client.paths(home).into_iter().filter(|path| path.exists());
        paths.map(|path| (client.name().to_owned(), path))
    });
    files.collect()
}

fn show(printer: &Printer, plan: &ImportPlan, from: usize) -> Result<(), CommandError> {
    for step in plan.steps.iter().skip(from) {
        match &step.action {
            ImportAction::Write(write) => {
                let mark = printer.paint(Tone::Good, "+");
                printer.line(&format!("  {mark} {} → {}", step.key.name, write.path.display()))?;
                show_secrets(printer, &write.moved, &write.notes)?;
            }
            ImportAction::Copy(copied) => {
                let (name, path) = (&step.key.name, copied.path.display());
                match copied.exists {
                    true => printer.line(&format!("  = {name} exists: {path}"))?,
                    false => {
                        let mark = printer.paint(Tone::Good, "+");
                        printer.line(&format!("  {mark} {name} → {path}"))?;
                    }
                }
                show_secrets(printer, &copied.moved, &copied.notes)?;
            }
            ImportAction::Same { path } => {
                printer.line(&format!("  = {} exists: {}", step.key.name, path.display()))?;
            }
            ImportAction::Skip { reason } => {
                let mark = printer.paint(Tone::Warning, "-");
                printer.line(&format!("  {mark} {} skipped: {reason}", step.key.name))?;
            }
        }
    }
    Ok(())
}

fn show_secrets(
    printer: &Printer,
    moved: &[MovedSecret],
    notes: &[String],
) -> Result<(), CommandError> {
    for moved in moved {
        let to = secrets::reference(&moved.name);
        printer.line(&format!("      {} → {to}", moved.origin))?;
    }
    for note in notes {
        printer.line(&format!("      {} {note}", printer.paint(Tone::Warning, "!")))?;
    }
    Ok(())
}

/// Asks for confirmation. Without a terminal, the answer is no.
fn confirmed(printer: &Printer) -> Result<bool, CommandError> {
    if !io::stdin().is_terminal() {
        return Ok(false);
    }
    printer.line("\nImport? [y/N]")?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer)?;
    Ok(matches!(answer.trim().to_lowercase().as_str(), "y" | "yes"))
}
