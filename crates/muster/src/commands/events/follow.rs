//! Events as they happen.
//!
//! One call stays open for as long as the gateway lets it: the gateway tells what there is, then each
//! new event as it happens. When the call is over the next one begins, and what happened in between is
//! in what the gateway tells first. Events are compared as a whole, so that neither clocks nor equal
//! times can hide one. A gateway that does not stay is asked again and again, and one that goes away is
//! waited for.

use std::{collections::BTreeMap, time::Duration};

use muster_client::remote::{GatewayNotification, error::RemoteError};
use muster_core::json::{RawObject, raw};
use serde_json::Value;
use tokio::{
    sync::mpsc::{UnboundedReceiver, unbounded_channel},
    time::sleep,
};

use crate::{
    commands::gateway_args::{GatewayArgs, GatewaySession},
    error::CommandError,
    output::{
        Printer,
        format::{OutputFormat, OutputStyle},
        object_table, tool_text, yaml,
    },
    process,
};

/// How long one call may stay open.
const LENGTH: &str = "1h";
/// How long to wait before a gateway that does not stay is asked again.
const PAUSE: Duration = Duration::from_secs(1);
/// How often in a row a connection may come to nothing.
const MOST_FRUITLESS: u32 = 5;
/// A call may end after so many new events, so fewer are never asked for.
const FEWEST: usize = 500;

/// What is shown, and what was shown.
struct Follower {
    printer: Printer,
    style: OutputStyle,
    for_people: bool,
    /// How many are shown first.
    first: usize,
    /// What the gateway told last as a whole, newest first; none before the first time.
    known: Option<Vec<Value>>,
}

pub(super) async fn follow(
    gateway: &GatewayArgs,
    session: &mut GatewaySession,
    mut wish: RawObject<'static>,
    first: usize,
) -> Result<(), CommandError> {
    let quiet = gateway.quiet;
    let printer = Printer::stdout();
    let for_people =
        matches!(session.style.format, OutputFormat::Table | OutputFormat::Wide) && !quiet;
    if for_people {
        printer.line("Streaming events (Press Ctrl+C to stop)...\n")?;
    }
    wish.set_value("limit", &first.max(FEWEST));
    wish.set_value("follow", &true);
    wish.set_value("duration", LENGTH);
    let notices = session.remote.notifications();
    let mut notices = notices.unwrap_or_else(|| unbounded_channel().1);
    let mut follower = Follower { printer, style: session.style, for_people, first, known: None };
    let mut stop = std::pin::pin!(process::stop_requested());
    let mut fruitless = 0;
    loop {
        let stayed = tokio::select! {
            () = &mut stop => return Ok(()),
            stayed = follower.stay(session, &wish, &mut notices) => stayed,
        };
        match stayed {
            Ok(Staying::Yes) => fruitless = 0,
            Ok(Staying::No) => {
                fruitless = 0;
                tokio::select! {
                    () = &mut stop => return Ok(()),
                    () = sleep(PAUSE) => (),
                }
            }
            Err(Broken::Lost(_)) if follower.known.is_some() && fruitless < MOST_FRUITLESS => {
                fruitless += 1;
                gateway.warn("the gateway is gone; waiting for it to come back");
                tokio::select! {
                    () = &mut stop => return Ok(()),
                    back = again(gateway, session) => back?,
                }
                gateway.warn("connected again");
                notices = session.remote.notifications().unwrap_or_else(|| unbounded_channel().1);
            }
            Err(Broken::Lost(err)) => return Err(err.into()),
            Err(Broken::Other(err)) => return Err(err),
        }
    }
}

/// Connects again, whenever that can be done.
async fn again(gateway: &GatewayArgs, session: &mut GatewaySession) -> Result<(), CommandError> {
    loop {
        sleep(PAUSE).await;
        match gateway.connect_again().await? {
            Ok(remote) => {
                // The old connection leads nowhere; nobody has to hear a goodbye.
                session.remote = remote;
                return Ok(());
            }
            Err(
                RemoteError::NotRunning
                | RemoteError::NotResponding { .. }
                | RemoteError::Connect(_)
                | RemoteError::Request(_),
            ) => (),
            Err(err) => return Err(err.into()),
        }
    }
}

/// Why a call came to no good end.
enum Broken {
    /// The connection.
    Lost(RemoteError),
    Other(CommandError),
}

impl From<CommandError> for Broken {
    fn from(error: CommandError) -> Self {
        Self::Other(error)
    }
}

/// Whether a gateway tells of events while a call is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Staying {
    Yes,
    No,
}

impl Follower {
    /// One call from beginning to end.
    async fn stay(
        &mut self,
        session: &GatewaySession,
        wish: &RawObject<'_>,
        notices: &mut UnboundedReceiver<GatewayNotification>,
    ) -> Result<Staying, Broken> {
        let wish = wish.to_raw();
        let mut call = std::pin::pin!(session.remote.call("core_events", &wish));
        let mut staying = Staying::No;
        let answer = loop {
            tokio::select! {
                biased;
                Some(notice) = notices.recv() => {
                    if self.heard(&notice)? {
                        staying = Staying::Yes;
                    }
                }
                answer = &mut call => break answer.map_err(Broken::Lost)?,
            }
        };
        // What was told before the answer is shown before it.
        while let Ok(notice) = notices.try_recv() {
            if self.heard(&notice)? {
                staying = Staying::Yes;
            }
        }
        let text = answer.texts().join("\n");
        if answer.failed {
            return Err(CommandError::new(text).into());
        }
        self.found(serde_json::from_str(&text).unwrap_or_default())?;
        Ok(staying)
    }

    /// Shows what a notice tells; whether it is about events.
    fn heard(&mut self, notice: &GatewayNotification) -> Result<bool, CommandError> {
        let params: Value = serde_json::from_str(notice.params.get()).unwrap_or_default();
        match (notice.method.as_str(), params) {
            ("notifications/muster/events", params) => {
                let events = params.get("events").and_then(Value::as_array);
                self.found(events.cloned().unwrap_or_default())?;
                Ok(true)
            }
            ("notifications/muster/event", Value::Object(mut event)) => {
                // What belongs to the protocol is no part of the event.
                event.remove("_meta");
                let event = Value::Object(event);
                self.print(std::slice::from_ref(&event))?;
                self.known.get_or_insert_default().insert(0, event);
                Ok(true)
            }
            _ => Ok(false),
        }
    }

    /// Shows what is new in all that there is.
    fn found(&mut self, now: Vec<Value>) -> Result<(), CommandError> {
        match &self.known {
            Some(known) => {
                let new = unknown(&now, &counted(known));
                if !new.is_empty() {
                    self.print(&new)?;
                }
            }
            None => {
                let first = now.get(..self.first).unwrap_or(&now);
                self.printer.line(&tool_text::text(raw(&first).get(), self.style)?)?;
                if self.for_people {
                    self.printer.line("\n--- Following new events ---")?;
                }
            }
        }
        self.known = Some(now);
        Ok(())
    }

    fn print(&self, new: &[Value]) -> Result<(), CommandError> {
        let printer = &self.printer;
        match self.style.format {
            OutputFormat::Json => new.iter().try_for_each(|event| printer.line(&event.to_string())),
            OutputFormat::Yaml => new.iter().try_for_each(|event| {
                printer.line(&format!("---\n{}", yaml::document(&raw(event))))
            }),
            OutputFormat::Table | OutputFormat::Wide => printer
                .line(&object_table::table(new, OutputStyle { headings: false, ..self.style })),
        }
    }
}

fn counted(events: &[Value]) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for event in events {
        *counts.entry(event.to_string()).or_insert(0) += 1;
    }
    counts
}

/// What was not known, oldest first. The gateway tells the newest first.
fn unknown(now: &[Value], known: &BTreeMap<String, usize>) -> Vec<Value> {
    let mut left = known.clone();
    let mut new: Vec<Value> = now
        .iter()
        .rev()
        .filter(|event| match left.get_mut(&event.to_string()) {
            Some(count) if *count > 0 => {
                *count -= 1;
                false
            }
            Some(_) | None => true,
        })
        .cloned()
        .collect();
    new.sort_by_key(|event| event.get("timestamp").map(ToString::to_string));
    new
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{counted, unknown};

    #[test]
    fn only_what_was_not_known() {
        let event = |time: &str, what: &str| json!({"timestamp": time, "message": what});
        let before = [event("2", "b"), event("1", "a")];
        let now = [event("3", "c"), event("2", "b"), event("2", "b"), event("1", "a")];
        let new: Vec<Value> = unknown(&now, &counted(&before));
        assert_eq!(new, [event("2", "b"), event("3", "c")]);
        assert!(unknown(&now, &counted(&now)).is_empty());
    }
}
