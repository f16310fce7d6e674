//! Repairs of values, and advice on those that cannot be repaired.

use serde_json::json;

use super::{entry, raw, shown};
use crate::repair::{
    advice::{Advice, advice},
    values::repair,
};

const VALUES: &str = r##"{"type":"object","properties":{
    "n":{"type":"number"},"i":{"type":"integer"},"b":{"type":"boolean"},"s":{"type":"string"},
    "either":{"type":["integer","string"]},"maybe":{"anyOf":[{"type":"integer"},{"type":"null"}]},
    "l":{"type":"array","items":{"type":"integer"}},
    "o":{"type":"object","properties":{"deep":{"type":"boolean"}}},
    "r":{"$ref":"#/$defs/R"},"any":{},"e":{"enum":[1,2]},"few":{"type":"integer","maximum":9}
    },"$defs":{"R":{"type":"object","properties":{"x":{"type":"number"}},"required":["x"]}}}"##;

#[track_caller]
fn check_values(given: &str, expect: &str) {
    let entry = entry("t", VALUES);
    let found = repair(&entry, &raw(given)).map_or_else(
        || "as it is".to_owned(),
        |mended| format!("{} {}", mended.arguments, mended.repairs.join("; ")),
    );
    assert_eq!(found, expect, "{given}");
}

#[test]
fn unambiguous_values_are_repaired() {
    check_values(r#"{"n":"5"}"#, r#"{"n":5} read the text in `n` as number"#);
    check_values(r#"{"n":"-1.50e3"}"#, r#"{"n":-1.50e3} read the text in `n` as number"#);
    check_values(
        r#"{"i":"123456789012345678901234567890"}"#,
        r#"{"i":123456789012345678901234567890} read the text in `i` as number"#,
    );
    check_values(r#"{"i":"5.0"}"#, r#"{"i":5.0} read the text in `i` as number"#);
    check_values(r#"{"b":"true"}"#, r#"{"b":true} read the text in `b` as boolean"#);
    check_values(r#"{"b":"False"}"#, r#"{"b":false} read the text in `b` as boolean"#);
    check_values(r#"{"s":5}"#, r#"{"s":"5"} wrote the number in `s` as text"#);
    check_values(r#"{"maybe":"5"}"#, r#"{"maybe":5} read the text in `maybe` as number"#);
    check_values(r#"{"e":"2"}"#, r#"{"e":2} read the text in `e` as number"#);
    check_values(r#"{"l":[1,"2"]}"#, r#"{"l":[1,2]} read the text in `l[1]` as number"#);
    check_values(r#"{"l":"[1, 2]"}"#, r#"{"l":[1, 2]} read the text in `l` as array"#);
    check_values(
        r#"{"l":"[\"1\"]"}"#,
        r#"{"l":[1]} read the text in `l` as array; read the text in `l[0]` as number"#,
    );
    check_values(
        r#"{"o":{"deep":"true","x":1.0}}"#,
        r#"{"o":{"deep":true,"x":1.0}} read the text in `o.deep` as boolean"#,
    );
    check_values(
        r#"{"o":"{\"deep\":true}"}"#,
        r#"{"o":{"deep":true}} read the text in `o` as object"#,
    );
    check_values(r#"{"r":{"x":"1"}}"#, r#"{"r":{"x":1}} read the text in `r.x` as number"#);
    check_values(r#"{"i":null,"any":null}"#, r#"{"any":null} left out `i`, which was null"#);
}

#[test]
fn other_values_are_unchanged() {
    for given in [
        r#"{"n":5,"s":"5","b":true,"either":"5","maybe":null,"any":"7","l":[],"o":{}}"#,
        r#"{"n":"five"}"#,
        r#"{"n":""}"#,
        r#"{"n":" 5"}"#,
        r#"{"n":"+5"}"#,
        r#"{"n":"0x10"}"#,
        r#"{"n":"1_000"}"#,
        r#"{"n":"NaN"}"#,
        r#"{"i":"5.5"}"#,
        r#"{"i":true}"#,
        r#"{"b":"yes"}"#,
        r#"{"b":"1"}"#,
        r#"{"b":1}"#,
        r#"{"s":true}"#,
        r#"{"s":1.5}"#,
        r#"{"l":"1,2"}"#,
        r#"{"l":5}"#,
        r#"{"few":"10"}"#,
        r#"{"r":{"x":null}}"#,
        r#"{"i":"5","b":"maybe"}"#,
    ] {
        check_values(given, "as it is");
    }
}

#[test]
fn advice_has_a_fix_and_a_schema_fragment() {
    #[track_caller]
    fn check(given: &str, expect: &str) {
        let schema = raw(
            r#"{"type":"object","properties":{"path":{"type":"string","minLength":1},"count":{"type":"integer","maximum":9},"opts":{"type":"object","properties":{"x":{}},"required":["x"],"additionalProperties":false}},"required":["path"],"additionalProperties":false}"#,
        );
        let found = advice("t", &schema, &raw(given))
            .map(|Advice { fix, fragment }| fix + &shown(fragment))
            .unwrap_or_default();
        assert_eq!(found, expect, "{given}");
    }
    const PATH: &str = r#"path={"type":"string","minLength":1}"#;
    const COUNT: &str = r#"count={"type":"integer","maximum":9}"#;
    const OPTS: &str = r#"opts={"type":"object","properties":{"x":{}},"required":["x"],"additionalProperties":false}"#;
    check(r#"{"path":"a"}"#, "");
    check("{}", &format!(r#"add `path`: {{"name":"t","arguments":{{"path":"<string>"}}}} {PATH}"#));
    check(
        r#"{"path":"a","cont":1}"#,
        &format!("there is no argument `cont`; did you mean `count`? {COUNT}"),
    );
    check(r#"{"path":"a","count":"x"}"#, &format!("give `count` as integer {COUNT}"));
    check(
        r#"{"path":"a","count":10}"#,
        &format!("change `count` so that it fits its schema {COUNT}"),
    );
    check(r#"{"path":"a","opts":{}}"#, &format!("add `x` to `opts` {OPTS}"));
    check(r#"{"path":"a","opts":{"x":1,"y":1}}"#, &format!("take `y` out of `opts` {OPTS}"));
    check("[]", r#"send {"name":"t","arguments":{"path":"<string>"}}"#);
}

#[test]
fn a_misspelt_name_explains_a_missing_one() {
    let schema = raw(r#"{"type":"object","properties":{"path":{}},"required":["path"]}"#);
    let Advice { fix, .. } = advice("t", &schema, &raw(r#"{"pth":"a"}"#)).unwrap();
    assert_eq!(fix, "`pth` is called `path`");
}

#[test]
fn a_long_schema_is_not_repeated() {
    let long = "x".repeat(5_000);
    let schema = json!({"properties":{"p":{"type":"string","description":long}},"required":["p"]});
    let advice = advice("t", &raw(&schema.to_string()), &raw("{}")).unwrap();
    assert_eq!(shown(advice.fragment), " p=…");
}
