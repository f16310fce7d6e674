//! Policy files, good and bad.

mod callers;

use std::sync::Arc;

use expect_test::{Expect, expect};
use muster_core::{
    catalog::{BackendInfo, CatalogSnapshot, CatalogSource, offer},
    cli::{Docker, Executor},
    connect::ServerListing,
    effect::Effect,
    json::raw,
    name::BackendName,
    policy::DefaultAccess,
};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::parse;
use crate::LoadError;

#[track_caller]
#[expect(clippy::needless_pass_by_value, reason = "reads better in the tables")]
fn check(text: &str, expect: Expect) {
    let report = match parse(text) {
        Ok(loaded) => loaded.warnings.iter().map(|warning| format!("{warning}\n")).collect(),
        Err(LoadError::Fields(problems)) => {
            problems.iter().map(|problem| format!("{}: {problem}\n", problem.line)).collect()
        }
        Err(error) => format!("{error}\n"),
    };
    expect.assert_eq(&report);
}

#[test]
fn every_field_is_read() {
    let text = "\
executor: {type: docker, image: 'alpine:3', volumes: [$HOME:/h], working_dir: /w, network: none}
default: enabled
effect: write
tools:
  b: {description: new, effect: read, args: {x: {pattern: '[a-z]+', min: 1, max: '2.5'}, y: {}}}
  a: {description: null}
";
    let policy = parse(text).unwrap().value;
    let docker = Docker {
        image: "alpine:3".to_owned(),
        volumes: vec!["$HOME:/h".to_owned()],
        network: Some("none".to_owned()),
        working_dir: Some("/w".to_owned()),
    };
    assert_eq!(policy.executor, Executor::Docker(docker));
    assert_eq!((policy.default, policy.max_effect), (DefaultAccess::Enabled, Some(Effect::Write)));
    assert_eq!(policy.rules.keys().collect::<Vec<_>>(), ["b", "a"]);
    let rule = policy.rules.get("b").unwrap();
    assert_eq!((rule.description.as_deref(), rule.effect), (Some("new"), Some(Effect::Read)));
    let constraint = &rule.args["x"];
    assert_eq!(constraint.pattern.as_ref().map(|pattern| pattern.as_str()), Some("[a-z]+"));
    assert_eq!((constraint.min, constraint.max), (Some(1.0), Some(2.5)));
    assert!(rule.args["y"].pattern.is_none());
}

#[test]
fn a_file_that_says_nothing_disables_everything() {
    for text in ["{}", "executor: {type: local, image: x}\ndefault: disabled\ntools: {}\n"] {
        let policy = parse(text).unwrap().value;
        assert_eq!((policy.executor, policy.default), (Executor::Local, DefaultAccess::Disabled));
        assert!(policy.rules.is_empty());
    }
}

#[test]
fn all_problems_are_reported_in_the_order_of_the_format() {
    check(
        "default: maybe\nexecutor: {type: podman, volumes: x}\ntools:\n  a:\n  b: {args: {x: {min: abc, pattern: 5}}}\n  3: {args: []}\n  c: {args: {x: 1}}\n",
        expect![[r#"
            2: executor → type: Input should be 'local' or 'docker'
            2: executor → volumes: Input should be a valid list
            1: default: Input should be 'enabled' or 'disabled'
            4: tools → a: Input should be a valid dictionary or instance of ToolPolicy
            5: tools → b → args → x → pattern: Input should be a valid string
            5: tools → b → args → x → min: Input should be a valid number, unable to parse string as a number
            6: tools → 3 → [key]: Input should be a valid string
            6: tools → 3 → args: Input should be a valid dictionary
            7: tools → c → args → x: Input should be a valid dictionary or instance of ArgConstraint
        "#]],
    );
    check(
        "executor: null\ndefault: true\ntools: null\n",
        expect![[r#"
        1: executor: Input should be a valid dictionary or instance of ExecutorConfig
        2: default: Input should be 'enabled' or 'disabled'
        3: tools: Input should be a valid dictionary
    "#]],
    );
    check(
        "",
        expect![[r#"
        the file is empty (NoneType): it must hold a mapping
    "#]],
    );
    check(
        "on: {}\n",
        expect![[r#"
        line 1, column 1: keywords must be strings; quote `on`, which is bool
    "#]],
    );
}

#[test]
fn docker_needs_an_image() {
    check(
        "executor: {type: docker}\n",
        expect![[r#"
        1: executor: Value error, Docker executor requires 'image' to be set
    "#]],
    );
    check(
        "executor: {type: docker, image: ''}\ndefault: x\n",
        expect![[r#"
        1: executor: Value error, Docker executor requires 'image' to be set
        2: default: Input should be 'enabled' or 'disabled'
    "#]],
    );
    check(
        "executor: {type: docker, network: 1}\n",
        expect![[r#"
        1: executor → network: Input should be a valid string
    "#]],
    );
}

#[test]
fn unknown_fields_are_only_worth_a_warning() {
    check(
        "defalt: enabled\ntools: {a: {arg: {}, args: {x: {mim: 1}}}}\n",
        expect![[r#"
            defalt: unknown field; did you mean `default`?
            tools → a → arg: unknown field; did you mean `args`?
            tools → a → args → x → mim: unknown field; did you mean `min`?
        "#]],
    );
}

proptest! {
    #[test]
    fn no_text_panics(text in r"((executor|type|image|default|tools|args|min): ?|[-\[\]{},:&*a1'\n ]|  ){0,60}") {
        parse(&text).ok();
    }
}

#[test]
fn a_broken_pattern_is_reported() {
    check(
        "tools: {a: {args: {x: {pattern: '['}, y: {pattern: 'ok'}}}}",
        expect![[r#"
        tools → a → args → x → pattern: pattern `[` is broken: unterminated character set; every call that gives the argument will fail
    "#]],
    );
}

/// The unmatched parts of a policy, given a tool `x_a_read` with this schema.
#[expect(clippy::needless_pass_by_value, reason = "a table reads better without ampersands")]
fn unmatched(file: &str, schema: Value) -> Vec<String> {
    let tools = vec![raw(&json!({"name": "read", "inputSchema": schema}))];
    let backend = BackendName::new("a");
    let listing = ServerListing { tools, ..ServerListing::default() };
    let offer = offer::offer(&listing, &backend, |local| format!("x_a_{local}"));
    let about = BackendInfo {
        title: "a".into(),
        description: "".into(),
        category: None,
        tags: Arc::default(),
    };
    let catalog = CatalogSnapshot::default().with(CatalogSource::new(backend, about, offer));
    let rules = parse(file).unwrap().value.unmatched_rules(&catalog);
    let said = rules.iter().map(|rule| {
        format!("{} {}", rule.path().join("."), rule.similar.as_deref().unwrap_or("-"))
    });
    said.collect()
}

#[test]
fn only_what_cannot_be_there() {
    let file = json!({"type": "object", "properties": {"file": {}}});
    let limits = "tools: {a/read: {args: {file: {max: 1}, fil: {max: 1}}}, x_a_rea: {}, zzz: {}}";
    let expect = ["tools.a/read.args.fil file", "tools.x_a_rea x_a_read", "tools.zzz -"];
    assert_eq!(unmatched(limits, file.clone()), expect);
    let groups = "tools: {a/*: {}, a/re*: {}, a/x*: {}}";
    assert_eq!(unmatched(groups, file.clone()), ["tools.a/x* -"]);
    // The own name of a server's tool is not enough.
    assert_eq!(unmatched("tools: {read: {}}", file.clone()), ["tools.read a/read"]);
    let entry = "callers: [{anonymous: true, tools: {x_a_rea: {}}}]";
    assert_eq!(unmatched(entry, file.clone()), ["callers.0.tools.x_a_rea x_a_read"]);
    let limit = "tools: {x_a_read: {args: {fil: {max: 1}}}}";
    assert_eq!(unmatched(limit, file), ["tools.x_a_read.args.fil file"]);
    // A rule without constraints permits it too.
    let open = json!({"properties": {"file": {}}, "additionalProperties": true});
    assert_eq!(unmatched(limit, open), [""; 0]);
    assert_eq!(unmatched(limit, json!({"type": "object"})), [""; 0]);
}
