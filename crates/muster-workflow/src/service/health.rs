//! The health of a service, from the results of its checks.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json};

use super::class::{HealthExpectation, HealthPolicy, HealthTool};

/// The health of a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ServiceHealth {
    /// Healthy.
    Healthy,
    /// The last checks failed, but fewer than the threshold.
    Degraded,
    /// As many checks in a row failed as the threshold says, or a tool failed.
    Unhealthy,
    /// Not known, or a word of a newer version.
    #[default]
    #[serde(other)]
    Unknown,
}

impl ServiceHealth {
    /// Its name in replies.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Healthy => "healthy",
            Self::Degraded => "degraded",
            Self::Unhealthy => "unhealthy",
        }
    }
}

/// The results of the last checks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HealthChecks {
    /// The health that follows.
    pub health: ServiceHealth,
    /// Failures in a row.
    pub failures: u32,
    /// Successes in a row.
    pub successes: u32,
}

impl HealthChecks {
    /// The checks of a service that has just started.
    pub const fn fresh() -> Self {
        Self { health: ServiceHealth::Healthy, failures: 0, successes: 0 }
    }

    /// The state after another check.
    #[must_use]
    pub fn after(self, good: bool, policy: &HealthPolicy) -> Self {
        if good {
            let successes = self.successes.saturating_add(1);
            let back = self.health == ServiceHealth::Degraded || successes >= policy.successes();
            let health = if back { ServiceHealth::Healthy } else { self.health };
            return Self { health, failures: 0, successes };
        }
        let failures = self.failures.saturating_add(1);
        let lost = self.health == ServiceHealth::Unhealthy || failures >= policy.failures();
        let health = if lost { ServiceHealth::Unhealthy } else { ServiceHealth::Degraded };
        Self { health, failures, successes: 0 }
    }
}

/// Why the result of a health tool is not healthy, if so.
pub fn check_response(tool: &HealthTool, success: bool, text: &str) -> Result<(), String> {
    let mut answer = Map::new();
    answer.insert("text".to_owned(), text.into());
    answer.insert("success".to_owned(), success.into());
    if let Ok(Json::Object(fields)) = serde_json::from_str(text) {
        answer.extend(fields);
    }
    let wanted = tool.expect.as_ref();
    // `expectNot: success` implies that the call fails.
    let unless = tool.expect_not.as_ref().and_then(|expect| expect.success).map(|not| !not);
    let works = wanted.and_then(|expect| expect.success).or(unless).unwrap_or(true);
    if works != success {
        return Err(match success {
            true => "the tool worked, and was expected to fail".to_owned(),
            false => text.to_owned(),
        });
    }
    let paths = |expect: Option<&HealthExpectation>| expect.map(|expect| expect.json_path.clone());
    for (path, value) in paths(wanted).unwrap_or_default() {
        match value_at(&answer, &path) {
            Some(is) if same(is, &value) => (),
            Some(is) => return Err(format!("{path} is {is}, and not {value}")),
            None => return Err(format!("the answer has no {path}")),
        }
    }
    for (path, value) in paths(tool.expect_not.as_ref()).unwrap_or_default() {
        if value_at(&answer, &path).is_some_and(|is| same(is, &value)) {
            return Err(format!("{path} is {value}"));
        }
    }
    Ok(())
}

/// The value of a key, or at a dot path.
pub(super) fn value_at<'a>(answer: &'a Map<String, Json>, path: &str) -> Option<&'a Json> {
    if let Some(value) = answer.get(path) {
        return Some(value);
    }
    let mut keys = path.split('.');
    let first = answer.get(keys.next()?)?;
    keys.try_fold(first, |value, key| value.as_object()?.get(key))
}

fn same(is: &Json, wanted: &Json) -> bool {
    match (is.as_f64(), wanted.as_f64()) {
        (Some(is), Some(wanted)) => is.total_cmp(&wanted).is_eq(),
        _ => is == wanted,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{HealthChecks, check_response};
    use crate::service::class::{HealthPolicy, HealthTool};

    #[test]
    fn health_turns_at_the_thresholds() {
        let policy =
            HealthPolicy { failure_threshold: 2, success_threshold: 2, ..HealthPolicy::default() };
        let check = |looks: &str, expect: &str| {
            let end = looks
                .chars()
                .fold(HealthChecks::fresh(), |checks, look| checks.after(look == '+', &policy));
            assert_eq!(end.health.as_str(), expect, "{looks}");
        };
        check("", "healthy");
        check("+", "healthy");
        check("-", "degraded");
        check("-+", "healthy");
        check("-+-", "degraded");
        check("--", "unhealthy");
        check("--+", "unhealthy");
        check("--+-+", "unhealthy");
        check("--++", "healthy");
        check("-----", "unhealthy");
    }

    #[test]
    fn answers_are_held_against_what_is_expected() {
        let check = |tool: serde_json::Value, success: bool, text: &str, expect: &str| {
            let tool: HealthTool = serde_json::from_value(tool).unwrap();
            let said = check_response(&tool, success, text).err().unwrap_or_default();
            assert_eq!(said, expect, "{text}");
        };
        check(json!({}), true, "fine", "");
        check(json!({}), false, "port closed", "port closed");
        check(json!({"expect": {"success": false}}), false, "x", "");
        check(
            json!({"expect": {"success": false}}),
            true,
            "x",
            "the tool worked, and was expected to fail",
        );
        let up = json!({"expect": {"json_path": {"status.now": "up", "n": 1}}});
        check(up.clone(), true, r#"{"status": {"now": "up"}, "n": 1.0}"#, "");
        check(
            up.clone(),
            true,
            r#"{"status": {"now": "down"}}"#,
            r#"status.now is "down", and not "up""#,
        );
        check(up, true, "no json", "the answer has no status.now");
        check(json!({"expect": {"jsonPath": {"text": "fine"}}}), true, "fine", "");
        let not = json!({"expect_not": {"json_path": {"status": "down"}}});
        check(not.clone(), true, r#"{"status": "down"}"#, r#"status is "down""#);
        check(not, true, r#"{"status": "up"}"#, "");
        check(json!({"expectNot": {"success": true}}), false, "gone", "");
    }
}
