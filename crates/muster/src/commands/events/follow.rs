//! `muster events --follow`: events as they happen.
//!
//! A call of `core_events` with `follow` stays open for as long as the gateway allows. The gateway first sends past
//! events, then each new event. When the call ends, the next one begins, and its past events include what happened in
//! between. Events are compared as a whole, so that neither clock skew nor equal timestamps can hide one. A gateway
//! that does not support `follow` is polled. If the connection is lost, the command reconnects.

use std::time::Duration;

use muster_api::event::{EventInfo, PastEvents};
use muster_client::remote::{GatewayEvent, error::RemoteError};
use muster_core::json::{RawObject, raw};
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
        reply::ReplyView as _,
        yaml,
    },
    process,
};

/// The requested duration of one call.
const DURATION: &str = "1h";
/// The polling interval, and the pause between attempts to reconnect.
const INTERVAL: Duration = Duration::from_secs(1);
/// The maximum number of consecutive connections that may be lost without a reply.
const MAX_LOST: u32 = 5;
/// The minimum limit of a call, which ends after this many new events.
const MIN_LIMIT: usize = 500;

/// Prints each event once.
struct Follower {
    printer: Printer,
    style: OutputStyle,
    for_people: bool,
    /// The number of past events to print.
    first: usize,
    /// The events of the last list, newest first; `None` before the first list.
    seen: Option<Vec<EventInfo>>,
}

pub(super) async fn follow(
    gateway: &GatewayArgs,
    session: &mut GatewaySession,
    mut arguments: RawObject<'static>,
    first: usize,
) -> Result<(), CommandError> {
    let printer = Printer::stdout();
    let for_people =
        matches!(session.style.format, OutputFormat::Table | OutputFormat::Wide) && !gateway.quiet;
    if for_people {
        printer.line("Streaming events (Press Ctrl+C to stop)...\n")?;
    }
    arguments.set_value("limit", &first.max(MIN_LIMIT));
    arguments.set_value("follow", &true);
    arguments.set_value("duration", DURATION);
    let mut notifications = subscribe(session);
    let mut follower = Follower { printer, style: session.style, for_people, first, seen: None };
    let mut stop = std::pin::pin!(process::stop_requested());
    let mut lost = 0;
    loop {
        let called = tokio::select! {
            () = &mut stop => return Ok(()),
            called = follower.call(session, &arguments, &mut notifications) => called,
        };
        match called {
            Ok(Delivery::Notified) => lost = 0,
            Ok(Delivery::ReplyOnly) => {
                lost = 0;
                tokio::select! {
                    () = &mut stop => return Ok(()),
                    () = sleep(INTERVAL) => (),
                }
            }
            Err(CallError::Lost(_)) if follower.seen.is_some() && lost < MAX_LOST => {
                lost += 1;
                gateway.warn("the gateway is gone; waiting for it to come back");
                tokio::select! {
                    () = &mut stop => return Ok(()),
                    connected = reconnect(gateway, session) => connected?,
                }
                gateway.warn("connected again");
                notifications = subscribe(session);
            }
            Err(CallError::Lost(err)) => return Err(err.into()),
            Err(CallError::Failed(err)) => return Err(err),
        }
    }
}

fn subscribe(session: &mut GatewaySession) -> UnboundedReceiver<GatewayEvent> {
    session.remote.events().unwrap_or_else(|| unbounded_channel().1)
}

/// Reconnects as soon as the gateway is back.
async fn reconnect(
    gateway: &GatewayArgs,
    session: &mut GatewaySession,
) -> Result<(), CommandError> {
    loop {
        sleep(INTERVAL).await;
        match gateway.connect_again().await? {
            Ok(remote) => {
                // Replace the old connection without closing it: it is lost already.
                session.remote = remote;
                return Ok(());
            }
            Err(
                RemoteError::NotRunning
                | RemoteError::NotResponding { .. }
                | RemoteError::Unreachable(_)
                | RemoteError::Connect(_)
                | RemoteError::Request(_),
            ) => (),
            Err(err) => return Err(err.into()),
        }
    }
}

/// Why a call failed.
enum CallError {
    /// The connection was lost.
    Lost(RemoteError),
    /// The gateway refused the call, or the output cannot be written.
    Failed(CommandError),
}

impl From<CommandError> for CallError {
    fn from(error: CommandError) -> Self {
        Self::Failed(error)
    }
}

/// How a gateway delivers events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Delivery {
    /// As notifications during the call.
    Notified,
    /// Only in the reply, which ends the call.
    ReplyOnly,
}

impl Follower {
    /// Makes one call and prints what arrives until it ends.
    async fn call(
        &mut self,
        session: &GatewaySession,
        arguments: &RawObject<'_>,
        notifications: &mut UnboundedReceiver<GatewayEvent>,
    ) -> Result<Delivery, CallError> {
        let arguments = arguments.to_raw();
        let mut call = std::pin::pin!(session.remote.call("core_events", &arguments));
        let mut delivery = Delivery::ReplyOnly;
        let response = loop {
            tokio::select! {
                biased;
                Some(notification) = notifications.recv() => {
                    if self.notified(&notification)? {
                        delivery = Delivery::Notified;
                    }
                }
                response = &mut call => break response.map_err(CallError::Lost)?,
            }
        };
        // Print the notifications that arrived before the reply first.
        while let Ok(notification) = notifications.try_recv() {
            if self.notified(&notification)? {
                delivery = Delivery::Notified;
            }
        }
        let events = response.reply("core_events");
        self.listed(events.map_err(|err| CallError::Failed(err.into()))?)?;
        Ok(delivery)
    }

    /// Prints the events of a notification. Returns whether the notification has events.
    fn notified(&mut self, event: &GatewayEvent) -> Result<bool, CommandError> {
        // Ignore the end of the connection here: the call fails with it.
        let GatewayEvent::Notification(notification) = event else { return Ok(false) };
        let params = notification.params.get();
        match notification.method.as_str() {
            "notifications/muster/events" => {
                let past: PastEvents = serde_json::from_str(params).unwrap_or_default();
                self.listed(past.events)?;
                Ok(true)
            }
            "notifications/muster/event" => {
                let Ok(event) = serde_json::from_str::<EventInfo>(params) else { return Ok(false) };
                self.print(std::slice::from_ref(&event))?;
                self.seen.get_or_insert_default().insert(0, event);
                Ok(true)
            }
            _ => Ok(false),
        }
    }

    /// Prints the new events of a list.
    fn listed(&mut self, events: Vec<EventInfo>) -> Result<(), CommandError> {
        match &self.seen {
            Some(seen) => {
                let new = unseen(&events, seen);
                if !new.is_empty() {
                    self.print(&new)?;
                }
            }
            None => {
                let first = events.get(..self.first).unwrap_or(&events);
                self.printer.line(&match self.style.format {
                    OutputFormat::Json => raw(&first).get().to_owned(),
                    OutputFormat::Yaml => yaml::document(&raw(&first)),
                    OutputFormat::Table | OutputFormat::Wide => first.to_vec().show(self.style),
                })?;
                if self.for_people {
                    self.printer.line("\n--- Following new events ---")?;
                }
            }
        }
        self.seen = Some(events);
        Ok(())
    }

    /// Prints new events, newest first in the list.
    fn print(&self, new: &[EventInfo]) -> Result<(), CommandError> {
        let printer = &self.printer;
        match self.style.format {
            OutputFormat::Json => {
                new.iter().rev().try_for_each(|event| printer.line(raw(event).get()))
            }
            OutputFormat::Yaml => new.iter().rev().try_for_each(|event| {
                printer.line(&format!("---\n{}", yaml::document(&raw(event))))
            }),
            OutputFormat::Table | OutputFormat::Wide => {
                let style = OutputStyle { headings: false, ..self.style };
                printer.line(&new.to_vec().show(style))
            }
        }
    }
}

/// The events that were not seen before, newest first. Equal events are compared by how often they occur.
fn unseen(events: &[EventInfo], seen: &[EventInfo]) -> Vec<EventInfo> {
    let mut seen: Vec<&EventInfo> = seen.iter().collect();
    let mut new = Vec::new();
    for event in events {
        match seen.iter().position(|before| *before == event) {
            Some(place) => drop(seen.swap_remove(place)),
            None => new.push(event.clone()),
        }
    }
    new
}

#[cfg(test)]
mod tests {
    use muster_api::event::EventInfo;

    use super::unseen;

    #[test]
    fn only_new_events_are_printed() {
        let event = |time: &str, message: &str| EventInfo {
            timestamp: time.to_owned(),
            message: message.to_owned(),
            ..EventInfo::default()
        };
        let before = [event("2", "b"), event("1", "a")];
        let now = [event("3", "c"), event("2", "b"), event("2", "b"), event("1", "a")];
        assert_eq!(unseen(&now, &before), [event("3", "c"), event("2", "b")]);
        assert!(unseen(&now, &now).is_empty());
    }
}
