//! The template language of workflow files: Go's `text/template` with the functions of sprig.
//!
//! A [`Template`] is parsed once and rendered as often as needed. Files written for Go run unchanged:
//! the same syntax, the same types (a JSON number is a `float64`, and not comparable with `1`), the
//! same output to the byte, the same error messages where people may match on them. A missing key is
//! an error.
//!
//! **Invariant:** rendering terminates. Every step, every byte and every level of nesting is charged
//! against [`RenderLimits`]; a template that exceeds them fails with [`ErrorStage::Limit`]. Nothing here reads a
//! clock, a file or the environment: time and randomness come with the [`RenderContext`], and the functions
//! that would need more are [`REFUSED`].

use std::collections::BTreeMap;

use serde_json::Value as Json;

pub use error::{ErrorStage, TemplateError};
pub use functions::REFUSED;
pub use references::{DataReference, RefusedCall};
pub use state::{RandomSource, RenderBudget, RenderContext, RenderLimits};

use ast::{Node, Pipe, Tree};
use exec::Exec;
use state::RenderState;
use value::Value;

mod ast;
mod error;
mod exec;
mod format;
mod functions;
mod json;
mod lex;
mod methods;
mod number;
mod parse;
mod quote;
mod references;
mod regex;
mod semver;
pub mod simple;
mod state;
mod text;
mod time;
mod unicode;
mod value;

pub use self::time::duration;

/// A parsed template.
#[derive(Debug)]
pub struct Template {
    text: String,
    body: Body,
    references: Vec<DataReference>,
}

#[derive(Debug)]
enum Body {
    /// The first tree is the main template, the others are its `define`s and `block`s.
    Trees(Vec<Tree>),
    /// `{{ .results.my-step.items }}`: not Go's syntax, but a path that may exist.
    Key(TemplateError),
}

/// The roots below which the whole remaining path may be a single key.
const ROOTS: [&str; 4] = ["input", "results", "vars", "context"];

impl Template {
    /// Parses `text`.
    ///
    /// # Errors
    ///
    /// The first syntax error, with Go's message.
    pub fn parse(text: &str) -> Result<Self, TemplateError> {
        let owned = text.to_owned();
        match parse::parse(text) {
            Ok(trees) => {
                let references = references::of(text, &trees);
                Ok(Self { text: owned, body: Body::Trees(trees), references })
            }
            Err(error) => {
                let key = literal_key(text).filter(|(_, key)| is_key(key));
                let Some((root, key)) = key else { return Err(error) };
                let references = vec![DataReference::key(text, root, key)];
                Ok(Self { text: owned, body: Body::Key(error), references })
            }
        }
    }

    /// Whether `text` contains an action at all, rather than being plain text.
    pub fn is_template(text: &str) -> bool {
        text.contains("{{") && text.contains("}}")
    }

    /// The text it was parsed from.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Renders it with `data`.
    ///
    /// # Errors
    ///
    /// What failed and where; [`ErrorStage::Limit`] if it exceeded a limit.
    pub fn render(&self, data: &Json, cx: &RenderContext<'_>) -> Result<String, TemplateError> {
        let Body::Trees(trees) = &self.body else {
            return match self.evaluate(data, cx)? {
                Json::String(text) => Ok(text),
                other => Ok(other.to_string()),
            };
        };
        let bytes = self.with(data, cx, trees, |exec, dot| {
            exec.execute(dot)?;
            Ok(std::mem::take(&mut exec.out))
        })?;
        Ok(text::lossy(&bytes).into_owned())
    }

    /// Evaluates it as an argument: a bare reference gives the referenced value in its own type; anything
    /// else gives its rendered text, with `true` and `false` as booleans.
    ///
    /// # Errors
    ///
    /// As [`render`](Self::render).
    pub fn evaluate(&self, data: &Json, cx: &RenderContext<'_>) -> Result<Json, TemplateError> {
        if let Some(value) = self.pointed_to(data).filter(|value| !value.is_null()) {
            return Ok(value.clone());
        }
        if let Body::Key(error) = &self.body {
            return Err(error.clone());
        }
        Ok(match self.render(data, cx)? {
            text if text == "true" => Json::Bool(true),
            text if text == "false" => Json::Bool(false),
            text => Json::String(text),
        })
    }

    /// Evaluates a template that is a single action to the type which that action computes
    /// (`{{ add 40 2 }}` is a number); any other gives its rendered text.
    ///
    /// # Errors
    ///
    /// As [`render`](Self::render).
    pub fn compute(&self, data: &Json, cx: &RenderContext<'_>) -> Result<Json, TemplateError> {
        if let Some(value) = self.pointed_to(data) {
            return Ok(value.clone());
        }
        match (&self.body, self.only_action()) {
            (Body::Trees(trees), Some(pipe)) => {
                self.with(data, cx, trees, |exec, dot| exec.compute(dot, pipe))
            }
            (Body::Key(error), _) => Err(error.clone()),
            (Body::Trees(_), None) => Ok(Json::String(self.render(data, cx)?)),
        }
    }

    /// Every path into the data that it mentions, in order; some may not be evaluated when it runs.
    pub fn references(&self) -> &[DataReference] {
        &self.references
    }

    /// Its path, if it is a single reference surrounded by nothing but white space.
    pub fn bare_reference(&self) -> Option<&[String]> {
        match (&self.body, self.only_action(), &*self.references) {
            (Body::Key(_), _, [only]) => Some(&only.path),
            (_, Some(pipe), [only]) if pipe.is_bare_field() => Some(&only.path),
            _ => None,
        }
    }

    /// The calls in it of functions that are refused.
    pub fn refusals(&self) -> Vec<RefusedCall> {
        match &self.body {
            Body::Trees(trees) => references::refusals(&self.text, trees),
            Body::Key(_) => Vec::new(),
        }
    }

    fn pointed_to<'d>(&self, data: &'d Json) -> Option<&'d Json> {
        if let Some((root, key)) = literal_key(&self.text)
            && let Some(value) = data.get(root).and_then(|root| root.get(key))
        {
            return Some(value);
        }
        self.bare_reference()?.iter().try_fold(data, |value, key| value.as_object()?.get(key))
    }

    /// Its pipeline, if the template is a single action that sets no variable.
    fn only_action(&self) -> Option<&Pipe> {
        let Body::Trees(trees) = &self.body else { return None };
        let mut nodes = trees.first()?.nodes.iter();
        let mut nodes = nodes
            .by_ref()
            .filter(|node| !matches!(node, Node::Text(text) if text.trim().is_empty()));
        match (nodes.next()?, nodes.next()) {
            (Node::Action(pipe), None) if pipe.variables.is_empty() => Some(pipe),
            _ => None,
        }
    }

    fn with<'t, T>(
        &'t self,
        data: &Json,
        cx: &RenderContext<'_>,
        trees: &'t [Tree],
        work: impl FnOnce(&mut Exec<'t, '_>, &Value) -> Result<T, Box<TemplateError>>,
    ) -> Result<T, TemplateError> {
        let state = RenderState::new(*cx);
        let dot = self.data(&state, data).map_err(|fail| self.data_error(&fail))?;
        let mut exec = Exec::new(&state, &self.text, trees, dot.clone());
        work(&mut exec, &dot).map_err(|error| *error)
    }

    /// Converts the part of `data` that the template can read.
    fn data(&self, state: &RenderState<'_>, data: &Json) -> state::EvalResult {
        let mut wanted = references::UsedPaths::default();
        for reference in &self.references {
            wanted.add(&reference.path);
        }
        json::wanted_from_json(state, data, &wanted)
    }

    fn data_error(&self, fail: &state::EvalError) -> TemplateError {
        let message = match fail {
            state::EvalError::Message(message) => message,
            state::EvalError::LimitExceeded(message) => *message,
        };
        let text = format!("template: template: the data cannot be used: {message}");
        TemplateError::new(ErrorStage::Limit, &self.text, 0, text)
    }
}

/// All functions by name, with the reason where one is refused.
pub fn functions() -> BTreeMap<&'static str, Option<&'static str>> {
    functions::all()
}

/// The root and the key of `{{ .input.KEY }}`, where `KEY` is everything after the second dot.
fn literal_key(text: &str) -> Option<(&str, &str)> {
    let inside = text.trim().strip_prefix("{{")?.strip_suffix("}}")?.trim();
    let (root, key) = inside.strip_prefix('.')?.split_once('.')?;
    ROOTS.contains(&root).then_some((root, key))
}

/// Whether `key` may be a path with the name of a step or an argument that Go's syntax cannot express as a field.
fn is_key(key: &str) -> bool {
    let allowed = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-');
    let is_name = |name: &str| !name.is_empty() && name.chars().all(allowed);
    key.contains('-') && key.split('.').all(is_name)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{
        BoxedStrategy, Just, ProptestConfig, Strategy, any, prop, prop_oneof, proptest,
    };
    use serde_json::{Value as Json, json};

    use super::{
        ErrorStage, RenderContext, RenderLimits, Template, functions,
        functions::{ParamType, find},
    };

    const TEXTS: &[&str] = &[
        r#""""#,
        r#""a""#,
        r#""héllo wörld""#,
        r#""HTTPServer2xx a_b-c""#,
        r#""a,b,c""#,
        r#""%5.2f %*d %[2]v %q %999999d %[9223372036854775807]d""#,
        r#""(a)(b)?|[^x]{2,9}""#,
        r#""((((a{9}){9}){9}){9})\\pL""#,
        r#""2006-01-02T15:04:05.000Z07:00 Jan _2 PM 002""#,
        r#""2024-02-29T01:02:03+02:00""#,
        r#""1.2.3-rc.1+m""#,
        r#"">=1, <2 || ~3.x - 4""#,
        r#""-9223372036854775808h1.5ns""#,
        r#""http://u:p@[::1]:8/%20?q#f""#,
        r#""{\"a\":[1,null,1e300]}""#,
        r#""aGVsbG8=\n""#,
        r#""\xff é""#,
        r#""America/New_York""#,
        ".text",
        "(repeat 300 \"ab \")",
        "(b64dec \"/w==\")",
    ];
    const INTS: &[&str] =
        &["0", "1", "-1", "3", "64", "70000", "9223372036854775807", "-9223372036854775808"];
    const FLOATS: &[&str] = &["0.5", "-2.5", "1e300", "5e-324", ".number", "(float64 \"nan\")"];
    const MAPS: &[&str] =
        &["nil", "(dict)", "(dict \"a\" (dict \"b\" (list 1)) \"host\" \"h\")", ".map", "."];
    const TIMES: &[&str] = &[
        "now",
        "(toDate \"2006-01-02\" \"2024-02-29\")",
        "(now.AddDate 9223372036854775807 -9223372036854775808 1)",
        "(now.Add 9223372036854775807)",
    ];
    const OTHERS: &[&str] = &[
        "true",
        "(list 1 \"a\" nil 2.5)",
        "(list (list) (dict))",
        ".list",
        "(until 5)",
        "(splitList \",\" \"b,a\")",
        "(semver \"18446744073709551615.0.1-rc.1\")",
        "(semver \"1.2.3\").IncMinor",
        "(now.Sub now)",
        "now.Month",
        "(index \"a\" 0)",
        "1+2i",
    ];

    fn data() -> Json {
        json!({"text": "some text", "number": 7, "list": [1, "b", null], "map": {"k": {"n": true}}})
    }

    fn context() -> RenderContext<'static> {
        let random: super::RandomSource<'static> = &|bytes: &mut [u8]| bytes.fill(0x5a);
        let limits = RenderLimits { steps: 20_000, bytes: 1 << 20 };
        RenderContext {
            now: (1_700_000_000, 123_456_789),
            random: Some(random),
            limits,
            ..RenderContext::default()
        }
    }

    #[track_caller]
    fn limited(text: &str) {
        let rendered =
            Template::parse(text).and_then(|template| template.render(&data(), &context()));
        let stage = rendered.as_ref().map_err(|error| error.stage);
        assert_eq!(stage, Err(ErrorStage::Limit), "{text}");
    }

    #[test]
    fn nothing_runs_forever_or_fills_the_memory() {
        limited("{{ range until 1000 }}{{ range until 1000 }}{{ end }}{{ end }}");
        limited("{{ range 9223372036854775807 }}{{ end }}");
        limited("{{ until 9223372036854775807 }}");
        limited("{{ seq 1 9223372036854775807 }}");
        limited("{{ repeat 9223372036854775807 \"a\" }}");
        limited("{{ indent 100000000 \"a\\nb\" }}");
        limited("{{ printf \"%1000000d%1000000d\" 1 1 }}");
        limited("{{ printf \"%.1000000f%.1000000f\" 1.0 1.0 }}");
        limited("{{ randAlphaNum 100000000 }}");
        limited("{{ $s := \"ab\" }}{{ range until 100 }}{{ $s = print $s $s }}{{ end }}");
        limited("{{ $l := list 1 }}{{ range until 90 }}{{ $l = list $l $l }}{{ end }}{{ $l }}");
        limited(
            "{{ $l := list 1 }}{{ range until 90 }}{{ $l = list $l $l }}{{ end }}{{ toJson $l }}",
        );
        limited(
            "{{ $l := list 1 }}{{ range until 90 }}{{ $l = list $l $l }}{{ end }}{{ deepCopy $l }}",
        );
        limited("{{ $l := list 1 }}{{ range until 500 }}{{ $l = list $l }}{{ end }}");
        limited("{{ $d := dict }}{{ $_ := set $d \"d\" $d }}{{ $d }}");
        limited("{{ $d := dict }}{{ $_ := set $d \"d\" $d }}{{ toJson $d }}");
        limited("{{ define \"t\" }}{{ template \"t\" }}{{ end }}{{ template \"t\" }}");
        limited("{{ range until 100 }}{{ bcrypt \"x\" }}{{ end }}");
        limited("{{ regexReplaceAll \"\" (repeat 2000 \"a\") (repeat 2000 \"b\") }}");
        limited("{{ replace \"\" (repeat 2000 \"b\") (repeat 2000 \"a\") }}");
    }

    #[test]
    fn long_chains_of_maps_are_freed() {
        let text = "{{ $d := dict }}{{ $first := $d }}{{ range until 3000 }}{{ $next := dict }}\
                    {{ $_ := set $d \"n\" $next }}{{ $d = $next }}{{ end }}done";
        let template = Template::parse(text).unwrap();
        let cx = RenderContext { limits: RenderLimits::default(), ..context() };
        assert_eq!(template.render(&data(), &cx), Ok("done".to_owned()));
    }

    #[test]
    fn deep_nesting_is_refused_or_rendered() {
        for depth in [50, 99, 100, 5000] {
            let nested = [
                format!("{{{{ {}1{} }}}}", "(".repeat(depth), ")".repeat(depth)),
                format!("{}x{}", "{{ if true }}".repeat(depth), "{{ end }}".repeat(depth)),
                format!(
                    "{}{}",
                    "{{ if false }}{{ else if true }}".repeat(depth),
                    "{{ end }}{{ end }}".repeat(depth)
                ),
                format!("{}x{}", "{{ range . }}".repeat(depth), "{{ end }}".repeat(depth)),
            ];
            for text in nested {
                let rendered = Template::parse(&text).and_then(|t| t.render(&data(), &context()));
                assert!(depth < 5000 || rendered.is_err(), "{depth}");
            }
        }
    }

    #[test]
    fn arguments_keep_the_type_of_what_they_refer_to() {
        let data = json!({
            "input": {"n": 5, "list": [1, {"a": null}], "none": null, "my-key": "dashed"},
            "results": {"a": {"b": 1.5, "my-step": true}, "a.b": "one key", "get-pods": {"all": [1]}},
        });
        let check = |text: &str, expect: Json| {
            let value = Template::parse(text).unwrap().evaluate(&data, &context());
            assert_eq!(value.map_err(|error| error.to_string()), Ok(expect), "{text}");
        };
        check("{{ .input.n }}", json!(5));
        check(" {{.input.list}}\n", json!([1, {"a": null}]));
        check("{{ .results.a }}", data["results"]["a"].clone());
        check("{{ .results.a.b }}", json!("one key"));
        check("{{ $.input.n }}", json!(5));
        check("{{ .input.my-key }}", json!("dashed"));
        check("{{ .results.a.my-step }}", json!(true));
        check("{{ .results.get-pods.all }}", json!([1]));
        check("{{ .input.none }}", json!("<no value>"));
        check("{{ .input.n }}.", json!("5."));
        check("{{ eq .input.n 5.0 }}", json!(true));
        check("fal{{ \"se\" }}", json!(false));
        check("{{ add 40 2 }}", json!("42"));
        let missing = Template::parse("{{ .input.no-key }}").unwrap();
        assert_eq!(
            missing.evaluate(&data, &context()).map_err(|e| e.stage),
            Err(ErrorStage::Parse)
        );
        assert_eq!(missing.bare_reference(), Some(&["input".to_owned(), "no-key".to_owned()][..]));
    }

    #[test]
    fn computed_values_have_the_type_they_were_computed_in() {
        let check = |text: &str, expect: Json| {
            let value = Template::parse(text).unwrap().compute(&data(), &context());
            assert_eq!(value.map_err(|error| error.to_string()), Ok(expect), "{text}");
        };
        check("{{ add 40 2 }}", json!(42));
        check("{{ printf \"%d\" 42 }}", json!("42"));
        check("{{ .number }}", json!(7));
        check("{{ mulf .number 1.5 }}", json!(10.5));
        check("{{ .list | first }}", json!(1));
        check("{{ dict \"a\" (list 1 nil) }}", json!({"a": [1, null]}));
        check("{{ float64 \"inf\" }}", json!("+Inf"));
        check("{{ semver \"v1.2\" }}", json!("1.2.0"));
        check("n={{ .number }}", json!("n=7"));
    }

    #[test]
    fn references_are_paths_from_the_root() {
        let text = "{{ .input.a.b }}{{ with .results.x }}{{ .y }}{{ $.input.c }}{{ else }}{{ .z }}\
                    {{ end }}{{ if index .vars \"k\" }}{{ end }}\n {{ (list .q).w | len }}";
        let template = Template::parse(text).unwrap();
        let paths: Vec<_> = template.references().iter().map(|r| r.path.join(".")).collect();
        assert_eq!(paths, ["input.a.b", "results.x", "input.c", "z", "vars", "q"]);
        let last = template.references().last().unwrap();
        assert_eq!((last.line, last.column), (2, 10));
    }

    #[test]
    fn refused_calls_are_known_before_they_run() {
        let template = Template::parse("{{ if false }}\n {{ env \"HOME\" }}{{ end }}").unwrap();
        assert_eq!(template.render(&data(), &context()), Ok(String::new()));
        let refusals = template.refusals();
        let [refusal] = &*refusals else { panic!("{refusals:?}") };
        assert_eq!((refusal.name, refusal.line, refusal.column), ("env", 2, 4));
        let called = Template::parse("{{ env \"HOME\" }}").unwrap().render(&data(), &context());
        assert!(called.unwrap_err().to_string().contains("pass the value as an argument"));
    }

    #[test]
    fn templates_are_shared_between_threads() {
        fn shared<T: Send + Sync>() {}
        shared::<Template>();
        shared::<RenderContext<'static>>();
    }

    /// An argument that fits, mostly.
    fn argument(wanted: ParamType) -> BoxedStrategy<&'static str> {
        let fitting = match wanted {
            ParamType::Text => TEXTS,
            ParamType::Int | ParamType::Duration => INTS,
            ParamType::Float => FLOATS,
            ParamType::Bool => &["true", "false"],
            ParamType::Map => MAPS,
            ParamType::Time => TIMES,
            ParamType::Version => OTHERS,
            ParamType::Any => &[],
        };
        let all = [TEXTS, INTS, FLOATS, MAPS, TIMES, OTHERS].concat();
        if fitting.is_empty() {
            return prop::sample::select(all).boxed();
        }
        prop_oneof![9 => prop::sample::select(fitting), 1 => prop::sample::select(all)].boxed()
    }

    fn call(name: &'static str, piped: bool) -> BoxedStrategy<String> {
        let function = find(name).unwrap();
        let fixed: Vec<_> = function.takes.iter().copied().map(argument).collect();
        let more = prop::collection::vec(argument(function.rest.unwrap_or(ParamType::Any)), 0..4);
        let variadic = function.rest.is_some();
        let words = (fixed, more).prop_map(move |(mut words, more)| {
            words.extend(more.into_iter().filter(|_| variadic));
            // What is piped in takes the place of the last.
            words.truncate(words.len() - usize::from(piped).min(words.len()));
            format!("{name} {}", words.join(" "))
        });
        words.boxed()
    }

    /// Calls of any function, piped into others, and now and then blocks around them.
    fn templates() -> impl Strategy<Value = String> {
        let names: Vec<&'static str> = functions().into_keys().collect();
        let name = || prop::sample::select(names.clone());
        let first = name().prop_flat_map(|name| call(name, false));
        let others = prop::collection::vec(name().prop_flat_map(|name| call(name, true)), 0..3);
        let pipeline =
            (first, others).prop_map(|(first, others)| [&[first], &*others].concat().join(" | "));
        let block = prop_oneof![
            Just("{{ CALL }}"),
            Just("{{ $x := CALL }}{{ $x }}{{ toJson $x }}{{ printf \"%#v %d %s\" $x $x $x }}"),
            Just(
                "{{ range $k, $v := CALL }}{{ $k }}{{ $v }}{{ continue }}{{ else }}{{ . }}{{ end }}"
            ),
            Just("{{ with CALL }}{{ . }}{{ .k }}{{ else }}{{ . }}{{ end }}"),
            Just("{{ if CALL }}{{ index (CALL) 0 }}{{ end }}"),
        ];
        (block, pipeline).prop_map(|(block, pipeline)| block.replace("CALL", &pipeline))
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(512))]

        #[test]
        fn any_call_ends(text in templates()) {
            let template = Template::parse(&text).unwrap();
            drop(template.render(&data(), &context()));
            drop(template.compute(&data(), &context()));
            drop(template.evaluate(&data(), &context()));
        }

        #[test]
        fn any_text_ends(pieces in prop::collection::vec(prop_oneof![
            any::<String>(),
            prop::sample::select(TEXTS).prop_map(str::to_owned),
            prop::sample::select(&[
                "{{", "}}", "{{-", "-}}", "|", "(", ")", ".", "$", ":=", "=", ",", "if", "else", "end",
                "range", "with", "define", "template", "block", "break", "/*", "*/", " ", "\n", "'", "`",
            ][..]).prop_map(str::to_owned),
        ], 0..12)) {
            let text = pieces.concat();
            match Template::parse(&text) {
                Ok(template) => drop(template.render(&data(), &context())),
                Err(error) => assert!(error.to_string().starts_with("template: ")),
            }
            if !text.contains("{{") {
                let rendered = Template::parse(&text).and_then(|t| t.render(&data(), &context()));
                assert_eq!(rendered, Ok(text));
            }
        }

        #[test]
        fn a_bare_reference_is_what_it_points_to(n in any::<i64>(), text in any::<String>()) {
            let data = json!({"input": {"x": {"n": n, "text": text}}});
            let template = Template::parse("{{ .input.x }}").unwrap();
            assert_eq!(template.evaluate(&data, &context()), Ok(data["input"]["x"].clone()));
        }
    }
}
