//! `muster import`: the servers of other MCP clients, taken over.

use std::{
    io::{self, BufRead as _, IsTerminal as _},
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::Args;
use muster_client::{
    env_vars,
    import::{
        clients::Client,
        plan::{Moved, Plan, What},
        read,
    },
    secrets,
};

use crate::{
    error::CommandError,
    output::{Printer, Tone, shell_quoted},
};

/// Take over the servers of other MCP clients
///
/// Reads the configurations of Claude Desktop, Claude Code, Cursor, VS Code, Windsurf, Codex and Gemini
/// CLI, or the files and folders that are named: `mcp.json`, CLI definitions, folders of muster. Shows
/// what it will do and asks. Secrets do not stay in the files: each is kept in a file of its own below
/// `secrets`, which nobody else can read, and is named by `secret://`. The clients' files are not
/// touched.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  muster import --dry-run
  muster import --yes
  muster import --from cursor --from codex
  muster import ./mcp.json ./clis/git.yaml")]
pub(crate) struct Import {
    /// Files and folders to read instead of what the clients have
    #[arg(value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// Only what this client has
    #[arg(long, value_name = "CLIENT", value_parser = super::connect::client())]
    from: Vec<Client>,
    /// The folder that is imported into [default: ~/.config/muster]
    #[arg(long, value_name = "DIR")]
    config_path: Option<PathBuf>,
    /// Only show what would be done
    #[arg(long, conflicts_with = "yes")]
    dry_run: bool,
    /// Do not ask
    #[arg(long, short)]
    yes: bool,
}

impl Import {
    /// The command line that does what was shown.
    fn again(&self) -> String {
        let mut words = vec!["muster".to_owned(), "import".to_owned()];
        let path = |path: &PathBuf| shell_quoted(&path.to_string_lossy());
        words.extend(self.paths.iter().map(path));
        words.extend(
            self.from.iter().flat_map(|from| ["--from".to_owned(), from.name().to_owned()]),
        );
        words.extend(
            self.config_path.iter().flat_map(|own| ["--config-path".to_owned(), path(own)]),
        );
        words.push("--yes".to_owned());
        words.join(" ")
    }
}

pub(crate) fn run(args: &Import) -> Result<ExitCode, CommandError> {
    let home = PathBuf::from(env_vars::get("HOME").ok_or_else(|| {
        CommandError::new("there is no home directory").hint("set HOME, or name the files")
    })?);
    let root = args.config_path.clone().unwrap_or_else(|| home.join(".config/muster"));
    let printer = Printer::stdout();
    let mut plan = Plan::default();
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
            }
            Err(err) if args.paths.is_empty() => {
                printer.line(&format!("{} {err}", printer.paint(Tone::Warning, &source)))?;
            }
            Err(err) => return Err(CommandError::new(err.to_string())),
        }
    }
    if plan.steps.is_empty() {
        let error = CommandError::new("there is nothing to import");
        return Err(error.hint(match args.paths.is_empty() {
            true => "name a file, such as `muster import ./mcp.json`",
            false => "servers are looked for below `mcpServers`, `servers` or `mcp_servers`",
        }));
    }
    if plan.is_empty() {
        printer.line("\nNothing to do.")?;
        return Ok(ExitCode::SUCCESS);
    }
    if args.dry_run || !(args.yes || agreed(&printer)?) {
        let again = args.again();
        printer.line(&format!("\nNothing was changed. Do it with: {again}"))?;
        return Ok(ExitCode::SUCCESS);
    }
    plan.apply(&root).map_err(|err| CommandError::new(err.to_string()))?;
    printer.line(&format!("\nImported into {}.", root.display()))?;
    printer.line(
        "A gateway that runs with this folder uses it at once; start one with: muster serve",
    )?;
    Ok(ExitCode::SUCCESS)
}

fn sources(args: &Import, home: &Path) -> Vec<(String, PathBuf)> {
    if !args.paths.is_empty() {
        let name =
            |path: &PathBuf| path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        return args.paths.iter().map(|path| (name(path), path.clone())).collect();
    }
    let clients = match args.from.as_slice() {
        [] => &Client::ALL[..],
        some => some,
    };
    let files = clients.iter().flat_map(|client| {
        let paths = client.paths(home).into_iter().filter(|path| path.exists());
        paths.map(|path| (client.name().to_owned(), path))
    });
    files.collect()
}

fn show(printer: &Printer, plan: &Plan, from: usize) -> Result<(), CommandError> {
    for step in plan.steps.iter().skip(from) {
        match &step.what {
            What::Write(write) => {
                let mark = printer.paint(Tone::Good, "+");
                printer.line(&format!("  {mark} {} → {}", step.name, write.path.display()))?;
                show_secrets(printer, &write.moved, &write.notes)?;
            }
            What::Copy(copied) => {
                let (name, path) = (&step.name, copied.path.display());
                match copied.is_there {
                    true => printer.line(&format!("  = {name} is there already: {path}"))?,
                    false => {
                        let mark = printer.paint(Tone::Good, "+");
                        printer.line(&format!("  {mark} {name} → {path}"))?;
                    }
                }
                show_secrets(printer, &copied.moved, &copied.notes)?;
            }
            What::Same { path } => {
                printer.line(&format!("  = {} is there already: {}", step.name, path.display()))?;
            }
            What::Skip { reason } => {
                let mark = printer.paint(Tone::Warning, "-");
                printer.line(&format!("  {mark} {} is left out: {reason}", step.name))?;
            }
        }
    }
    Ok(())
}

fn show_secrets(printer: &Printer, moved: &[Moved], notes: &[String]) -> Result<(), CommandError> {
    for moved in moved {
        let to = secrets::reference(&moved.name);
        printer.line(&format!("      {} → {to}", moved.place))?;
    }
    for note in notes {
        printer.line(&format!("      {} {note}", printer.paint(Tone::Warning, "!")))?;
    }
    Ok(())
}

/// Asks a person; where nobody can answer, nothing is done.
fn agreed(printer: &Printer) -> Result<bool, CommandError> {
    if !io::stdin().is_terminal() {
        return Ok(false);
    }
    printer.line("\nDo it? [y/N]")?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer)?;
    Ok(matches!(answer.trim().to_lowercase().as_str(), "y" | "yes"))
}
