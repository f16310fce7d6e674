//! What happens while a person thinks: lists change, the gateway goes away and comes back.

use std::{sync::Arc, time::Duration};

use anstyle::AnsiColor;
use muster_client::{
    inventory::{Inventory, json_text},
    login,
    remote::{GatewayNotification, ListKind, Remote},
};
use muster_core::json::raw;
use serde_json::{Value, json};
use tokio::{
    sync::mpsc::UnboundedReceiver,
    time::{MissedTickBehavior, sleep},
};

use super::{Shell, Told};

/// How often a gateway that is away is tried.
const RETRY: Duration = Duration::from_secs(1);

/// How often it is looked whether there are more or fewer tools: a gateway that shows only meta-tools
/// does not tell of the tools behind them.
const LOOK: Duration = Duration::from_secs(3);

/// Prints above the line that is being typed.
pub(super) type Say = Box<dyn FnMut(String) + Send>;

/// Tells of changes for as long as the shell is there.
pub(super) async fn live(
    shell: Arc<Shell>,
    mut notices: UnboundedReceiver<GatewayNotification>,
    mut say: Say,
) {
    let mut look = tokio::time::interval(LOOK);
    look.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut count = None;
    loop {
        let notice = tokio::select! {
            notice = notices.recv() => notice,
            _ = look.tick() => {
                let now = counted(&shell).await;
                if now.is_some() && count.is_some() && now != count {
                    change(&shell, ListKind::Tools, "Tool", &mut say).await;
                }
                count = now.or(count);
                continue;
            }
        };
        let Some(notice) = notice else { return };
        let changed = match notice.method.as_str() {
            "notifications/tools/list_changed" => Some((ListKind::Tools, "Tool")),
            "notifications/resources/list_changed" => Some((ListKind::Resources, "Resource")),
            "notifications/prompts/list_changed" => Some((ListKind::Prompts, "Prompt")),
            "closed" => {
                notices = back(&shell, &mut say).await;
                continue;
            }
            _ => None,
        };
        match changed {
            Some((kind, name)) => change(&shell, kind, name, &mut say).await,
            None => {
                if shell.lines.detail == crate::agent::console::Detail::Verbose {
                    say(shell.lines.stamped(
                        &format!("← NOTIFICATION ({}): {}", notice.method, notice.params),
                        Some(AnsiColor::Yellow),
                    ));
                }
            }
        }
    }
}

/// How many tools there are behind the meta-tools.
async fn counted(shell: &Shell) -> Option<u64> {
    let remote = shell.remote().ok()?;
    let answer = remote.call("list_tools", &raw(&json!({"limit": 1}))).await.ok()?;
    let answer = json_text(&answer)?;
    let listed = || answer.get("tools").and_then(Value::as_array).map(|tools| tools.len() as u64);
    answer.get("total").and_then(Value::as_u64).or_else(listed)
}

/// A list has changed: what is new in it, and what is gone.
async fn change(shell: &Shell, kind: ListKind, name: &str, say: &mut Say) {
    let lines = shell.lines;
    let is_told = *shell.told.borrow() == Told::Yes;
    if is_told {
        say(lines.stamped(&format!("{name}s list changed! Fetching updated list..."), None));
    }
    let Ok(remote) = shell.remote() else { return };
    let Ok(now) = Inventory::load(&remote).await else { return };
    let before = shell.known.send_replace(Arc::new(now));
    let now = shell.known();
    let (gone, new) = difference(&before, &now, kind);
    if !is_told || (gone.is_empty() && new.is_empty()) {
        return;
    }
    say(lines.stamped(&format!("{name} changes detected:"), None));
    for one in new {
        say(lines.painted(&format!("  + Added: {one}"), Some(AnsiColor::Green)));
    }
    for one in gone {
        say(lines.painted(&format!("  - Removed: {one}"), Some(AnsiColor::Red)));
    }
    locked(shell, &before, &now, say);
}

/// Tells which servers have begun to want a login.
fn locked(shell: &Shell, before: &Inventory, now: &Inventory, say: &mut Say) {
    if !before.login_required.is_empty() || now.login_required.is_empty() {
        return;
    }
    say(shell
        .lines
        .stamped(&format!("Authentication required for: {}", now.login_required.join(", ")), None));
    say(shell.lines.stamped("Log in with: call core_auth_login server=<name>", None));
}

fn difference<'a>(
    before: &'a Inventory,
    now: &'a Inventory,
    kind: ListKind,
) -> (Vec<&'a str>, Vec<&'a str>) {
    let (before, now) = (before.names(kind), now.names(kind));
    let gone = before.iter().filter(|name| !now.contains(name)).copied().collect();
    let new = now.iter().filter(|name| !before.contains(name)).copied().collect();
    (gone, new)
}

/// Waits until the gateway is back.
async fn back(shell: &Shell, say: &mut Say) -> UnboundedReceiver<GatewayNotification> {
    drop(shell.remote.send_replace(None));
    say(shell.lines.stamped("The gateway has gone away; trying again...", Some(AnsiColor::Red)));
    loop {
        sleep(RETRY).await;
        let target = shell.target.borrow().clone();
        let Ok(mut remote) =
            Remote::listen(&target.as_operator(), &login::stored_auth(&target).await).await
        else {
            continue;
        };
        let Some(notices) = remote.notifications() else { continue };
        if let Ok(known) = Inventory::load(&remote).await {
            shell.known.send_replace(Arc::new(known));
        }
        shell.remote.send_replace(Some(Arc::new(remote)));
        say(shell.lines.stamped("Connected", Some(AnsiColor::Green)));
        return notices;
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{Inventory, difference};
    use muster_client::remote::ListKind;

    #[test]
    fn only_names_count() {
        let of = |names: &[&str]| Inventory {
            prompts: names.iter().map(|name| json!({"name": name})).collect(),
            ..Inventory::default()
        };
        let (before, now) = (of(&["a", "b"]), of(&["b", "c"]));
        assert_eq!(difference(&before, &now, ListKind::Prompts), (vec!["a"], vec!["c"]));
    }
}
