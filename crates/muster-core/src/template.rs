//! The template language of workflow files: Go's `text/template` with the functions of sprig.
//!
//! A [`Template`] is parsed once and rendered as often as needed. Files written for Go run unchanged:
//! the same syntax, the same types (a JSON number is a `float64`, and not comparable with `1`), the
//! same output to the byte, the same words in errors where people may match on them. A key that is
//! missing is an error.
//!
//! **Invariant:** rendering ends. Every step, every byte and every level of nesting is paid for from
//! [`Limits`]; a template that spends more fails with [`Stage::Limit`]. Nothing here reads a clock, a
//! file or the environment: time and chance come with the [`Context`], and the functions that would
//! need more are [`REFUSED`].

use std::collections::BTreeMap;

use serde_json::Value as Json;

pub use error::{Stage, TemplateError};
pub use functions::REFUSED;
pub use references::{Reference, Refusal};
pub use run::{Context, Limits};

use ast::{Node, Pipe, Tree};
use exec::Exec;
use run::Run;
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
mod run;
mod semver;
pub mod simple;
mod text;
mod time;
mod unicode;
mod value;

/// A parsed template.
#[derive(Debug)]
pub struct Template {
    text: String,
    body: Body,
    references: Vec<Reference>,
}

#[derive(Debug)]
enum Body {
    /// The first tree is the text itself.
    Trees(Vec<Tree>),
    /// `{{ .results.my-step }}`: not Go's syntax, but a key that may exist.
    Key(TemplateError),
}

/// The roots under which a whole rest may be one key.
const ROOTS: [&str; 3] = ["input", "results", "vars"];

impl Template {
    /// Parses `text`.
    ///
    /// # Errors
    ///
    /// The first mistake, worded as Go words it.
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
                let references = vec![Reference::key(text, root, key)];
                Ok(Self { text: owned, body: Body::Key(error), references })
            }
        }
    }

    /// Whether `text` is a template at all, rather than text to be passed on as it is.
    pub fn is_template(text: &str) -> bool {
        text.contains("{{") && text.contains("}}")
    }

    /// The text it was parsed from.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The text that `data` makes of it.
    ///
    /// # Errors
    ///
    /// What failed and where; [`Stage::Limit`] if it took too much.
    pub fn render(&self, data: &Json, cx: &Context<'_>) -> Result<String, TemplateError> {
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

    /// The value that an argument written as this template has: what a bare reference points to, in
    /// its own type; the rendered text of anything else, and `true` and `false` as booleans.
    ///
    /// # Errors
    ///
    /// As [`render`](Self::render).
    pub fn evaluate(&self, data: &Json, cx: &Context<'_>) -> Result<Json, TemplateError> {
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

    /// The value of a template that is one action, in the type that action computes (`{{ add 40 2 }}`
    /// is a number); the rendered text of any other.
    ///
    /// # Errors
    ///
    /// As [`render`](Self::render).
    pub fn compute(&self, data: &Json, cx: &Context<'_>) -> Result<Json, TemplateError> {
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

    /// Every path into the data that it uses, in order; some may not be reached when it runs.
    pub fn references(&self) -> &[Reference] {
        &self.references
    }

    /// The path, if it is one reference and nothing else but white space.
    pub fn bare_reference(&self) -> Option<&[String]> {
        match (&self.body, self.only_action(), &*self.references) {
            (Body::Key(_), _, [only]) => Some(&only.path),
            (_, Some(pipe), [only]) if pipe.is_bare_field() => Some(&only.path),
            _ => None,
        }
    }

    /// The calls in it that will be refused.
    pub fn refusals(&self) -> Vec<Refusal> {
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

    /// The pipeline, if the template is one action that sets no variable.
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
        cx: &Context<'_>,
        trees: &'t [Tree],
        work: impl FnOnce(&mut Exec<'t, '_>, &Value) -> Result<T, Box<TemplateError>>,
    ) -> Result<T, TemplateError> {
        let run = Run::new(*cx);
        let dot = self.data(&run, data).map_err(|fail| self.data_error(&fail))?;
        let mut exec = Exec::new(&run, &self.text, trees, dot.clone());
        work(&mut exec, &dot).map_err(|error| *error)
    }

    /// The part of `data` that the template can look at.
    fn data(&self, run: &Run<'_>, data: &Json) -> run::Answer {
        let mut wanted = references::Wanted::default();
        for reference in &self.references {
            wanted.add(&reference.path);
        }
        json::wanted_from_json(run, data, &wanted)
    }

    fn data_error(&self, fail: &run::Fail) -> TemplateError {
        let message = match fail {
            run::Fail::Said(message) => message,
            run::Fail::Spent(message) => *message,
        };
        let text = format!("template: template: the data cannot be used: {message}");
        TemplateError::new(Stage::Limit, &self.text, 0, text)
    }
}

/// Every function there is: its name, and the reason if it is refused.
pub fn functions() -> BTreeMap<&'static str, Option<&'static str>> {
    functions::all()
}

/// The root and the key of `{{ .input.K }}` and its like, where `K` is all the rest.
fn literal_key(text: &str) -> Option<(&str, &str)> {
    let inside = text.trim().strip_prefix("{{")?.strip_suffix("}}")?.trim();
    let (root, key) = inside.strip_prefix('.')?.split_once('.')?;
    ROOTS.contains(&root).then_some((root, key))
}

/// Whether `key` is spelled like the name of a step or an argument.
fn is_key(key: &str) -> bool {
    let allowed = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.');
    !key.is_empty() && key.chars().all(allowed)
}
