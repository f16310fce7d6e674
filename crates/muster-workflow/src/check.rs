//! Static checks of workflows.
//!
//! Findings never keep a workflow from being loaded or run: a missing tool may appear later, and a caller
//! may give an undeclared argument.

use std::{collections::BTreeSet, fmt::Display};

use muster_core::{next_step::NextStep, suggest};
use muster_template::{DataReference, Template};
use serde_json::{Value as Json, value::RawValue};

use super::{
    JsonObject, StepAction, Workflow, WorkflowSpec, WorkflowStep, argument_check, find_cycle,
    is_assumed_available, render::navigated_path,
};

/// A problem that a run will have, or may have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkflowFinding {
    /// The path: names and list indexes below `spec`.
    pub path: Vec<String>,
    /// What is wrong.
    pub message: String,
    /// How to fix it.
    pub hint: String,
}

/// The status of a tool.
#[derive(Debug)]
pub enum ToolStatus<'a> {
    /// It is available, and has this schema.
    Known(&'a RawValue),
    /// It does not exist; these names are similar.
    Missing(Vec<String>),
    /// It cannot be called now, although it may exist.
    Unavailable {
        /// Why.
        reason: String,
        /// What to do.
        hint: String,
    },
    /// It may become available.
    Unknown,
}

/// The tools and workflows that a check refers to.
pub trait CheckEnvironment {
    /// A tool by its name.
    fn tool(&self, name: &str) -> ToolStatus<'_>;

    /// Another workflow by its name.
    fn workflow(&self, name: &str) -> Option<&Workflow>;
}

/// All findings about a workflow.
pub fn check(workflow: &Workflow, around: &impl CheckEnvironment) -> Vec<WorkflowFinding> {
    let mut check = Check::new(&workflow.spec);
    check.shape();
    check.steps(around);
    check.output();
    if let Some(names) = find_cycle(workflow, &|name| around.workflow(name)) {
        check.report("it calls itself", names.join(" → "), "remove one of these calls");
    }
    check.findings
}

struct Check<'a> {
    spec: &'a WorkflowSpec,
    path: Vec<String>,
    findings: Vec<WorkflowFinding>,
    /// All steps.
    ids: BTreeSet<&'a str>,
    /// The steps whose results are available so far.
    earlier: BTreeSet<String>,
    /// The steps of loops whose results are available so far, followed by a number.
    numbered: BTreeSet<&'a str>,
    vars: BTreeSet<String>,
}

impl<'a> Check<'a> {
    fn new(spec: &'a WorkflowSpec) -> Self {
        let all = spec.steps.iter().chain(&spec.on_failure).flat_map(WorkflowStep::all);
        Self {
            spec,
            path: Vec::new(),
            findings: Vec::new(),
            ids: all.map(|step| step.id.as_str()).collect(),
            earlier: BTreeSet::new(),
            numbered: BTreeSet::new(),
            vars: BTreeSet::new(),
        }
    }

    fn report(&mut self, what: &str, more: impl AsRef<str>, hint: impl Into<String>) {
        let message = match more.as_ref() {
            "" => what.to_owned(),
            more => format!("{what}: {more}"),
        };
        self.findings.push(WorkflowFinding { path: self.path.clone(), message, hint: hint.into() });
    }

    fn within(&mut self, part: impl Display, work: impl FnOnce(&mut Self)) {
        self.path.push(part.to_string());
        work(self);
        self.path.pop();
    }

    fn shape(&mut self) {
        if self.spec.steps.is_empty() {
            self.within("steps", |check| {
                check.report("workflow must have at least one step", "", "add one");
            });
        }
        for (name, arg) in &self.spec.args {
            let kinds = super::arguments::ARG_TYPES;
            if !kinds.contains(&arg.kind.as_str()) {
                self.within("args", |check| {
                    check.within(name, |check| {
                        let what = format!("`{}` is no type", arg.kind);
                        check.report(&what, "", format!("write one of {}", kinds.join(", ")));
                    });
                });
            }
        }
        for (path, what) in self.spec.duplicate_ids() {
            let hint = "give one of them another `id`".to_owned();
            self.findings.push(WorkflowFinding { path, message: what, hint });
        }
    }

    fn steps(&mut self, around: &impl CheckEnvironment) {
        let spec = self.spec;
        self.within("steps", |check| {
            for (index, step) in spec.steps.iter().enumerate() {
                check.within(index, |check| check.step(step, around));
            }
        });
        self.vars = ["error", "failed_step"].map(str::to_owned).into();
        self.within("onFailure", |check| {
            for (index, step) in spec.on_failure.iter().enumerate() {
                check.within(index, |check| check.step(step, around));
            }
        });
        self.vars.clear();
    }

    fn step(&mut self, step: &'a WorkflowStep, around: &impl CheckEnvironment) {
        self.condition(step, around);
        match &step.action {
            StepAction::Tool { tool, args } => self.call(tool, args, around),
            StepAction::ForEach { items, name, steps } => self.within("forEach", |check| {
                check.within("items", |check| check.value(items));
                let vars = check.vars.clone();
                check.vars.extend([name.clone(), format!("{name}_index")]);
                check.within("steps", |check| {
                    for (index, step) in steps.iter().enumerate() {
                        check.within(index, |check| check.step(step, around));
                        check.numbered.insert(&step.id);
                    }
                });
                check.vars = vars;
            }),
            StepAction::Parallel { steps } => {
                // Concurrent steps do not see each other.
                let (before, mut after) = (self.earlier.clone(), self.earlier.clone());
                self.within("parallel", |check| {
                    for (index, step) in steps.iter().enumerate() {
                        check.within(index, |check| check.step(step, around));
                        after.append(&mut check.earlier);
                        check.earlier.clone_from(&before);
                    }
                });
                self.earlier = after;
            }
        }
        self.earlier.insert(step.id.clone());
    }

    fn call(&mut self, tool: &str, args: &JsonObject, around: &impl CheckEnvironment) {
        self.tool(tool, args, around);
        self.within("args", |check| check.object(args));
    }

    fn tool(&mut self, tool: &str, args: &JsonObject, around: &impl CheckEnvironment) {
        match around.tool(tool) {
            ToolStatus::Unknown => (),
            ToolStatus::Known(schema) => {
                for mut found in argument_check::check_arguments(tool, schema, args) {
                    let below = std::mem::take(&mut found.path);
                    found.path = self.path.clone();
                    found.path.push("args".to_owned());
                    found.path.extend(below);
                    self.findings.push(found);
                }
            }
            ToolStatus::Unavailable { reason, hint } => self.within("tool", |check| {
                check.report(&format!("`{tool}` cannot be called"), reason, hint);
            }),
            ToolStatus::Missing(near) => self.within("tool", |check| {
                let hint = match near.first() {
                    Some(near) => format!("did you mean `{near}`?"),
                    None => format!("find its name with {}", NextStep::FindTool),
                };
                let more =
                    if is_assumed_available(tool) { "" } else { "the workflow is not available" };
                check.report(&format!("there is no tool `{tool}`"), more, hint);
            }),
        }
    }

    fn condition(&mut self, step: &WorkflowStep, around: &impl CheckEnvironment) {
        let Some(condition) = &step.condition else { return };
        self.within("condition", |check| {
            if let Some(template) = &condition.template {
                check.within("template", |check| check.template(template));
            }
            if let Some(from) = &condition.from_step {
                check.within("fromStep", |check| check.result(from));
            } else if let Some(tool) = &condition.tool {
                check.call(tool, &condition.args, around);
            }
            let sides = [("expect", &condition.expect), ("expectNot", &condition.expect_not)];
            for (name, side) in sides {
                let Some(side) = side else { continue };
                check.within(name, |check| {
                    check.within("jsonPath", |check| check.object(&side.json_path));
                    if name == "expect" && !side.json_path.is_empty() && !side.success {
                        check.report(
                            "without `success: true` this expects a failure",
                            "",
                            "add `success: true`",
                        );
                    }
                });
            }
        });
    }

    fn output(&mut self) {
        let spec = self.spec;
        if let Some(output) = &spec.output {
            self.within("output", |check| check.value(output));
        }
    }

    fn object(&mut self, object: &JsonObject) {
        for (name, value) in object {
            self.within(name, |check| check.value(value));
        }
    }

    fn value(&mut self, value: &Json) {
        match value {
            Json::String(text) if Template::is_template(text) => self.template(text),
            Json::Array(items) => {
                for (index, item) in items.iter().enumerate() {
                    self.within(index, |check| check.value(item));
                }
            }
            Json::Object(object) => self.object(object),
            Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) => (),
        }
    }

    fn template(&mut self, text: &str) {
        if self.path.first().is_some_and(|part| part == "output")
            && let Some(path) = navigated_path(text)
        {
            let path = path.split(['.', '[']).map(str::to_owned).collect();
            return self.reference(&DataReference { path, line: 1, column: 1 });
        }
        let template = match Template::parse(text) {
            Ok(template) => template,
            Err(error) => {
                let hint = "correct the template; workflow files use Go's text/template";
                return self.report("invalid template", error.to_string(), hint);
            }
        };
        for refusal in template.refusals() {
            let what = format!("the function `{}` is refused", refusal.name);
            let (why, hint) = refusal
                .reason
                .split_once("; ")
                .unwrap_or((refusal.reason, "pass the value as an argument"));
            self.report(&what, why, hint);
        }
        for reference in template.references() {
            self.reference(reference);
        }
    }

    fn reference(&mut self, reference: &DataReference) {
        let mut path = reference.path.iter().map(String::as_str);
        match (path.next(), path.next()) {
            (None, _) | (Some("input" | "results" | "context" | "vars"), None) => (),
            (Some("input"), Some(name)) => {
                let args = &self.spec.args;
                if !args.contains_key(name) {
                    let near = suggest::similar(name, args.keys().map(String::as_str));
                    let hint = match near.first() {
                        Some(near) => format!("did you mean `.input.{near}`?"),
                        None if args.is_empty() => {
                            format!("declare it: `args: {{{name}: {{type: string}}}}`")
                        }
                        None => format!("add `{name}` to `args`"),
                    };
                    self.report(&format!("`.input.{name}` is not among the arguments"), "", hint);
                }
            }
            (Some("results" | "context"), Some(id)) => self.result(id),
            (Some("vars"), Some(name)) => {
                if !self.vars.contains(name) {
                    let hint = "use it in a step inside a `forEach` whose `as` names it";
                    self.report(&format!("`.vars.{name}` is not known here"), "", hint);
                }
            }
            (Some(other), _) => {
                let hint = match self.spec.args.contains_key(other) {
                    true => format!("write `.input.{other}`"),
                    false => "templates see `.input`, `.results` and `.vars`".to_owned(),
                };
                self.report(&format!("nothing is named `.{other}`"), "", hint);
            }
        }
    }

    fn result(&mut self, id: &str) {
        let numbered = || {
            let (name, number) = id.rsplit_once('_')?;
            (number.parse::<usize>().is_ok() && self.numbered.contains(name)).then_some(())
        };
        if self.earlier.contains(id) || numbered().is_some() {
            return;
        }
        if self.ids.contains(id) {
            let what = format!("step `{id}` has no result yet here");
            return self.report(&what, "", format!("move `{id}` before this step"));
        }
        let hint = match suggest::similar(id, self.ids.iter().copied()).first() {
            Some(near) => format!("did you mean `{near}`?"),
            None => "name an earlier step".to_owned(),
        };
        self.report(&format!("there is no step `{id}`"), "", hint);
    }
}

#[cfg(test)]
mod tests;
