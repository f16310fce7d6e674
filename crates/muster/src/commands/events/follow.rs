//! Events as they happen.
//!
//! The gateway is asked again and again, and what it did not say before is new. Events are compared as
//! a whole, so that neither clocks nor equal times can hide one.

use std::{collections::BTreeMap, time::Duration};

use muster_core::json::{Object, raw};
use serde_json::Value;
use tokio::time::{MissedTickBehavior, interval};

use crate::{
    commands::asking::Asked,
    error::CommandError,
    output::{
        Printer, answer,
        layout::{Layout, Manner},
        list, yaml,
    },
    process,
};

const EVERY: Duration = Duration::from_secs(1);
/// How many events are looked at each time.
const WINDOW: usize = 500;

pub(super) async fn follow(
    asked: &Asked,
    mut wish: Object<'static>,
    first: usize,
    quiet: bool,
) -> Result<(), CommandError> {
    let printer = Printer::standard();
    let for_people = matches!(asked.manner.layout, Layout::Table | Layout::Wide) && !quiet;
    if for_people {
        printer.line("Streaming events (Press Ctrl+C to stop)...\n")?;
    }
    wish.set_value("follow", &true);
    wish.set_value("limit", &first.max(WINDOW));
    // What is shown first and what is known are one answer, so that nothing falls between two.
    let mut now = events(asked, &wish).await?;
    let mut known = counted(&now);
    now.truncate(first);
    printer.line(&answer::text(raw(&now).get(), asked.manner)?)?;
    if for_people {
        printer.line("\n--- Following new events ---")?;
    }
    let mut ticks = interval(EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut stop = std::pin::pin!(process::stop_requested());
    loop {
        tokio::select! {
            () = &mut stop => return Ok(()),
            _ = ticks.tick() => (),
        }
        let now = events(asked, &wish).await?;
        let new = unknown(&now, &known);
        known = counted(&now);
        if !new.is_empty() {
            print(&printer, asked.manner, &new)?;
        }
    }
}

async fn events(asked: &Asked, wish: &Object<'_>) -> Result<Vec<Value>, CommandError> {
    let answer = asked.remote.call("core_events", &wish.to_raw()).await?;
    let text = answer.texts().join("\n");
    if answer.failed {
        return Err(CommandError::new(text));
    }
    Ok(serde_json::from_str(&text).unwrap_or_default())
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

fn print(printer: &Printer, manner: Manner, new: &[Value]) -> Result<(), CommandError> {
    match manner.layout {
        Layout::Json => new.iter().try_for_each(|event| printer.line(&event.to_string())),
        Layout::Yaml => new
            .iter()
            .try_for_each(|event| printer.line(&format!("---\n{}", yaml::document(&raw(event))))),
        Layout::Table | Layout::Wide => {
            printer.line(&list::table(new, Manner { headings: false, ..manner }))
        }
    }
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
