//! Faults injected into responses.

use std::time::Duration;

use serde_json::Value;

use crate::duration;

/// A fault and how often it applies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fault {
    /// What goes wrong.
    pub kind: FaultKind,
    /// How many responses it affects; `None` for all.
    pub times: Option<u32>,
}

/// The kind of a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaultKind {
    /// The response is late.
    Delay(Duration),
    /// The connection is reset; a `stdio` server exits.
    Reset,
    /// The response is not a valid message.
    Garbage,
    /// The response is truncated, then the connection closes.
    Half,
    /// There is no response.
    Hang,
    /// The server responds with this HTTP status; a `stdio` server with an error.
    Status(u16),
}

impl Fault {
    /// Parses `reset`, `{kind: reset, times: 1}`, `{kind: delay, delay: 2s}`, `{kind: status,
    /// status: 503}`.
    pub fn read(value: &Value) -> Result<Self, String> {
        let (kind, value) = match value {
            Value::String(kind) => (kind.as_str(), &Value::Null),
            Value::Object(map) => match map.get("kind") {
                Some(Value::String(kind)) => (kind.as_str(), value),
                Some(_) | None => return Err("`kind` is required".to_owned()),
            },
            _ => return Err("expected a fault kind or a mapping".to_owned()),
        };
        let kind = match kind {
            "reset" => FaultKind::Reset,
            "garbage" => FaultKind::Garbage,
            "half" => FaultKind::Half,
            "hang" => FaultKind::Hang,
            "delay" => {
                let delay = value.get("delay").and_then(Value::as_str).and_then(duration::parse);
                FaultKind::Delay(delay.ok_or("`delay` must be a duration such as `2s`")?)
            }
            "status" => {
                let status = value.get("status").and_then(Value::as_u64);
                let status = status.and_then(|status| u16::try_from(status).ok());
                let range = |status: &u16| (200..600).contains(status);
                FaultKind::Status(status.filter(range).ok_or("`status` must be an HTTP status")?)
            }
            other => {
                return Err(format!(
                    "`{other}` is none of `delay`, `reset`, `garbage`, `half`, `hang` and `status`"
                ));
            }
        };
        let times = match value.get("times") {
            None | Some(Value::Null) => None,
            Some(times) => {
                let times = times.as_u64().and_then(|times| u32::try_from(times).ok());
                Some(times.ok_or("`times` must be a whole number")?)
            }
        };
        Ok(Self { kind, times })
    }

    /// As JSON, in the form that [`Fault::read`] accepts.
    pub fn to_json(self) -> Value {
        let (kind, extra) = match self.kind {
            FaultKind::Delay(delay) => {
                ("delay", Some(("delay", Value::from(format!("{}ms", delay.as_millis())))))
            }
            FaultKind::Reset => ("reset", None),
            FaultKind::Garbage => ("garbage", None),
            FaultKind::Half => ("half", None),
            FaultKind::Hang => ("hang", None),
            FaultKind::Status(status) => ("status", Some(("status", Value::from(status)))),
        };
        let mut map = serde_json::Map::new();
        map.insert("kind".to_owned(), kind.into());
        map.extend(extra.map(|(key, value)| (key.to_owned(), value)));
        map.extend(self.times.map(|times| ("times".to_owned(), times.into())));
        Value::Object(map)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::Fault;

    #[test]
    fn faults_round_trip() {
        for value in [
            json!({"kind": "reset"}),
            json!({"kind": "half", "times": 2}),
            json!({"kind": "delay", "delay": "2000ms", "times": 1}),
            json!({"kind": "status", "status": 503}),
        ] {
            assert_eq!(Fault::read(&value).unwrap().to_json(), value);
        }
        assert_eq!(Fault::read(&json!("hang")).unwrap().to_json(), json!({"kind": "hang"}));
    }

    #[test]
    fn invalid_faults_are_reported() {
        for (value, expect) in [
            (
                json!("explode"),
                "`explode` is none of `delay`, `reset`, `garbage`, `half`, `hang` and `status`",
            ),
            (json!({"times": 1}), "`kind` is required"),
            (json!("delay"), "`delay` must be a duration such as `2s`"),
            (json!({"kind": "status", "status": 99}), "`status` must be an HTTP status"),
            (json!({"kind": "reset", "times": -1}), "`times` must be a whole number"),
            (json!(5), "expected a fault kind or a mapping"),
        ] {
            assert_eq!(Fault::read(&value).unwrap_err(), expect);
        }
    }
}
