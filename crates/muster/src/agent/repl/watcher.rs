//! Watches the gateway while the REPL waits for input: prints changes of its lists, and reconnects when it restarts.

use std::{sync::Arc, time::Duration};

use anstyle::AnsiColor;
use muster_client::{
    inventory::{Inventory, ToolPage},
    login,
    remote::{GatewayEvent, ListKind, Remote},
};
use muster_core::json::raw;
use serde_json::json;
use tokio::{
    sync::mpsc::UnboundedReceiver,
    time::{MissedTickBehavior, sleep},
};

use super::{Notifications, Shell};

/// The interval of attempts to reconnect.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// The interval of polling the number of tools. A gateway that lists only meta-tools sends no notifications about the
/// tools behind them.
const POLL_INTERVAL: Duration = Duration::from_secs(3);

/// Prints above the line being edited.
pub(super) type Say = Box<dyn FnMut(String) + Send>;

/// Watches the gateway until the task is aborted.
pub(super) async fn watch(
    shell: Arc<Shell>,
    mut events: UnboundedReceiver<GatewayEvent>,
    mut say: Say,
) {
    let mut poll = tokio::time::interval(POLL_INTERVAL);
    poll.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut count = None;
    loop {
        let event = tokio::select! {
            event = events.recv() => event,
            _ = poll.tick() => {
                let now = count_tools(&shell).await;
                if now.is_some() && count.is_some() && now != count {
                    list_changed(&shell, ListKind::Tools, "Tool", &mut say).await;
                }
                count = now.or(count);
                continue;
            }
        };
        let notice = match event {
            None => return,
            Some(GatewayEvent::Closed) => {
                events = reconnect(&shell, &mut say).await;
                continue;
            }
            Some(GatewayEvent::Notification(notice)) => notice,
        };
        let changed = match notice.method.as_str() {
            "notifications/tools/list_changed" => Some((ListKind::Tools, "Tool")),
            "notifications/resources/list_changed" => Some((ListKind::Resources, "Resource")),
            "notifications/prompts/list_changed" => Some((ListKind::Prompts, "Prompt")),
            _ => None,
        };
        match changed {
            Some((kind, name)) => list_changed(&shell, kind, name, &mut say).await,
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

/// Counts the tools behind the meta-tools.
async fn count_tools(shell: &Shell) -> Option<usize> {
    let remote = shell.remote().ok()?;
    let page = remote.reply::<ToolPage>("list_tools", &raw(&json!({"limit": 1}))).await.ok()?;
    Some(page.total)
}

/// Reloads the inventory and prints the difference.
async fn list_changed(shell: &Shell, kind: ListKind, name: &str, say: &mut Say) {
    let lines = shell.lines;
    let is_printed = *shell.notifications.borrow() == Notifications::On;
    if is_printed {
        say(lines.stamped(&format!("{name}s list changed! Fetching updated list..."), None));
    }
    let Ok(remote) = shell.remote() else { return };
    let Ok(now) = Inventory::load(&remote).await else { return };
    let before = shell.inventory.send_replace(Arc::new(now));
    let now = shell.inventory();
    let (gone, new) = difference(&before, &now, kind);
    if !is_printed || (gone.is_empty() && new.is_empty()) {
        return;
    }
    say(lines.stamped(&format!("{name} changes detected:"), None));
    for one in new {
        say(lines.painted(&format!("  + Added: {one}"), Some(AnsiColor::Green)));
    }
    for one in gone {
        say(lines.painted(&format!("  - Removed: {one}"), Some(AnsiColor::Red)));
    }
    logins_required(shell, &before, &now, say);
}

/// Prints the servers that require a login, if none did before.
fn logins_required(shell: &Shell, before: &Inventory, now: &Inventory, say: &mut Say) {
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

/// Reconnects as soon as the gateway is back.
async fn reconnect(shell: &Shell, say: &mut Say) -> UnboundedReceiver<GatewayEvent> {
    drop(shell.remote.send_replace(None));
    say(shell.lines.stamped("The gateway is gone; reconnecting...", Some(AnsiColor::Red)));
    loop {
        sleep(RETRY_INTERVAL).await;
        let target = shell.target.borrow().clone();
        let Ok(mut remote) =
            Remote::listen(&target.as_operator(), &login::stored_auth(&target).await).await
        else {
            continue;
        };
        let Some(events) = remote.events() else { continue };
        if let Ok(inventory) = Inventory::load(&remote).await {
            shell.inventory.send_replace(Arc::new(inventory));
        }
        shell.remote.send_replace(Some(Arc::new(remote)));
        say(shell.lines.stamped("Connected", Some(AnsiColor::Green)));
        return events;
    }
}

#[cfg(test)]
mod tests {
    use muster_client::{inventory::PromptInfo, remote::ListKind};

    use super::{Inventory, difference};

    #[test]
    fn only_names_count() {
        let of = |names: &[&str]| Inventory {
            prompts: names
                .iter()
                .map(|name| PromptInfo { name: (*name).to_owned(), ..PromptInfo::default() })
                .collect(),
            ..Inventory::default()
        };
        let (before, now) = (of(&["a", "b"]), of(&["b", "c"]));
        assert_eq!(difference(&before, &now, ListKind::Prompts), (vec!["a"], vec!["c"]));
    }
}
