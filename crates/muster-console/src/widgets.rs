//! The parts that pages are made of.

use std::borrow::Cow;

use jiff::{civil::DateTime, tz::TimeZone};
use muster_core::{effect::Effect, observer::CallStatus};

use crate::{
    html::{Content, Element, Html, el},
    request::PageRequest,
};

/// A state as a chip whose colour shows whether it needs attention.
pub(crate) fn state(state: &str) -> Element {
    let kind = match state.to_lowercase().as_str() {
        "running" | "connected" | "ready" | "healthy" | "completed" | "available" | "ok" => {
            "chip ok"
        }
        "starting" | "connecting" | "stopping" | "auth required" | "auth_required"
        | "awaiting approval" | "awaiting_approval" | "warning" | "interrupted" => "chip warn",
        "failed" | "unreachable" | "unhealthy" | "error" => "chip bad",
        _ => "chip",
    };
    el("span").class(kind).put(state.replace('_', " ").to_lowercase())
}

/// The status of a call as a chip whose colour shows whether the call failed.
pub(crate) fn call_status(status: CallStatus) -> Element {
    let kind = match status {
        CallStatus::Ok => "chip ok",
        status if status.is_error() => "chip bad",
        _ => "chip",
    };
    el("span").class(kind).put(status.as_str().replace('_', " "))
}

/// An effect as a chip.
pub(crate) fn effect(effect: Effect) -> Element {
    let kind = match effect {
        Effect::Read => "chip ok",
        Effect::Write => "chip warn",
        Effect::Destructive => "chip bad",
    };
    el("span").class(kind).put(effect.as_str())
}

/// A time in UTC without fractions of a second. The tooltip has the full time.
pub(crate) fn time(rfc3339: &str) -> Element {
    let shown = rfc3339.split('.').next().unwrap_or_default().trim_end_matches('Z');
    let element = el("time").attr("datetime", rfc3339).attr("title", rfc3339);
    match shown.split_once('T') {
        Some((date, clock)) => {
            element.put(el("span").class("date").put(date)).put(" ").put(clock).put(" UTC")
        }
        None => element.put(shown),
    }
}

/// A time that a reply has in the gateway's time zone, `2006-01-02 15:04:05`, shown in UTC like all others.
pub(crate) fn local_time(shown: &str) -> Element {
    let moment = DateTime::strptime("%Y-%m-%d %H:%M:%S", shown);
    let moment = moment.and_then(|moment| moment.to_zoned(TimeZone::system()));
    match moment {
        Ok(moment) => time(&moment.timestamp().to_string()),
        Err(_) => time(shown),
    }
}

/// A number with the noun that it counts, in singular or plural.
pub(crate) fn counted(number: u64, one: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{} {one}{plural}", grouped(number))
}

/// A column of a table.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Column {
    label: &'static str,
    is_number: bool,
}

/// A column of text.
pub(crate) const fn text(label: &'static str) -> Column {
    Column { label, is_number: false }
}

/// A column of numbers.
pub(crate) const fn number(label: &'static str) -> Column {
    Column { label, is_number: true }
}

/// A table. On a narrow screen each row becomes a card, whose first cell needs no label.
pub(crate) fn table(columns: &[Column], rows: Vec<Vec<Html>>) -> Element {
    let class = |element: Element, column: &Column| {
        if column.is_number { element.class("number") } else { element }
    };
    let heads =
        columns.iter().map(|column| class(el("th").attr("scope", "col"), column).put(column.label));
    let rows = rows.into_iter().map(|cells| {
        let cells = columns.iter().zip(cells).enumerate().map(|(at, (column, cell))| {
            let element = class(el("td"), column);
            let element = if at == 0 { element } else { element.attr("data-label", column.label) };
            element.put(cell)
        });
        el("tr").put(cells.collect::<Vec<_>>())
    });
    el("table")
        .class("table")
        .put(el("thead").put(el("tr").put(heads.collect::<Vec<_>>())))
        .put(el("tbody").put(rows.collect::<Vec<_>>()))
}

/// A cell.
pub(crate) fn cell(content: impl Content) -> Html {
    Html::default().put(content)
}

/// A number with its label.
pub(crate) fn figure(number: impl Content, label: &str) -> Element {
    el("li").put(el("b").put(number)).put(el("span").put(label))
}

/// A part of a page that is refreshed while the page is open.
pub(crate) fn live(id: &'static str) -> Element {
    el("section").attr("id", id).flag("data-live", true)
}

/// A sentence, with text in backticks rendered as code.
pub(crate) fn prose(text: &str) -> Html {
    if !text.matches('`').count().is_multiple_of(2) {
        return Html::default().put(text);
    }
    text.split('`').enumerate().fold(Html::default(), |shown, (at, part)| {
        if at.is_multiple_of(2) { shown.put(part) } else { shown.put(el("code").put(part)) }
    })
}

/// A placeholder for an empty list.
pub(crate) fn empty(text: &str) -> Element {
    el("div").class("empty").put(el("p").put(prose(text)))
}

/// A control of a form with its label; `name` is the control's id.
pub(crate) fn labelled(name: &'static str, label: &str, control: Element) -> Element {
    el("div").put(el("label").attr("for", name).put(label)).put(control)
}

/// A highlighted message.
pub(crate) fn notice(kind: &str, text: &str) -> Element {
    el("div")
        .class(format!("notice {kind}").trim())
        .attr("role", "status")
        .put(el("p").put(prose(text)))
}

/// The notice about a change, selected by a word in the redirect's query. Only known words have a notice, so that a
/// link cannot put text on the page.
pub(crate) fn notice_of(request: &PageRequest) -> Option<Element> {
    let done = request.query("did")?;
    let known = [
        ("added", "The server was added."),
        ("approved", "The server was approved."),
        ("created", "The workflow was saved."),
        ("deleted", "The server was deleted."),
        ("disabled", "The server was stopped, and does not start with the gateway any more."),
        ("enabled", "The server was started, and starts with the gateway from now on."),
        ("logged-out", "The session was ended."),
        ("reloaded", "The files were read again."),
        ("restarted", "It was restarted."),
        ("revoked", "The token was revoked."),
        ("started", "It was started."),
        ("stopped", "It was stopped."),
    ];
    known.iter().find(|(word, _)| *word == done).map(|(_, text)| notice("ok", text))
}

/// A line of text with a button that copies it.
pub(crate) fn copied(label: &str, line: &str) -> Element {
    let copy = el("button").attr("type", "button").attr("data-copy", line).flag("hidden", true);
    let title = el("div").class("row").put(el("h3").put(label)).put(copy.put("Copy"));
    el("div").put(title).put(el("pre").attr("tabindex", "0").attr("aria-label", label).put(line))
}

/// Cuts an untrusted text to at most `most` bytes, and appends its full length.
pub(crate) fn cut(text: &str, most: usize) -> Cow<'_, str> {
    if text.len() <= most {
        return Cow::Borrowed(text);
    }
    let end = (0..=most).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    Cow::Owned(format!("{}… ({} bytes)", text.get(..end).unwrap_or_default(), text.len()))
}

/// Formats a duration with its two largest units.
pub(crate) fn lasting(seconds: u64) -> String {
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3_600 % 24, seconds / 60 % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds} s"),
        (0, 0, minutes) => format!("{minutes} min {} s", seconds % 60),
        (0, hours, minutes) => format!("{hours} h {minutes} min"),
        (days, hours, _) => format!("{days} d {hours} h"),
    }
}

/// Formats a whole number with thousands separators.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut shown = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            shown.push('\u{202f}');
        }
        shown.push(digit);
    }
    shown
}

/// Formats a length in bytes with a suitable unit.
#[expect(clippy::cast_precision_loss, reason = "for people")]
pub(crate) fn bytes(length: u64) -> String {
    match length {
        0..1_000 => format!("{length} B"),
        1_000..1_000_000 => format!("{:.1} kB", length as f64 / 1e3),
        _ => format!("{:.1} MB", length as f64 / 1e6),
    }
}

/// Formats milliseconds with a suitable unit.
pub(crate) fn milliseconds(value: f64) -> String {
    match value {
        _ if value >= 10_000.0 => format!("{:.0} s", value / 1e3),
        _ if value >= 1_000.0 => format!("{:.1} s", value / 1e3),
        _ if value >= 10.0 => format!("{value:.0} ms"),
        _ => format!("{value:.1} ms"),
    }
}

#[cfg(test)]
mod tests {
    use jiff::tz::TimeZone;

    use super::{bytes, counted, grouped, lasting, local_time, milliseconds, time};
    use crate::html::{Element, Html};

    #[test]
    fn times_are_in_utc_and_say_so() {
        let shown = |element: Element| Html::from(element).into_string();
        let utc = shown(time("2026-11-18T19:08:31.5Z"));
        assert!(utc.contains("2026-11-18</span> 19:08:31 UTC"), "{utc}");
        // The same moment in the gateway's time zone.
        let moment = "2026-11-18T19:08:31Z".parse::<jiff::Timestamp>().unwrap();
        let local = moment.to_zoned(TimeZone::system()).strftime("%Y-%m-%d %H:%M:%S").to_string();
        assert_eq!(shown(local_time(&local)), shown(time("2026-11-18T19:08:31Z")));
    }

    #[test]
    fn durations_have_two_units() {
        for (seconds, expected) in
            [(0, "0 s"), (59, "59 s"), (61, "1 min 1 s"), (7_260, "2 h 1 min"), (90_000, "1 d 1 h")]
        {
            assert_eq!(lasting(seconds), expected);
        }
        for (value, expected) in
            [(0.25, "0.2 ms"), (42.4, "42 ms"), (1_240.0, "1.2 s"), (61_000.0, "61 s")]
        {
            assert_eq!(milliseconds(value), expected);
        }
        let counts = [0, 1, 2_000].map(|number| counted(number, "token"));
        assert_eq!(counts, ["0 tokens", "1 token", "2\u{202f}000 tokens"]);
        let numbers = [0, 999, 1_000, 1_234_567].map(grouped);
        assert_eq!(numbers, ["0", "999", "1\u{202f}000", "1\u{202f}234\u{202f}567"]);
        assert_eq!([7, 1_234, 5_000_000].map(bytes), ["7 B", "1.2 kB", "5.0 MB"]);
    }
}
