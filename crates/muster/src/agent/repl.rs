//! The REPL: reads lines, runs commands, and prints changes of the gateway meanwhile.

mod arguments;
mod call;
mod commands;
mod completion;
mod context;
mod format;
mod inspect;
mod prompt;
mod tool_filter;
mod watcher;

use std::{path::PathBuf, sync::Arc, time::Duration};

use muster_auth::private_file;
use muster_client::{
    contexts::Contexts,
    inventory::Inventory,
    login::AuthMode,
    remote::{GatewayEvent, Remote, error::RemoteError, target::Target},
    user_dirs,
};
use rustyline::{
    Cmd, CompletionType, Config, Context, Editor, Event, ExternalPrinter as _, Helper, Highlighter,
    Hinter, KeyEvent, Validator, completion::Completer, error::ReadlineError, history::FileHistory,
};
use thiserror::Error;
use tokio::{
    runtime::Runtime,
    sync::{mpsc::UnboundedReceiver, watch},
    task::JoinSet,
    time::timeout,
};

use self::{
    commands::{Command, Spec},
    completion::Candidate,
};
use super::{connection, console::Console};
use crate::{error::CommandError, process};

/// The timeout of a command.
const TIMEOUT: Duration = Duration::from_secs(300);

/// The state that commands and the watcher share.
#[derive(Debug)]
pub(crate) struct Shell {
    lines: Console,
    mode: AuthMode,
    target: watch::Sender<Target>,
    /// `None` while disconnected from the gateway.
    remote: watch::Sender<Option<Arc<Remote>>>,
    inventory: watch::Sender<Arc<Inventory>>,
    notifications: watch::Sender<Notifications>,
}

/// Whether changes of the gateway's lists are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Notifications {
    On,
    Off,
}

/// Why a command failed.
#[derive(Debug, Error)]
pub(crate) enum ReplError {
    /// A message for the user.
    #[error("{0}")]
    Failed(String),
    /// A request to the gateway failed.
    #[error(transparent)]
    Remote(#[from] RemoteError),
}

impl ReplError {
    fn new(text: impl Into<String>) -> Self {
        Self::Failed(text.into())
    }

    fn usage(spec: &Spec) -> Self {
        Self::Failed(format!("usage: {}", spec.usage))
    }

    fn target(word: &str, valid: &[&str]) -> Self {
        Self::Failed(format!("unknown target: {word}. Valid targets: {}", valid.join(", ")))
    }
}

/// What to do after a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    Prompt,
    Leave,
}

impl Shell {
    fn remote(&self) -> Result<Arc<Remote>, ReplError> {
        let remote = self.remote.borrow().clone();
        remote.ok_or_else(|| {
            ReplError::new("the gateway is gone; it will be reconnected as soon as it is back")
        })
    }

    fn inventory(&self) -> Arc<Inventory> {
        self.inventory.borrow().clone()
    }

    fn say(&self, text: &str) {
        self.lines.result(text);
    }

    async fn run(self: &Arc<Self>, line: &str) -> Result<(), ReplError> {
        let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let rest = rest.trim();
        let Some(spec) = commands::find(word) else {
            let text = format!("unknown command: {word}. Type 'help' for available commands");
            return Err(ReplError::new(text));
        };
        match spec.command {
            Command::Help => self.help(rest),
            Command::List => self.list(spec, rest).await,
            Command::Describe => self.describe(spec, rest).await,
            Command::Call => self.call(spec, rest).await,
            Command::Get => self.get(spec, rest).await,
            Command::Prompt => self.prompt(spec, rest).await,
            Command::Filter => self.filter(spec, rest).await,
            Command::Notifications => self.notifications(spec, rest),
            Command::Workflow => self.workflow(spec, rest).await,
            Command::Context | Command::Exit => Ok(()),
        }
    }

    fn notifications(&self, spec: &Spec, word: &str) -> Result<(), ReplError> {
        let choice = match word.to_lowercase().as_str() {
            "on" | "enable" | "true" => Notifications::On,
            "off" | "disable" | "false" => Notifications::Off,
            "" => return Err(ReplError::usage(spec)),
            other => return Err(ReplError::target(other, &["on", "off"])),
        };
        self.notifications.send_replace(choice);
        self.say(match choice {
            Notifications::On => "Notifications enabled",
            Notifications::Off => "Notifications disabled",
        });
        Ok(())
    }
}

/// Completes names of the current inventory.
#[derive(Helper, Hinter, Highlighter, Validator)]
struct Completion {
    inventory: watch::Receiver<Arc<Inventory>>,
}

impl Completer for Completion {
    type Candidate = Candidate;

    fn complete(
        &self,
        line: &str,
        position: usize,
        _: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<Candidate>)> {
        let typed = line.get(..position).unwrap_or(line);
        let contexts = Contexts::load().unwrap_or_default();
        let contexts: Vec<String> = contexts.all.into_iter().map(|one| one.name).collect();
        Ok(completion::candidates(typed, &self.inventory.borrow(), &contexts))
    }
}

type Reader = Editor<Completion, FileHistory>;

/// Runs the REPL until the user leaves.
pub(crate) fn run(
    runtime: &Runtime,
    (target, mode): (Target, AuthMode),
    lines: Console,
) -> Result<(), CommandError> {
    let (mut remote, inventory) = runtime.block_on(async {
        let remote = connection::connect(&target, mode, lines).await?;
        let mut inventory = connection::load(&remote, lines).await?;
        if let Ok(all) = Inventory::load(&remote).await {
            inventory = all;
        }
        Ok::<_, CommandError>((remote, inventory))
    })?;
    let events = remote.events();
    let shell = Arc::new(Shell {
        lines,
        mode,
        target: watch::Sender::new(target),
        remote: watch::Sender::new(Some(Arc::new(remote))),
        inventory: watch::Sender::new(Arc::new(inventory)),
        notifications: watch::Sender::new(Notifications::On),
    });
    let mut repl = Repl::new(runtime, shell)
        .map_err(|err| CommandError::new(format!("the terminal cannot be read from: {err}")))?;
    repl.listen(events);
    repl.read_lines();
    repl.leave();
    Ok(())
}

/// The history file. Its directory is accessible only to the user, because lines may hold secrets.
fn history() -> Option<PathBuf> {
    let folder = user_dirs::state().ok()?;
    private_file::create_dir(&folder).ok()?;
    Some(folder.join("agent_history"))
}

struct Repl<'a> {
    runtime: &'a Runtime,
    shell: Arc<Shell>,
    reader: Reader,
    history: Option<PathBuf>,
    listening: JoinSet<()>,
    context: Option<String>,
}

impl<'a> Repl<'a> {
    fn new(runtime: &'a Runtime, shell: Arc<Shell>) -> rustyline::Result<Self> {
        let config =
            Config::builder().auto_add_history(true).completion_type(CompletionType::List).build();
        let mut reader = Reader::with_config(config)?;
        reader.set_helper(Some(Completion { inventory: shell.inventory.subscribe() }));
        // Suspending the process would lose the connection.
        reader.bind_sequence(Event::from(KeyEvent::ctrl('Z')), Cmd::Noop);
        let history = history();
        if let Some(history) = &history {
            // Ignore errors: there is no history before the first session.
            drop(reader.load_history(history));
        }
        let context = Contexts::load().ok().and_then(|contexts| contexts.current);
        Ok(Self { runtime, shell, reader, history, listening: JoinSet::new(), context })
    }

    /// Starts the watcher of a connection, in place of the previous one.
    fn listen(&mut self, events: Option<UnboundedReceiver<GatewayEvent>>) {
        self.listening.abort_all();
        let Some(events) = events else { return };
        let lines = self.shell.lines;
        let mut printer = self.reader.create_external_printer().ok();
        let say = move |text: String| match &mut printer {
            Some(printer) => drop(printer.print(format!("{text}\n"))),
            None => lines.result(&text),
        };
        let live = watcher::watch(Arc::clone(&self.shell), events, Box::new(say));
        self.listening.spawn_on(live, self.runtime.handle());
    }

    fn read_lines(&mut self) {
        let lines = self.shell.lines;
        lines.info(
            "MCP REPL started with notification support. Type 'help' for available commands. \
             Use TAB for completion.",
        );
        lines.result("");
        loop {
            let line = match self.reader.readline(&self.prompt()) {
                Ok(line) => line,
                Err(ReadlineError::Interrupted) => continue,
                Err(_) => return lines.info("Goodbye!"),
            };
            let line = line.trim();
            if line.is_empty() {
                continue;
            }
            if self.execute(line) == Next::Leave {
                return lines.info("Goodbye!");
            }
            lines.result("");
        }
    }

    fn execute(&mut self, line: &str) -> Next {
        let word = line.split_whitespace().next().unwrap_or_default();
        let command = commands::find(word).map(|spec| spec.command);
        let done = match command {
            Some(Command::Exit) => return Next::Leave,
            Some(Command::Context) => self.switch(line),
            _ => self.block_on(line),
        };
        if let Err(err) = done {
            self.shell.lines.error(&format!("Error: {err}"));
        }
        Next::Prompt
    }

    fn block_on(&self, line: &str) -> Result<(), ReplError> {
        self.runtime.block_on(async {
            tokio::select! {
                done = timeout(TIMEOUT, self.shell.run(line)) => done.unwrap_or_else(|_| {
                    Err(ReplError::new("the command took longer than five minutes"))
                }),
                () = process::stop_requested() => Err(ReplError::new("interrupted")),
            }
        })
    }

    fn prompt(&self) -> String {
        let state = prompt::State {
            disconnected: self.shell.remote.borrow().is_none(),
            login_required: !self.shell.inventory().login_required.is_empty(),
        };
        prompt::text(prompt::Charset::of_terminal(), self.context.as_deref(), state)
    }

    fn leave(mut self) {
        // Ignore errors: the history is only a convenience.
        if let Some(history) = &self.history {
            drop(self.reader.save_history(history));
        }
        self.listening.abort_all();
        let remote = self.shell.remote.send_replace(None);
        if let Some(remote) = remote {
            self.runtime.block_on(connection::close(remote));
        }
    }
}
