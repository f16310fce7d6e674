//! Every rule that turns call arguments into an argument vector, as tables; and as a property: a value
//! never leaves its one argument.

use muster_core::{
    arguments::{self, Arguments},
    cli::{
        BackgroundProcesses, CliConfig, CliTool, CredentialFiles, Docker, Executor, Param,
        ParamType, Placement,
    },
    json::raw,
    python,
    value::Value,
};
use proptest::{collection::vec, option, prelude::*, sample::select};
use serde_json::json;

use super::{input, words, working_dir};
use crate::environment::Environment;

fn environment() -> Environment {
    let variables = [
        ("HOME", "/home/ada"),
        ("TWO", "one two"),
        ("EMPTY", ""),
        ("ON", "true"),
        ("TOKEN", "s3cret; rm"),
    ];
    Environment::new(variables.map(|(name, value)| (name.to_owned(), value.to_owned())), "")
}

fn given(json: &serde_json::Value) -> Arguments {
    Arguments::from_json(&raw(json))
}

/// The argument vector of the only tool of a config, called through `climax_call`.
fn run(config: &str, place: &Executor, args: &serde_json::Value) -> Vec<String> {
    let config = muster_config::cli::parse(config).unwrap().value;
    let tool = config.tools.first().unwrap();
    let args = arguments::coerce(&tool.params, given(args)).unwrap();
    words(&config, tool, place, &args, &environment())
}

#[track_caller]
fn check_commands(base: &str, sub: &str, expect: &[&str]) {
    let config =
        json!({"command": base, "tools": [{"name": "t", "description": "", "command": sub}]});
    assert_eq!(run(&config.to_string(), &Executor::Local, &json!({})), expect);
}

/// Parameters as in a file, a call, and the expected arguments after the command.
#[track_caller]
#[expect(clippy::needless_pass_by_value, reason = "tables read better without a reference")]
fn check(params: &str, args: serde_json::Value, expect: &[&str]) {
    let config = format!("command: x\ntools: [{{name: t, description: d, args: [{params}]}}]");
    let found = run(&config, &Executor::Local, &args);
    assert_eq!(found.split_first().unwrap().1, expect);
}

#[track_caller]
fn check_global(params: &str, expect: &[&str]) {
    let tool = "{name: t, description: d, args: [{name: own, positional: true}, {name: f}]}";
    let config = format!("command: x\nglobal_args: [{params}]\ntools: [{tool}]");
    // A call cannot set global arguments.
    let found =
        run(&config, &Executor::Local, &json!({"g": "from the call", "own": "1", "f": "2"}));
    let mut all = vec!["x", "1", "--f", "2"];
    all.extend(expect);
    assert_eq!(found, all);
}

#[test]
fn commands_are_split_at_blanks_and_nothing_else() {
    check_commands(
        "git -C  '/x y'",
        "log  --a\\ b\t\"c\"",
        &["git", "-C", "'/x", "y'", "log", "--a\\", "b", "\"c\""],
    );
    check_commands(
        "~/bin/x $TWO ${UNSET}",
        "~ $TWO *",
        &["/home/ada/bin/x", "one", "two", "${UNSET}", "~", "$TWO", "*"],
    );
    check_commands(" ", "", &[]);
}

#[test]
fn positionals_are_passed_by_position() {
    let two = "{name: a, positional: true}, {name: b, positional: true, flag: --ignored}";
    check(two, json!({"b": "2", "a": "1"}), &["1", "2"]);
    check(two, json!({"b": ""}), &[""]);
    check("{name: a, positional: true, default: unused}", json!({}), &[]);
    check("{name: a, positional: true, type: boolean}", json!({"a": true}), &["True"]);
    check("{name: a, positional: true, type: boolean}", json!({"a": "false"}), &["False"]);
    check(
        "{name: f}, {name: a, positional: true}",
        json!({"f": "1", "a": "2"}),
        &["2", "--f", "1"],
    );
    check("{name: a, positional: true}", json!({"a": null}), &["None"]);
}

#[test]
fn flags_come_from_the_definition_or_the_name() {
    check("{name: max_count}", json!({"max_count": "5"}), &["--max-count", "5"]);
    check("{name: a__b}", json!({"a__b": "5"}), &["--a--b", "5"]);
    check("{name: _lead}", json!({"_lead": "5"}), &["---lead", "5"]);
    check("{name: a, flag: ''}", json!({"a": "5"}), &["--a", "5"]);
    check("{name: a, flag: ~}", json!({"a": "5"}), &["--a", "5"]);
    check("{name: a, flag: -n}", json!({"a": ""}), &["-n", ""]);
    check("{name: a, flag: two words $TWO}", json!({"a": "x"}), &["two words $TWO", "x"]);
    check("{name: a, flag: '--'}", json!({"a": "-rf"}), &["--", "-rf"]);
    check("{name: b}, {name: a}", json!({"a": "1", "b": "2"}), &["--b", "2", "--a", "1"]);
    check("{name: a, flag: -x}, {name: a}", json!({"a": "1"}), &["-x", "1", "--a", "1"]);
}

#[test]
fn a_flag_that_ends_in_an_equals_sign_is_joined_with_its_value() {
    check("{name: a, flag: --key=}", json!({"a": "v w"}), &["--key=v w"]);
    check("{name: a, flag: key=}", json!({"a": ""}), &["key="]);
    check("{name: a, flag: '='}", json!({"a": "x"}), &["=x"]);
    check("{name: a, flag: key=, type: boolean}", json!({"a": true}), &["key="]);
    check("{name: a, flag: key=, type: boolean}", json!({"a": false}), &[]);
}

#[test]
fn booleans_are_flags_without_a_value() {
    check("{name: a, type: boolean}", json!({"a": true}), &["--a"]);
    check("{name: a, type: boolean}", json!({"a": "true"}), &["--a"]);
    check("{name: a, type: boolean}", json!({"a": 1}), &["--a"]);
    check("{name: a, type: boolean}", json!({"a": false}), &[]);
    check("{name: a, type: boolean}", json!({}), &[]);
    for on in ["true", "yes", "'true'"] {
        check(&format!("{{name: a, type: boolean, default: {on}}}"), json!({}), &["--a"]);
    }
    for off in ["false", "1", "'True'", "'yes'", "~"] {
        check(&format!("{{name: a, type: boolean, default: {off}}}"), json!({}), &[]);
    }
    check("{name: a, type: boolean, default: true}", json!({"a": false}), &[]);
}

#[test]
fn defaults_apply_to_flags_as_written() {
    check("{name: a, default: 10}", json!({}), &["--a", "10"]);
    check("{name: a, default: 10}", json!({"a": "x"}), &["--a", "x"]);
    check("{name: a, default: ''}", json!({}), &["--a", ""]);
    check("{name: a, default: ~}", json!({}), &[]);
    check("{name: a, default: 0x1F, type: string}", json!({}), &["--a", "31"]);
    check("{name: a, default: yes}", json!({}), &["--a", "True"]);
    check("{name: a, default: [1, b]}", json!({}), &["--a", "[1, 'b']"]);
    check("{name: a, default: $TWO}", json!({}), &["--a", "$TWO"]);
    check("{name: a, default: c, enum: [a, b]}", json!({}), &["--a", "c"]);
    check("{name: a, default: 2024-01-02, flag: on=}", json!({}), &["on=2024-01-02"]);
}

#[test]
fn values_print_as_python_prints_them() {
    check("{name: a, type: integer}", json!({"a": "007"}), &["--a", "7"]);
    check("{name: a, type: integer}", json!({"a": 3.7}), &["--a", "3"]);
    check("{name: a, type: number}", json!({"a": "5"}), &["--a", "5.0"]);
    check("{name: a, type: number}", json!({"a": 5}), &["--a", "5"]);
    check("{name: a, type: number}", json!({"a": 1e22}), &["--a", "1e+22"]);
    check("{name: a}", json!({"a": ["it's", null]}), &["--a", "[\"it's\", None]"]);
    check("{name: a}", json!({"a": {"k": "v"}}), &["--a", "{'k': 'v'}"]);
}

#[test]
fn stdin_and_directory_are_not_arguments() {
    let params =
        "{name: d, cwd: true, flag: -C}, {name: i, stdin: true, positional: true}, {name: a}";
    check(params, json!({"d": "/tmp", "i": "text", "a": "1"}), &["--a", "1"]);
    check("{name: d, cwd: true, default: /tmp}", json!({}), &[]);
    check("{name: a}", json!({"a": "1", "unknown": "--b"}), &["--a", "1"]);
}

#[test]
fn directory_and_input_are_the_first_present() {
    let config = "command: x\ntools: [{name: t, description: d, args: [\
        {name: d1, cwd: true, default: /unused}, {name: d2, cwd: true},\
        {name: i1, stdin: true, default: unused}, {name: i2, stdin: true}]}]";
    let tool = muster_config::cli::parse(config).unwrap().value.tools.remove(0);
    let check = |args: serde_json::Value, directory: Option<&str>, text: Option<&str>| {
        let args = given(&args);
        assert_eq!(working_dir(&tool, &args).and_then(Value::as_text), directory);
        assert_eq!(input(&tool, &args).as_deref(), text);
    };
    check(json!({}), None, None);
    check(json!({"d2": "/b", "i2": 5}), Some("/b"), Some("5"));
    check(json!({"d2": "/b", "d1": "/a", "i1": "", "i2": "x"}), Some("/a"), Some(""));
}

#[test]
fn global_args_pass_their_defaults() {
    check_global("{name: g}", &[]);
    check_global("{name: g, default: v w}", &["--g", "v w"]);
    check_global("{name: g, default: 5, flag: vault=}", &["vault=5"]);
    check_global("{name: g, default: $TOKEN}", &["--g", "s3cret; rm"]);
    check_global("{name: g, default: '${TOKEN}-$UNSET'}", &["--g", "s3cret; rm-$UNSET"]);
    check_global("{name: g, default: $UNSET}", &[]);
    check_global("{name: g, default: 5 $}", &[]);
    check_global("{name: g, default: $EMPTY}", &[]);
    check_global("{name: g, default: ''}", &[]);
    check_global("{name: g, default: v, positional: true, stdin: true, cwd: true}", &["--g", "v"]);
    check_global("{name: b, default: 1}, {name: a, default: 2}", &["--b", "1", "--a", "2"]);
    for on in ["true", "'true'", "'True'", "1", "$ON"] {
        check_global(&format!("{{name: g, type: boolean, default: {on}}}"), &["--g"]);
    }
    for off in ["false", "'yes'", "2", "$TOKEN"] {
        check_global(&format!("{{name: g, type: boolean, default: {off}}}"), &[]);
    }
}

#[test]
fn docker_run_is_prepended() {
    let check = |docker: Docker, expect: &[&str]| {
        let config = "command: ls -a\ntools: [{name: t, description: d, args: [{name: f}]}]";
        let found = run(config, &Executor::Docker(docker), &json!({"f": "x y"}));
        let mut all = vec!["docker", "run", "--rm"];
        all.extend(expect);
        all.extend(["ls", "-a", "--f", "x y"]);
        assert_eq!(found, all);
    };
    let image = "img:$TWO".to_owned();
    let bare = Docker { image, volumes: Vec::new(), network: None, working_dir: None };
    check(bare.clone(), &["img:$TWO"]);
    let volumes = ["$HOME/p:/p", "~/x:/x", "$UNSET:/u", "$TWO:/t"].map(str::to_owned).into();
    let full = Docker {
        volumes,
        network: Some("$TWO".to_owned()),
        working_dir: Some("/w $TWO".to_owned()),
        ..bare
    };
    check(
        full,
        &[
            "-v",
            "/home/ada/p:/p",
            "-v",
            "~/x:/x",
            "-v",
            "$UNSET:/u",
            "-v",
            "one two:/t",
            "--network",
            "$TWO",
            "-w",
            "/w $TWO",
            "img:$TWO",
        ],
    );
}

/// Text that a shell, a splitter or an option parser would misread, and arbitrary text.
fn text() -> impl Strategy<Value = String> {
    let nasty = select(vec![
        "",
        " ",
        "--",
        "-",
        "-rf",
        "--p0",
        "--p1=x",
        "=",
        "a b",
        "a\tb\nc",
        "'",
        "\"",
        "\\",
        "$HOME",
        "${TWO}",
        "$(id)",
        "`id`",
        ";",
        "&& id",
        "| id",
        "> /x",
        "*",
        "?",
        "~",
        "#",
        "\u{0}",
        "ü\u{301}",
        "\u{2028}",
        "true",
        "None",
        "{}",
        "%s",
        "\r\n",
    ]);
    prop_oneof![
        3 => nasty.prop_map(str::to_owned),
        2 => vec(any::<char>(), 0..12).prop_map(|letters| letters.into_iter().collect()),
        1 => "[-$ ='\";&|*a]{0,20}",
    ]
}

fn value() -> impl Strategy<Value = serde_json::Value> {
    prop_oneof![
        5 => text().prop_map(serde_json::Value::from),
        1 => any::<i64>().prop_map(serde_json::Value::from),
        1 => any::<f64>().prop_map(serde_json::Value::from),
        1 => any::<bool>().prop_map(serde_json::Value::from),
        1 => vec(text(), 0..3).prop_map(serde_json::Value::from),
    ]
}

fn placement() -> impl Strategy<Value = Placement> {
    prop_oneof![
        text().prop_map(Placement::Flag),
        text().prop_map(|flag| Placement::Joined(flag + "=")),
        Just(Placement::Positional),
        Just(Placement::Stdin),
        Just(Placement::WorkingDir),
    ]
}

/// A parameter and the value a call passes for it, if any.
fn param() -> impl Strategy<Value = (Param, Option<serde_json::Value>)> {
    let kind =
        select(vec![ParamType::String, ParamType::Integer, ParamType::Number, ParamType::Boolean]);
    let default = option::of(value().prop_map(|json| Value::from_json(&raw(&json))));
    (kind, default, placement(), option::of(value())).prop_map(
        |(kind, default, placement, given)| {
            let default = default.filter(|default| *default != Value::Null);
            let (name, description) = (String::new(), String::new());
            let (required, choices) = (false, Vec::new());
            let (pattern, allow_leading_dash) = (None, true);
            let param = Param {
                name,
                description,
                kind,
                required,
                default,
                placement,
                choices,
                pattern,
                allow_leading_dash,
                recursive: false,
            };
            (param, given)
        },
    )
}

#[test]
fn positional_values_follow_the_end_of_options() {
    let config = "command: x\nend_of_options: --\nglobal_args: [{name: g, default: 1}]\ntools: \
                  [{name: t, description: d, args: [{name: a, positional: true}, {name: f}, {name: b, positional: true}]}]";
    let words = |args| run(config, &Executor::Local, &args);
    assert_eq!(
        words(json!({"a": "-rf", "b": "--", "f": "v"})),
        ["x", "--f", "v", "--g", "1", "--", "-rf", "--"]
    );
    assert_eq!(words(json!({"f": "v"})), ["x", "--f", "v", "--g", "1"]);
}

prop_compose! {
    /// A definition and the arguments of a call; parameter names are unique.
    fn definition()(
        base in text(),
        sub in text(),
        mut params in vec(param(), 0..6),
        globals in vec(param(), 0..3),
    ) -> (CliConfig, serde_json::Map<String, serde_json::Value>) {
        let mut args = serde_json::Map::new();
        for (place, (param, given)) in params.iter_mut().enumerate() {
            param.name = format!("p{place}");
            args.extend(given.take().map(|given| (param.name.clone(), given)));
        }
        let tool = CliTool {
            name: "t".to_owned(),
            description: String::new(),
            command: sub,
            params: params.into_iter().map(|(param, _)| param).collect(),
            timeout: None,
            effect: None,
            network: false,
            end_of_options: None,
            background_processes: BackgroundProcesses::End,
        };
        let config = CliConfig {
            name: String::new(),
            description: String::new(),
            command: base,
            env: Vec::new(),
            inherit_env: None,
            working_dir: None,
            credential_files: CredentialFiles::Allow,
            category: None,
            tags: Vec::new(),
            global_args: globals.into_iter().map(|(param, _)| param).collect(),
            tools: vec![tool],
        };
        (config, args)
    }
}

fn all_words(config: &CliConfig, args: &serde_json::Map<String, serde_json::Value>) -> Vec<String> {
    let args = given(&args.clone().into());
    words(config, config.tools.first().unwrap(), &Executor::Local, &args, &environment())
}

/// The arguments a parameter adds according to its definition: none, a flag, a flag and a value, or both
/// joined.
fn predicted(param: &Param, value: &Value) -> Vec<String> {
    let text = python::text(value);
    match (&param.placement, param.kind) {
        (Placement::Stdin | Placement::WorkingDir, _) => vec![],
        (Placement::Positional, _) => vec![text],
        (Placement::Flag(flag) | Placement::Joined(flag), ParamType::Boolean) => {
            match text.as_str() {
                "True" if *value == Value::Bool(true) => vec![flag.clone()],
                "true" => vec![flag.clone()],
                _ => vec![],
            }
        }
        (Placement::Joined(flag), _) => vec![flag.clone() + &text],
        (Placement::Flag(flag), _) => vec![flag.clone(), text],
    }
}

proptest! {
    #[test]
    fn arguments_are_as_predicted_and_in_order((config, args) in definition()) {
        let tool = config.tools.first().unwrap();
        let given = given(&args.clone().into());
        let mut expect = environment().command_words(&config.command);
        expect.extend(tool.command.split(python::is_space).filter(|w| !w.is_empty()).map(str::to_owned));
        let positional = |param: &&Param| param.placement == Placement::Positional;
        for param in tool.params.iter().filter(positional) {
            expect.extend(given.get(&param.name).iter().flat_map(|value| predicted(param, value)));
        }
        for param in tool.params.iter().filter(|param| !positional(param)) {
            let value = given.get(&param.name).or(param.default.as_ref());
            expect.extend(value.iter().flat_map(|value| predicted(param, value)));
        }
        let found = all_words(&config, &args);
        let (before, globals) = found.split_at_checked(expect.len()).unwrap();
        prop_assert_eq!(before, expect);
        prop_assert!(globals.len() <= 2 * config.global_args.len());
        // The globals do not depend on the call.
        let alone = all_words(&config, &serde_json::Map::new());
        prop_assert!(alone.ends_with(globals));
    }

    #[test]
    fn a_value_reaches_one_argument_and_no_other((config, args) in definition(), mark in "[a-z]{8}") {
        let tool = config.tools.first().unwrap();
        let found = all_words(&config, &args);
        for param in &tool.params {
            let (Some(value), false) = (args.get(&param.name), param.kind == ParamType::Boolean) else { continue };
            let text = python::text(&Value::from_json(&raw(value)));
            let mut marked = args.clone();
            marked.insert(param.name.clone(), mark.clone().into());
            let marked = all_words(&config, &marked);
            prop_assert_eq!(found.len(), marked.len());
            let changed: Vec<_> = found.iter().zip(&marked).filter(|(one, other)| one != other).collect();
            match &param.placement {
                Placement::Stdin | Placement::WorkingDir => prop_assert!(changed.is_empty()),
                Placement::Flag(_) | Placement::Positional if text != mark => {
                    prop_assert_eq!(changed, [(&text, &mark)]);
                }
                Placement::Joined(flag) if text != mark => {
                    prop_assert_eq!(changed, [(&(flag.clone() + &text), &(flag.clone() + &mark))]);
                }
                Placement::Flag(_) | Placement::Positional | Placement::Joined(_) => (),
            }
        }
    }
}
