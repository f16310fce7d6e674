//! The merge patch from the actual status of a resource to the desired one.

use jiff::Timestamp;
use muster_engine::{
    status::moment,
    store::{DefinitionStatus, StatusCondition},
};
use serde_json::{Map, Value as Json, json};

use crate::object::KubeObject;

/// The conditions that gateways write. All others belong to other writers.
const OWN_CONDITIONS: [&str; 2] = ["Accepted", "Ready"];

/// The merge patch from the status of an object to the desired one; `None` if they are equal.
pub(crate) fn patch(
    object: &KubeObject,
    status: &DefinitionStatus,
    now: Timestamp,
) -> Option<Json> {
    let nothing = Map::new();
    let before = object.status().unwrap_or(&nothing);
    let mut after = match status.fields.is_empty() {
        true => before.clone(),
        false => status.fields.clone(),
    };
    if status.conditions.is_empty() {
        after
            .extend(before.get("conditions").map(|known| ("conditions".to_owned(), known.clone())));
    } else {
        let known = before.get("conditions").and_then(Json::as_array);
        let known = known.map(Vec::as_slice).unwrap_or_default();
        after.insert("conditions".to_owned(), conditions(known, status, now));
    }
    (after != *before).then(|| Json::Object(difference(before, after)))
}

/// The merge patch from one object to another: new and changed members, and `null` for removed ones, recursively.
fn difference(before: &Map<String, Json>, after: Map<String, Json>) -> Map<String, Json> {
    let gone = before.keys().filter(|key| !after.contains_key(*key));
    let mut patch: Map<String, Json> = gone.map(|key| (key.clone(), Json::Null)).collect();
    for (key, value) in after {
        match (before.get(&key), value) {
            (Some(known), value) if *known == value => (),
            (Some(Json::Object(known)), Json::Object(value)) => {
                patch.insert(key, Json::Object(difference(known, value)));
            }
            (_, value) => drop(patch.insert(key, value)),
        }
    }
    patch
}

/// The conditions of a status, in their current order: those of other writers unchanged, those of the gateway as
/// desired.
fn conditions(known: &[Json], status: &DefinitionStatus, now: Timestamp) -> Json {
    let kind =
        |known: &Json| known.get("type").and_then(Json::as_str).unwrap_or_default().to_owned();
    let wanted = |kind: &str| status.conditions.iter().find(|wanted| wanted.kind == kind);
    let kept = known.iter().filter_map(|known| match wanted(&kind(known)) {
        Some(wanted) => Some(condition(wanted, status.generation, Some(known), now)),
        None => (!OWN_CONDITIONS.contains(&kind(known).as_str())).then(|| known.clone()),
    });
    let is_new = |wanted: &&StatusCondition| known.iter().all(|known| kind(known) != wanted.kind);
    let new = status.conditions.iter().filter(is_new);
    kept.chain(new.map(|wanted| condition(wanted, status.generation, None, now))).collect()
}

/// A condition, with the time of its last transition.
fn condition(
    wanted: &StatusCondition,
    generation: Option<i64>,
    known: Option<&Json>,
    now: Timestamp,
) -> Json {
    let status = if wanted.holds { "True" } else { "False" };
    let is_same =
        known.and_then(|known| known.get("status")).and_then(Json::as_str) == Some(status);
    let since = known.and_then(|known| known.get("lastTransitionTime")).filter(|_| is_same);
    let mut condition = json!({
        "type": wanted.kind,
        "status": status,
        "reason": wanted.reason,
        "message": wanted.message,
        "lastTransitionTime": since.cloned().unwrap_or_else(|| json!(moment(now))),
    });
    if let (Some(generation), Json::Object(condition)) = (generation, &mut condition) {
        condition.insert("observedGeneration".to_owned(), json!(generation));
    }
    condition
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use muster_config::kinds::DefinitionKind;
    use muster_engine::store::DefinitionStatus;
    use serde_json::{Value as Json, json};

    use super::patch;
    use crate::{object::KubeObject, testing::wanted};

    fn object(status: &Json) -> KubeObject {
        let json =
            json!({"metadata": {"name": "a", "generation": 2}, "spec": {}, "status": status});
        KubeObject::new(DefinitionKind::McpServer, json).unwrap()
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    /// Applies a merge patch (RFC 7396).
    fn merged(before: &Json, patch: &Json) -> Json {
        let Json::Object(patch) = patch else { return patch.clone() };
        let mut after = before.as_object().cloned().unwrap_or_default();
        for (key, value) in patch {
            match value {
                Json::Null => drop(after.remove(key)),
                value => {
                    let merged = merged(after.get(key).unwrap_or(&Json::Null), value);
                    after.insert(key.clone(), merged);
                }
            }
        }
        Json::Object(after)
    }

    #[test]
    fn a_status_is_written_on_change_only() {
        let first = patch(&object(&json!({})), &wanted(true), at(10)).unwrap();
        let status = merged(&json!({}), &first);
        assert_eq!(status["conditions"][0]["lastTransitionTime"], "1970-01-01T00:00:10Z");
        assert_eq!(status["conditions"][0]["observedGeneration"], 2);
        assert_eq!(patch(&object(&status), &wanted(true), at(20)), None);
    }

    #[test]
    fn the_time_of_a_condition_is_that_of_its_last_change() {
        let connected =
            merged(&json!({}), &patch(&object(&json!({})), &wanted(true), at(10)).unwrap());
        let mut newer = wanted(true);
        newer.generation = Some(3);
        let newer = merged(&connected, &patch(&object(&connected), &newer, at(20)).unwrap());
        assert_eq!(newer["conditions"][0]["lastTransitionTime"], "1970-01-01T00:00:10Z");
        assert_eq!(newer["conditions"][0]["observedGeneration"], 3);
        let failed =
            merged(&connected, &patch(&object(&connected), &wanted(false), at(30)).unwrap());
        assert_eq!(failed["conditions"][0]["status"], "False");
        assert_eq!(failed["conditions"][0]["lastTransitionTime"], "1970-01-01T00:00:30Z");
    }

    #[test]
    fn what_no_longer_holds_is_removed() {
        let before = json!({"state": "Failed", "lastError": "x"});
        let after = merged(&before, &patch(&object(&before), &wanted(true), at(1)).unwrap());
        assert_eq!(after.get("lastError"), None);
        assert_eq!(after["state"], "Connected");
    }

    #[test]
    fn what_no_longer_holds_is_removed_at_every_depth() {
        let fields = |outputs: Json| DefinitionStatus {
            fields: json!({"state": "running", "outputs": outputs}).as_object().unwrap().clone(),
            ..DefinitionStatus::default()
        };
        for (before, wanted) in [
            (json!({"url": "a", "port": 1}), json!({"url": "a"})),
            (json!({"a": {"b": {"c": 1}, "d": 2}}), json!({"a": {"b": {}, "d": 3}})),
            (json!({"a": {"b": 1}}), json!({"a": "text"})),
            (json!({"a": [1, 2]}), json!({"a": [{"b": 1}]})),
            (json!(null), json!({"a": 1})),
        ] {
            let before = json!({"state": "running", "outputs": before});
            let patch = patch(&object(&before), &fields(wanted.clone()), at(1)).unwrap();
            assert_eq!(merged(&before, &patch)["outputs"], wanted, "{patch}");
            // Only what differs is written.
            assert_eq!(patch.get("state"), None, "{patch}");
        }
    }

    #[test]
    fn the_conditions_of_others_stay() {
        let of = |kind: &str, status: &str| json!({"type": kind, "status": status, "reason": "R", "message": "", "lastTransitionTime": "t"});
        // A gateway wrote `Accepted`, which is no longer wanted.
        let before = json!({"conditions": [
            of("Synced", "True"),
            of("Ready", "False"),
            of("Accepted", "True"),
            of("Audited", "Unknown"),
        ]});
        let after = merged(&before, &patch(&object(&before), &wanted(true), at(10)).unwrap());
        let found: Vec<(&str, &str)> = after["conditions"]
            .as_array()
            .unwrap()
            .iter()
            .map(|found| (found["type"].as_str().unwrap(), found["status"].as_str().unwrap()))
            .collect();
        assert_eq!(found, [("Synced", "True"), ("Ready", "True"), ("Audited", "Unknown")]);
        assert_eq!(patch(&object(&after), &wanted(true), at(20)), None);
    }

    #[test]
    fn a_part_leaves_the_rest_alone() {
        let before = json!({"state": "running"});
        let conditions = DefinitionStatus { fields: serde_json::Map::new(), ..wanted(true) };
        let after = merged(&before, &patch(&object(&before), &conditions, at(1)).unwrap());
        assert_eq!(after["state"], "running");
        let fields = DefinitionStatus { conditions: Vec::new(), ..wanted(false) };
        let last = merged(&after, &patch(&object(&after), &fields, at(2)).unwrap());
        assert_eq!((&last["state"], &last["conditions"]), (&json!("Failed"), &after["conditions"]));
    }
}
