//! CLI definitions, good and bad.

use expect_test::{Expect, expect};
use muster_core::{
    cli::{BackgroundProcesses, CredentialFiles, ParamType, Placement},
    effect::Effect,
    value::Value,
};
use proptest::prelude::*;

use super::parse;
use crate::LoadError;

/// The problems of a file, one per line with its position and fix, or its warnings, or `ok`.
fn report(text: &str) -> String {
    match parse(text) {
        Ok(loaded) if loaded.warnings.is_empty() => "ok\n".to_owned(),
        Ok(loaded) => loaded
            .warnings
            .iter()
            .map(|warning| format!("{}:{} {warning}\n", warning.line, warning.column))
            .collect(),
        Err(LoadError::Fields(problems)) => problems
            .iter()
            .map(|problem| {
                let fix = problem.fix.as_deref().map(|fix| format!(" ({fix})")).unwrap_or_default();
                format!("{}:{} {problem}{fix}\n", problem.line, problem.column)
            })
            .collect(),
        Err(error) => format!("{error}\n"),
    }
}

#[track_caller]
#[expect(clippy::needless_pass_by_value, reason = "reads better in the tables")]
fn check(text: &str, expect: Expect) {
    expect.assert_eq(&report(text));
}

/// One argument with the given fields.
fn arg(fields: &str) -> String {
    format!("command: c\ntools: [{{name: t, description: d, args: [{{name: a, {fields}}}]}}]\n")
}

#[test]
fn every_field_is_read() {
    let text = "\
name: n
description: d
command: git -C x
env: {A: b, C: ''}
working_dir: /w
category: vcs
tags: [x, y]
global_args:
  - {name: v_n, default: work, positional: true, cwd: true, stdin: true}
tools:
  - name: t
    description: td
    command: log --all
    timeout: 5
    args:
      - {name: a, description: ad, type: integer, required: true, flag: -a, enum: [x, '1'], default: 010}
      - {name: b_c, flag: '', default: null}
      - {name: d, flag: d=, type: boolean}
      - {name: e, positional: yes, type: number}
      - {name: f, stdin: 'on', positional: true}
      - {name: g, cwd: 1.0, stdin: true}
";
    let loaded = parse(text).unwrap();
    assert!(loaded.warnings.is_empty());
    let config = loaded.value;
    assert_eq!((&*config.name, &*config.description, &*config.command), ("n", "d", "git -C x"));
    assert_eq!(config.env, [("A".to_owned(), "b".to_owned()), ("C".to_owned(), String::new())]);
    assert_eq!(config.working_dir.as_deref(), Some("/w"));
    assert_eq!(config.category.as_deref(), Some("vcs"));
    assert_eq!(config.tags, ["x", "y"]);
    let global = &config.global_args[0];
    assert_eq!(global.placement, Placement::Flag("--v-n".to_owned()));
    assert_eq!(global.default, Some(Value::Text("work".to_owned())));
    let tool = &config.tools[0];
    assert_eq!((&*tool.name, &*tool.description, &*tool.command), ("t", "td", "log --all"));
    assert_eq!(tool.timeout, Some(5.0));
    let placements: Vec<&Placement> = tool.params.iter().map(|param| &param.placement).collect();
    assert_eq!(
        placements,
        [
            &Placement::Flag("-a".to_owned()),
            &Placement::Flag("--b-c".to_owned()),
            &Placement::Joined("d=".to_owned()),
            &Placement::Positional,
            &Placement::Stdin,
            &Placement::WorkingDir,
        ]
    );
    let kinds: Vec<ParamType> = tool.params.iter().map(|param| param.kind).collect();
    assert_eq!(
        kinds[..4],
        [ParamType::Integer, ParamType::String, ParamType::Boolean, ParamType::Number]
    );
    let first = &tool.params[0];
    assert!(first.required && !tool.params[1].required);
    assert_eq!(first.description, "ad");
    assert_eq!(first.default, Some(Value::Int("8".to_owned())));
    assert_eq!(first.choices, ["x", "1"]);
    assert_eq!(tool.params[1].default, None);
}

#[test]
fn what_programs_may_keep_and_open_is_read() {
    let text = "\
command: c
inherit_env: [A, B]
background_processes: keep
credential_files: refuse
tools:
  - {name: a, description: d, args: [{name: x, recursive: true}, {name: y}]}
  - {name: b, description: d, background_processes: end}
";
    let config = parse(text).unwrap().value;
    assert_eq!(config.inherit_env.as_deref(), Some(&["A".to_owned(), "B".to_owned()][..]));
    assert_eq!(config.credential_files, CredentialFiles::Refuse);
    let kept: Vec<_> = config.tools.iter().map(|tool| tool.background_processes).collect();
    assert_eq!(kept, [BackgroundProcesses::Keep, BackgroundProcesses::End]);
    let recursive: Vec<_> = config.tools[0].params.iter().map(|param| param.recursive).collect();
    assert_eq!(recursive, [true, false]);

    let plain = parse("command: c\ntools: [{name: t, description: d}]\n").unwrap().value;
    assert_eq!((plain.inherit_env, plain.credential_files), (None, CredentialFiles::Allow));
    assert_eq!(plain.tools[0].background_processes, BackgroundProcesses::End);
}

#[test]
fn effects_and_the_end_of_options_are_read() {
    let text = "\
command: c
end_of_options: --
tools:
  - {name: a, description: d, effect: read}
  - {name: b, description: d, effect: destructive, network: true, end_of_options: ''}
  - {name: c, description: d, end_of_options: --end-of-options}
";
    let tools = parse(text).unwrap().value.tools;
    let stated: Vec<_> = tools.iter().map(|tool| (tool.effect, tool.network)).collect();
    assert_eq!(
        stated,
        [(Some(Effect::Read), false), (Some(Effect::Destructive), true), (None, false)]
    );
    let ends: Vec<_> = tools.iter().map(|tool| tool.end_of_options.as_deref()).collect();
    assert_eq!(ends, [Some("--"), None, Some("--end-of-options")]);
    assert!(tools[0].is_local_read() && !tools[1].is_local_read() && !tools[2].is_local_read());
    let bad = "command: c\ntools: [{name: t, description: d, effect: reads}]\n";
    check(
        bad,
        expect![[r#"
        2:43 tools → 0 → effect: Input should be 'read', 'write' or 'destructive' (did you mean `read`?)
    "#]],
    );
}

#[test]
fn leading_dashes_are_refused_unless_they_are_harmless() {
    let allows = |command: &str, tool: &str, arg: &str| {
        let text = format!(
            "command: {command}\ntools: [{{name: t, description: d, {tool} args: [{{name: a, positional: true, {arg}}}]}}]"
        );
        parse(&text).unwrap().value.tools[0].params[0].allow_leading_dash
    };
    assert!(!allows("find", "", ""));
    assert!(!allows("git log", "", ""));
    assert!(allows("find", "", "allow_leading_dash: true"));
    assert!(allows("grep", "end_of_options: --,", ""));
    // These print their operands; what follows the first one is never an option.
    assert!(allows("printf [%s]", "", ""));
    assert!(allows("echo docker", "", ""));
    assert!(!allows("echo", "", ""));
    assert!(!allows("printf --", "", ""));
    assert!(!allows("./printf [%s]", "", ""));
}

#[test]
fn a_positional_that_may_be_an_option_is_a_warning() {
    check(
        &arg("positional: true, allow_leading_dash: true"),
        expect![[r#"
            2:90 tools → 0 → args → 0 → allow_leading_dash: a value that begins with `-` is read as an option of the program; set `end_of_options: "--"` on the tool if the program honours it
        "#]],
    );
    check(&arg("positional: true"), expect![["ok\n"]]);
}

#[test]
fn a_pattern_must_compile() {
    check(
        &arg("pattern: '('"),
        expect![[r#"
            2:61 tools → 0 → args → 0 → pattern: pattern `(` is broken: missing `)` (write a regular expression)
        "#]],
    );
}

#[test]
fn what_is_left_out_has_a_default() {
    let config = parse("command: ''\ntools: [{name: '', description: ''}]\n").unwrap().value;
    assert_eq!((&*config.name, &*config.description), ("climax", ""));
    assert!(config.env.is_empty() && config.tags.is_empty() && config.global_args.is_empty());
    assert_eq!((config.working_dir, config.category), (None, None));
    let tool = &config.tools[0];
    assert_eq!((&*tool.command, tool.params.len(), tool.timeout), ("", 0, None));
}

#[test]
fn a_value_that_is_not_a_mapping_is_an_error() {
    for (text, found) in [
        ("", "NoneType"),
        ("- a\n", "list"),
        ("a", "str"),
        ("1", "int"),
        ("1.5", "float"),
        ("no", "bool"),
        ("2024-01-02", "datetime.date"),
        ("2024-01-02 03:04:05", "datetime.datetime"),
    ] {
        assert_eq!(parse(text), Err(LoadError::NotAMapping { found }), "{text:?}");
    }
    check(
        "command: echo\ntools: 5\non: push\n",
        expect![[r#"
            line 3, column 1: keywords must be strings; quote `on`, which is bool
        "#]],
    );
    check(
        "name: [unclosed\ncommand: x\n",
        expect![[r#"
            line 2, column 8: illegal placement of ':' indicator; the `[` of line 1 is not closed
        "#]],
    );
}

#[test]
fn all_problems_are_reported_in_the_order_of_the_format() {
    check(
        "name: 12\ncommand: echo\nenv: {A: 1}\ntags: foo\ncategory: [1]\ntools:\n  - {name: a}\n  - {description: d, args: [{type: str}]}\n  - {name: c, description: d, timeout: abc, args: {x: 1}}\n  - foo\n",
        expect![[r#"
            1:7 name: Input should be a valid string (quote it: `"12"` (without quotes it is int))
            3:10 env → A: Input should be a valid string (quote it: `"1"` (without quotes it is int))
            5:11 category: Input should be a valid string (write text; in quotes if it begins with `[` or `{`)
            4:7 tags: Input should be a valid list (write a list: `[foo]`)
            7:5 tools → 0 → description: Field required (add `description: …`)
            8:5 tools → 1 → name: Field required (add `name: …`)
            8:29 tools → 1 → args → 0 → name: Field required (add `name: …`)
            8:36 tools → 1 → args → 0 → type: Input should be 'string', 'integer', 'number' or 'boolean' (did you mean `string`?)
            9:51 tools → 2 → args: Input should be a valid list (write a list, or `[]` for none)
            9:40 tools → 2 → timeout: Input should be a valid number, unable to parse string as a number (write a number)
            10:5 tools → 3: Input should be a valid dictionary or instance of ToolDef (write `field: value` lines, or `{}` for none)
        "#]],
    );
    check(
        "name: null\ndescription: null\ncommand: echo\nenv: null\ntools: null\n",
        expect![[r#"
            1:7 name: Input should be a valid string (write text, or `""` for none)
            2:14 description: Input should be a valid string (write text, or `""` for none)
            4:6 env: Input should be a valid dictionary (write `name: value` lines, or `{}` for none)
            5:8 tools: Input should be a valid list (write a list, or `[]` for none)
        "#]],
    );
    check(
        "comand: echo\n",
        expect![[r#"
        1:1 command: Field required (line 1 has `comand`: write `command`)
        1:1 tools: Field required (add `tools: …`)
    "#]],
    );
    check(
        "command: no\nenv: {1: a, true: 2, ~: b}\nglobal_args: [x]\ntools: []\n",
        expect![[r#"
            1:10 command: Input should be a valid string (quote it: `"no"` (without quotes it is bool))
            2:7 env → 1 → [key]: Input should be a valid string (quote it: `"1"` (without quotes it is int))
            2:19 env → 1: Input should be a valid string (quote it: `"2"` (without quotes it is int))
            2:22 env → None → [key]: Input should be a valid string (write text, or `""` for none)
            3:15 global_args → 0: Input should be a valid dictionary or instance of ToolArg (write `field: value` lines, or `{}` for none)
        "#]],
    );
    check(
        &arg("enum: [1, a, yes], flag: -9, type: null, description: []"),
        expect![[r#"
        2:106 tools → 0 → args → 0 → description: Input should be a valid string (write text; in quotes if it begins with `[` or `{`)
        2:87 tools → 0 → args → 0 → type: Input should be 'string', 'integer', 'number' or 'boolean'
        2:77 tools → 0 → args → 0 → flag: Input should be a valid string (quote it: `"-9"` (without quotes it is int))
        2:59 tools → 0 → args → 0 → enum → 0: Input should be a valid string (quote it: `"1"` (without quotes it is int))
        2:65 tools → 0 → args → 0 → enum → 2: Input should be a valid string (quote it: `"yes"` (without quotes it is bool))
    "#]],
    );
}

#[test]
fn null_is_accepted_by_nullable_fields() {
    check(
        "command: echo\nworking_dir: null\ncategory: ~\ntools:\n  - {name: a, description: b, timeout: null, args: [{name: x, default: null, flag: null, enum: null}]}\n",
        expect![[r#"
            ok
        "#]],
    );
}

#[test]
fn booleans_have_many_spellings() {
    for (written, expect) in [
        ("true", true),
        ("off", false),
        ("1", true),
        ("0", false),
        ("1.0", true),
        ("-0.0", false),
        ("'true'", true),
        ("'F'", false),
        ("'YES'", true),
        ("'n'", false),
        ("'oN'", true),
        ("'0'", false),
    ] {
        let config = parse(&arg(&format!("required: {written}"))).unwrap().value;
        assert_eq!(config.tools[0].params[0].required, expect, "{written}");
    }
    let place = "tools → 0 → args → 0 → required: Input should be a valid boolean";
    for written in ["maybe", "'yes '", "''", "'1.0'", "2", "-1"] {
        let report = report(&arg(&format!("required: {written}")));
        assert!(report.contains(&format!("{place}, unable to interpret input (")), "{report}");
    }
    for written in ["null", "[]", "{}", "0.5", ".nan", "2024-01-02", "1000000000000000000000"] {
        let report = report(&arg(&format!("required: {written}")));
        assert!(report.contains(&format!("{place} (")), "{report}");
    }
}

#[test]
fn numbers_may_be_text() {
    let tool = |timeout: &str| {
        format!("command: c\ntools: [{{name: t, description: d, timeout: {timeout}}}]\n")
    };
    for (written, expect) in [
        ("5", 5.0),
        ("0.5", 0.5),
        ("-1", -1.0),
        ("true", 1.0),
        ("'5'", 5.0),
        ("' 5 '", 5.0),
        ("1e3", 1000.0),
        ("'1_000'", 1000.0),
        ("'.5'", 0.5),
        ("'inf'", f64::INFINITY),
        ("1:30", 90.0),
    ] {
        let config = parse(&tool(written)).unwrap().value;
        assert_eq!(config.tools[0].timeout, Some(expect), "{written}");
    }
    let place = "tools → 0 → timeout: Input should be a valid number";
    for written in ["abc", "''", "' 1_0 '", "'1__0'", "'_1'", "'0x10'", "5s"] {
        let report = report(&tool(written));
        assert!(
            report.contains(&format!("{place}, unable to parse string as a number (")),
            "{report}"
        );
    }
    let huge = "9".repeat(400);
    for written in ["[]", "{}", "2024-01-02", &huge] {
        let report = report(&tool(written));
        assert!(report.contains(&format!("{place} (")), "{report}");
    }
}

#[test]
fn unknown_fields_are_only_worth_a_warning() {
    check(
        "x-common: &c {typ: integer}\ncommand: echo\nversion: 2\ntools:\n  - name: a\n    desc: x\n    description: d\n    args:\n      - {<<: *c, name: b, requird: true}\n      - {<<: *c, name: c, 1: x}\n",
        expect![[r#"
            1:15 tools → 0 → args → 0 → typ: unknown field; did you mean `type`?
            3:1 version: unknown field
            6:5 tools → 0 → desc: unknown field; did you mean `description`?
            9:27 tools → 0 → args → 0 → requird: unknown field; did you mean `required`?
            10:27 tools → 0 → args → 1 → 1: unknown field
        "#]],
    );
}

proptest! {
    #[test]
    fn no_text_panics(text in r"((name|command|env|tags|tools|args|type|default): ?|[-\[\]{},:&*a1'\n ]|  ){0,60}") {
        parse(&text).ok();
    }
}
