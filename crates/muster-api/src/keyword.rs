//! Keywords of replies, which a newer gateway may have extended.

use serde::{
    Deserialize, Deserializer,
    de::{
        DeserializeOwned, IntoDeserializer,
        value::{Error, StringDeserializer},
    },
};

/// Deserializes a keyword; `None` if it is missing, or if only a newer gateway knows it.
pub fn known<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: DeserializeOwned,
{
    let word = Option::<String>::deserialize(deserializer)?;
    Ok(word.and_then(|word| {
        let word: StringDeserializer<Error> = word.into_deserializer();
        T::deserialize(word).ok()
    }))
}

#[cfg(test)]
mod tests {
    use muster_core::{
        call::Role,
        effect::Effect,
        observer::CallStatus,
        policy::{DefaultAccess, explain::Decision},
    };
    use muster_workflow::report::StepStatus;
    use serde_json::{from_value, json, to_value};

    use crate::{
        calls::CallInfo,
        execution::StepReply,
        policy::{PolicyAnswer, PolicyInfo},
    };

    #[test]
    fn keywords_are_written_as_they_are_read() {
        for status in CallStatus::ALL {
            let call: CallInfo = from_value(json!({"status": status.as_str()})).unwrap();
            assert_eq!(call.status, Some(status));
            assert_eq!(to_value(&call).unwrap()["status"], status.as_str());
        }
        let call = json!({"status": "ok", "role": "operator", "effect": "read"});
        let call: CallInfo = from_value(call).unwrap();
        assert_eq!((call.role, call.effect), (Some(Role::Operator), Some(Effect::Read)));
        for (word, decision) in [
            ("allowed", Decision::Allowed),
            ("hidden", Decision::Hidden),
            ("limited", Decision::Limited),
            ("destructive", Decision::Destructive),
            ("invalid_arguments", Decision::InvalidArguments),
            ("unknown_tool", Decision::UnknownTool),
            ("failed", Decision::Failed),
        ] {
            let answer: PolicyAnswer = from_value(json!({"decision": word})).unwrap();
            assert_eq!(answer.decision, Some(decision));
            assert_eq!(to_value(&answer).unwrap()["decision"], word);
        }
        let policy: PolicyInfo = from_value(json!({"default": "disabled"})).unwrap();
        assert_eq!(policy.default, Some(DefaultAccess::Disabled));
        assert_eq!(to_value(&policy).unwrap()["default"], "disabled");
        let step: StepReply = from_value(json!({"status": "skipped"})).unwrap();
        assert_eq!(step.status, Some(StepStatus::Skipped));
    }

    #[test]
    fn a_keyword_of_a_newer_gateway_does_not_hide_the_rest_of_a_reply() {
        let call = json!({"tool": "x_a", "status": "paused", "role": "auditor", "effect": "none"});
        let call: CallInfo = from_value(call).unwrap();
        assert_eq!(call.tool, "x_a");
        assert_eq!((call.status, call.role, call.effect), (None, None, None));
        let answer = json!({"reason": "later", "decision": "deferred", "effect": null});
        let answer: PolicyAnswer = from_value(answer).unwrap();
        assert_eq!((answer.reason.as_str(), answer.decision), ("later", None));
    }
}
