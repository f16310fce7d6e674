//! The call path: a call that is not permitted never reaches a backend.

use muster_core::call::{Call, CallError, Checking};
use proptest::{option, prelude::*, sample::subsequence};
use serde_json::{Value, json};

use super::world::{World, request};

/// The error of a call that must not reach the backend.
#[track_caller]
fn refused(policy: Option<&str>, call: Call) -> CallError {
    let world = World::new(policy);
    let error = world.call(call).unwrap_err();
    assert_eq!(world.reached(), [""; 0]);
    error
}

#[test]
fn what_is_permitted_arrives_checked_and_converted() {
    let world = World::new(None);
    let args = json!({"count": "07", "unknown": 1, "text": 5});
    world.call(request("say", args)).unwrap();
    assert_eq!(world.reached(), ["say count=7 text='5'"]);
}

#[test]
fn strict_checking_takes_the_schema_at_its_word() {
    let strict = |args| Call { checking: Checking::Strict, ..request("say", args) };
    let error = refused(None, strict(json!({"text": 5})));
    assert!(matches!(error, CallError::InvalidArguments { .. }), "{error}");
    let world = World::new(None);
    world.call(strict(json!({"text": "5", "count": 7.0}))).unwrap();
    assert_eq!(world.reached(), ["say text='5' count=7.0"]);
}

#[test]
fn an_unknown_tool_is_answered_with_the_nearest_names() {
    let CallError::UnknownTool { tool, similar } = refused(None, request("sya", json!({}))) else {
        panic!("found");
    };
    assert_eq!(tool.as_str(), "sya");
    assert_eq!(similar.iter().map(|name| name.as_str()).collect::<Vec<_>>(), ["say"]);
}

#[test]
fn a_name_that_is_too_long_is_neither_compared_nor_repeated() {
    let error = refused(None, request(&"say".repeat(1 << 20), json!({})));
    let CallError::UnknownTool { tool, similar } = error else { panic!("{error}") };
    assert!(tool.as_str().ends_with("… (3145728 bytes)"), "{} bytes", tool.as_str().len());
    assert!(tool.as_str().len() < 300);
    assert!(similar.is_empty());
}

#[test]
fn a_tool_that_the_policy_disables_is_as_unknown_as_one_that_never_was() {
    let policy = Some("{default: disabled, tools: {plain: {}}}");
    // Suggestions do not reveal a hidden tool either.
    for name in ["say", "sai"] {
        let error = refused(policy, request(name, json!({"text": "x"})));
        let CallError::UnknownTool { similar, .. } = error else { panic!("{error}") };
        assert!(similar.is_empty(), "{similar:?}");
    }
    let world = World::new(policy);
    world.call(request("plain", json!({}))).unwrap();
    assert_eq!(world.reached(), ["plain"]);
}

#[test]
fn every_invalid_argument_is_reported() {
    let error = refused(None, request("say", json!({"count": "many", "tone": "odd", "txt": 1})));
    let CallError::InvalidArguments { problems, unknown, .. } = error else { panic!("{error}") };
    let problems: Vec<String> = problems.iter().map(ToString::to_string).collect();
    assert_eq!(
        problems,
        [
            "Missing required argument 'text'",
            "Argument 'count': cannot convert 'many' to integer",
            "Argument 'tone' must be one of: loud, low",
        ]
    );
    assert_eq!(unknown, [("txt".to_owned(), Some("text".to_owned()))]);
}

#[test]
fn every_policy_violation_is_reported() {
    let policy = "{tools: {say: {args: {text: {pattern: 'a+'}, count: {min: 1, max: 5}}}}}";
    let error = refused(Some(policy), request("say", json!({"text": "ab", "count": 9})));
    let CallError::PolicyViolation { violations, .. } = error else { panic!("{error}") };
    assert_eq!(
        violations,
        [
            "Argument 'text': value 'ab' does not match pattern 'a+'",
            "Argument 'count': value 9 exceeds maximum 5.0",
        ]
    );
}

#[test]
fn a_policy_that_cannot_be_applied_permits_nothing_it_is_about() {
    let policy = "{tools: {say: {args: {text: {pattern: '('}}}}}";
    let error = refused(Some(policy), request("say", json!({"text": "x"})));
    assert!(matches!(error, CallError::InvalidPolicy { .. }), "{error}");
}

#[test]
fn a_backend_that_is_gone_is_no_unknown_tool() {
    let world = World::new(None);
    world.change(|state| state.backends.clear());
    let error = world.call(request("plain", json!({}))).unwrap_err();
    assert_eq!(error.to_string(), "backend `demo` is not available: it is not connected");
}

#[test]
fn a_new_state_holds_from_the_next_call_on() {
    let world = World::new(None);
    world.call(request("plain", json!({}))).unwrap();
    world.change(|state| state.catalog = Default::default());
    let error = world.call(request("plain", json!({}))).unwrap_err();
    assert!(matches!(error, CallError::UnknownTool { .. }), "{error}");
    assert_eq!(world.reached(), ["plain"]);
}

#[test]
fn calls_within_calls_end_somewhere() {
    let world = World::new(None);
    let error = world.call(request("nest", json!({}))).unwrap_err();
    let CallError::TooDeep { limit } = error else { panic!("{error}") };
    // The outermost call has depth 0.
    assert_eq!(world.reached().len(), usize::from(limit) + 1);
}

#[test]
fn a_call_within_a_call_goes_through_the_same_door() {
    let world = World::new(Some("{default: disabled, tools: {plain: {}}}"));
    let error = world.call(request("nest", json!({}))).unwrap_err();
    assert!(matches!(error, CallError::UnknownTool { .. }), "{error}");
    assert_eq!(world.reached(), [""; 0]);
}

/// A random policy over the tools of the world, simple enough to be checked by hand.
#[derive(Debug, Clone)]
struct Rules {
    enabled: bool,
    named: Vec<&'static str>,
    /// Only these letters in `text`.
    letters: Option<&'static str>,
    least: Option<i64>,
    most: Option<i64>,
}

impl Rules {
    fn text(&self) -> String {
        let mut limits = json!({});
        if let Some(letters) = self.letters {
            limits["text"] = json!({"pattern": format!("[{letters}]*")});
        }
        limits["count"] = json!({"min": self.least, "max": self.most});
        let rule = |name: &&str| match *name {
            "say" => json!({"args": limits}),
            _ => json!({}),
        };
        let tools: serde_json::Map<String, Value> =
            self.named.iter().map(|name| ((*name).to_owned(), rule(name))).collect();
        let default = if self.enabled { "enabled" } else { "disabled" };
        json!({"default": default, "tools": tools}).to_string()
    }

    fn allow(&self, tool: &str, text: Option<&str>, count: Option<i64>) -> bool {
        let named = self.named.contains(&tool);
        let there = ["say", "plain"].contains(&tool) && (self.enabled || named);
        if !there || tool != "say" {
            return there;
        }
        let Some(text) = text else { return false };
        let within = self.letters.is_none_or(|letters| text.chars().all(|it| letters.contains(it)))
            && self.least.is_none_or(|least| count.is_none_or(|count| count >= least))
            && self.most.is_none_or(|most| count.is_none_or(|count| count <= most));
        !named || within
    }
}

fn rules() -> impl Strategy<Value = Rules> {
    let named = subsequence(vec!["say", "plain", "nowhere"], 0..=3);
    let letters = option::of(prop_oneof![Just("ab"), Just("b")]);
    (any::<bool>(), named, letters, option::of(-3..3_i64), option::of(-3..3_i64)).prop_map(
        |(enabled, named, letters, least, most)| Rules { enabled, named, letters, least, most },
    )
}

proptest! {
    #[test]
    fn a_denied_call_never_reaches_a_backend(
        rules in rules(),
        tool in prop_oneof![4 => Just("say"), 1 => Just("plain"), 1 => Just("nowhere"), 1 => Just("Say")],
        text in option::of("[abc\n]{0,3}"),
        count in option::of(-4..4_i64),
        checking in prop_oneof![Just(Checking::Coerce), Just(Checking::Strict)],
    ) {
        let mut args = serde_json::Map::new();
        args.extend(text.clone().map(|text| ("text".to_owned(), json!(text))));
        args.extend(count.map(|count| ("count".to_owned(), json!(count))));
        let world = World::new(Some(&rules.text()));
        let result = world.call(Call { checking, ..request(tool, args.into()) });
        let allowed = rules.allow(tool, text.as_deref(), count);
        prop_assert_eq!(world.reached().len(), usize::from(allowed));
        prop_assert_eq!(result.is_ok(), allowed);
    }
}
