//! Templates inside arguments.

use muster_template::{ErrorStage, RenderContext, Template, TemplateError};
use serde_json::Value as Json;

use super::{JsonObject, StepCondition, condition::value_at, run::json_size};

/// The type of a text that is one template.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum TemplateTarget {
    /// As an argument: a bare reference keeps its type, everything else is text.
    Argument,
    /// As a part of the result: computed values keep their type too.
    Output,
}

/// Renders values, and records which arguments of the workflow they use.
pub(super) struct Renderer<'a> {
    data: &'a Json,
    cx: RenderContext<'a>,
    /// `input.x` for each argument met, in order.
    pub(super) used_inputs: Vec<String>,
}

impl<'a> Renderer<'a> {
    pub(super) fn new(data: &'a Json, cx: RenderContext<'a>) -> Self {
        Self { data, cx, used_inputs: Vec::new() }
    }

    /// The arguments of a tool.
    pub(super) fn arguments(&mut self, args: &JsonObject) -> Result<JsonObject, String> {
        let each = args.iter();
        each.map(|(name, value)| match self.value(value, TemplateTarget::Argument) {
            Ok(value) => Ok((name.clone(), value)),
            Err(error) => Err(format!(
                "failed to render arguments for argument '{name}': failed to render arguments: {error}"
            )),
        })
        .collect()
    }

    /// A condition with its expected values rendered.
    pub(super) fn condition(&mut self, condition: &StepCondition) -> Result<StepCondition, String> {
        let mut condition = condition.clone();
        for side in [&mut condition.expect, &mut condition.expect_not].into_iter().flatten() {
            side.json_path = self.arguments(&side.json_path)?;
        }
        Ok(condition)
    }

    /// A value, recursively. Keys are not templates.
    pub(super) fn value(&mut self, value: &Json, leaf: TemplateTarget) -> Result<Json, String> {
        self.at("", value, leaf).map_err(|(_, error)| error)
    }

    /// The output of a workflow. An error begins with the path of the template.
    pub(super) fn output(&mut self, output: &Json) -> Result<Json, String> {
        self.at("output", output, TemplateTarget::Output)
            .map_err(|(path, error)| format!("{path}: {error}"))
    }

    /// The error is preceded by the path of the template.
    fn at(
        &mut self,
        path: &str,
        value: &Json,
        leaf: TemplateTarget,
    ) -> Result<Json, (String, String)> {
        match value {
            Json::String(text) if Template::is_template(text) => {
                self.leaf(text, leaf).map_err(|error| (path.to_owned(), error))
            }
            Json::Array(items) => {
                let each = items.iter().enumerate();
                each.map(|(index, item)| self.at(&format!("{path}.{index}"), item, leaf)).collect()
            }
            Json::Object(object) => {
                let each = object.iter();
                let rendered: Result<JsonObject, _> = each
                    .map(|(name, value)| {
                        Ok((name.clone(), self.at(&format!("{path}.{name}"), value, leaf)?))
                    })
                    .collect();
                rendered.map(Json::Object)
            }
            Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) => Ok(value.clone()),
        }
    }

    fn leaf(&mut self, text: &str, leaf: TemplateTarget) -> Result<Json, String> {
        if let Some(path) = navigated_path(text).filter(|_| leaf == TemplateTarget::Output) {
            let found = match path.strip_prefix("context.") {
                Some(path) => self.data.get("results").and_then(|results| value_at(results, path)),
                None => value_at(self.data, path),
            };
            let found = found.ok_or_else(|| format!("path '{path}' not found"))?;
            if self.cx.budget.is_some_and(|budget| !budget.take(json_size(found) as u64)) {
                return Err(format!(
                    "the value at '{path}' and those before it are too large together"
                ));
            }
            return Ok(found.clone());
        }
        let template = Template::parse(text).map_err(|error| worded(&error))?;
        self.note(&template);
        // Rarely used: not worth a cache.
        let whole = template
            .references()
            .iter()
            .any(|found| found.path.first().is_none_or(|root| root == "context"));
        let with_context = whole.then(|| with_context(self.data));
        let data = with_context.as_ref().unwrap_or(self.data);
        let rendered = match leaf {
            TemplateTarget::Argument => template.evaluate(data, &self.cx),
            TemplateTarget::Output => template.compute(data, &self.cx),
        };
        rendered.map_err(|error| worded(&error))
    }

    fn note(&mut self, template: &Template) {
        for found in template.references() {
            let is_input = found.path.first().is_some_and(|root| root == "input");
            let name = found.path.join(".");
            if is_input && found.path.len() > 1 && !self.used_inputs.contains(&name) {
                self.used_inputs.push(name);
            }
        }
    }
}

/// The path of a text such as `{{ .results.get-pods.items[0].name }}`: Go's templates have no such index, and no
/// hyphens in names.
pub(super) fn navigated_path(text: &str) -> Option<&str> {
    let path = text.trim().strip_prefix("{{")?.strip_suffix("}}")?.trim().strip_prefix('.')?;
    let is_path = |letter: char| letter.is_alphanumeric() || "_.[]-".contains(letter);
    (path.contains(['[', '-']) && path.chars().all(is_path)).then_some(path)
}

/// The older name of the results.
fn with_context(data: &Json) -> Json {
    let mut data = data.clone();
    let results = data.get("results").cloned().unwrap_or_default();
    if let Json::Object(data) = &mut data {
        data.insert("context".to_owned(), results);
    }
    data
}

fn worded(error: &TemplateError) -> String {
    match error.stage {
        ErrorStage::Parse => format!("invalid template: {error}"),
        ErrorStage::Execute | ErrorStage::Limit => format!("template execution failed: {error}"),
    }
}
