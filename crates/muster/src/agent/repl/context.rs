//! `context`: shows contexts and switches between them.

use std::sync::Arc;

use muster_client::{
    contexts::{ContextError, Contexts},
    inventory::Inventory,
    login::{self, ConnectionUse},
    remote::target::Target,
};

use super::{Repl, ReplError};
use crate::{agent::connection, terminal::Terminal};

/// The subcommands, which are not names of contexts.
const WORDS: [&str; 4] = ["list", "ls", "use", "switch"];

impl Repl<'_> {
    pub(super) fn switch(&mut self, line: &str) -> Result<(), ReplError> {
        let words: Vec<&str> = line.split_whitespace().skip(1).collect();
        let contexts = Contexts::load().map_err(|err| failed(&err))?;
        match words.as_slice() {
            [] => self.current(&contexts),
            ["list" | "ls"] => self.all(&contexts),
            ["use" | "switch"] => return Err(ReplError::new("usage: context use <name>")),
            ["use" | "switch", name, ..] => return self.switch_to(name, contexts),
            [name, ..] => {
                if let Some(meant) = misspelt(name) {
                    return Err(ReplError::new(format!(
                        "unknown subcommand \"{name}\" - did you mean \"{meant}\"? Use 'context \
                         use {name}' to switch to a context named \"{name}\""
                    )));
                }
                return self.switch_to(name, contexts);
            }
        }
        Ok(())
    }

    fn current(&self, contexts: &Contexts) {
        match &contexts.current {
            Some(name) => self.shell.say(&format!("Current context: {name}")),
            None => {
                self.shell.say("No context set");
                self.shell.say("Show the contexts with: context list");
                self.shell.say("Switch to one with: context use <name>");
            }
        }
    }

    fn all(&self, contexts: &Contexts) {
        if contexts.all.is_empty() {
            self.shell.say("No contexts configured");
            self.shell.say("Add one with: muster context add <name> --endpoint <url>");
            return;
        }
        self.shell.say("Available contexts:");
        let width = contexts.all.iter().map(|one| one.name.len()).max().unwrap_or_default();
        for one in &contexts.all {
            let mark = if contexts.current.as_ref() == Some(&one.name) { '*' } else { ' ' };
            self.shell.say(&format!("{mark} {:<width$}  {}", one.name, one.endpoint));
        }
    }

    fn switch_to(&mut self, name: &str, mut contexts: Contexts) -> Result<(), ReplError> {
        let Some(context) = contexts.get(name).cloned() else {
            let names: Vec<&str> = contexts.all.iter().map(|one| one.name.as_str()).collect();
            let known = match names.is_empty() {
                true => "No contexts configured".to_owned(),
                false => format!("Available: {}", names.join(", ")),
            };
            return Err(ReplError::new(format!("context \"{name}\" not found. {known}")));
        };
        contexts.switch(name).map_err(|err| failed(&err))?;
        contexts.save().map_err(|err| failed(&err))?;
        self.context = Some(name.to_owned());
        self.shell.say(&format!("Switched to {name} ({})", context.endpoint));
        let target = Target::at(&context.endpoint);
        if *self.shell.target.borrow() == target {
            return Ok(());
        }
        self.shell.say("Connecting...");
        self.listening.abort_all();
        let runtime = self.runtime;
        let connected = runtime.block_on(async {
            let remote = login::connect_for(
                ConnectionUse::Listen,
                &target,
                self.shell.mode,
                false,
                &Terminal::Stderr,
            )
            .await?;
            let inventory = Inventory::load(&remote).await?;
            Ok::<_, muster_client::remote::error::RemoteError>((remote, inventory))
        });
        self.shell.target.send_replace(target);
        self.shell.inventory.send_replace(Arc::default());
        let old = self.shell.remote.send_replace(None);
        let (mut remote, inventory) = connected.map_err(|err| {
            ReplError::new(format!(
                "Failed to reconnect: {err}\nLeave and start again with: muster agent --repl --context {name}"
            ))
        })?;
        if let Some(old) = old {
            runtime.block_on(connection::close(old));
        }
        let events = remote.events();
        self.shell.inventory.send_replace(Arc::new(inventory));
        self.shell.remote.send_replace(Some(Arc::new(remote)));
        self.listen(events);
        self.shell.say("Connected");
        Ok(())
    }
}

fn failed(error: &ContextError) -> ReplError {
    ReplError::new(error.to_string())
}

/// Finds the subcommand that a name probably misspells.
fn misspelt(name: &str) -> Option<&'static str> {
    WORDS.into_iter().find(|word| {
        let wrong = name.bytes().zip(word.bytes()).filter(|(one, other)| one != other).count();
        let (longer, shorter) = (name.len().max(word.len()), name.len().min(word.len()));
        let begins_alike = name.get(..2).is_some_and(|begin| word.starts_with(begin));
        (longer == shorter && wrong <= 2) || (longer == shorter + 1 && begins_alike)
    })
}

#[cfg(test)]
mod tests {
    use super::misspelt;

    #[test]
    fn names_that_are_almost_words_are_asked_about() {
        for (name, meant) in [
            ("lsit", Some("list")),
            ("lis", Some("list")),
            ("usee", Some("use")),
            ("ab", Some("ls")),
            ("swicth", Some("switch")),
            ("lab", None),
            ("production", None),
            ("edge", None),
        ] {
            assert_eq!(misspelt(name), meant, "{name}");
        }
    }
}
