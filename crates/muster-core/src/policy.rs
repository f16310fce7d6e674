//! Access policy. [`Policy::permit`] is the only way to create a [`Permitted`], without which
//! nothing runs.

pub mod constraint;
mod denylist;
pub mod pattern;
mod unconverted;
pub mod unmatched;

use std::sync::Arc;

use indexmap::IndexMap;
use serde_json::value::RawValue;

use crate::{
    arguments::{self, Arguments, InvalidArguments},
    call::{Call, CallError, Caller, Checking},
    catalog::{CatalogSnapshot, ToolEntry},
    cli::{Executor, Param},
    client::Continuation,
    effect::Effect,
    json::Raw,
    policy::{constraint::Constraint, pattern::InvalidPattern},
    schema,
};

/// Which tools callers may use, and with which arguments.
#[derive(Debug, Clone, Default)]
pub struct Policy {
    /// Where CLI commands run.
    pub executor: Executor,
    /// The access to tools without a rule.
    pub default: DefaultAccess,
    /// The worst effect allowed to tools without a rule; none for any.
    pub max_effect: Option<Effect>,
    /// Rules in file order, by a tool's exposed name or its backend's own name.
    pub rules: IndexMap<String, Rule>,
    /// Whether known destructive tools may run.
    pub destructive: DestructiveTools,
}

/// Whether known destructive tools may run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, std::default::Default)]
pub enum DestructiveTools {
    /// They may: the config lists them explicitly.
    #[default]
    Allowed,
    /// They may not, unless enabled by the user.
    Blocked,
}

/// The access to tools without a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, std::default::Default)]
pub enum DefaultAccess {
    /// They may be called. The default without a policy file.
    #[default]
    Enabled,
    /// They are hidden. The default of a policy file.
    Disabled,
}

/// The policy for one tool.
#[derive(Debug, Clone, std::default::Default)]
pub struct Rule {
    /// Replaces the tool's description, unless empty.
    pub description: Option<String>,
    /// Overrides the tool's effect.
    pub effect: Option<Effect>,
    /// Constraints by argument, in file order.
    pub args: IndexMap<String, Constraint>,
}

/// Whether tools with this name are known to be destructive, whatever their backend.
pub fn is_known_destructive(local_name: &str) -> bool {
    denylist::contains(local_name)
}

/// A call that may run. Its fields are private: only [`Policy::permit`] creates one.
#[derive(Debug)]
pub struct Permitted {
    entry: Arc<ToolEntry>,
    arguments: Arguments,
    raw: Raw,
    meta: Option<Raw>,
    continuation: Continuation,
}

impl Permitted {
    /// The tool.
    pub fn entry(&self) -> &ToolEntry {
        &self.entry
    }

    /// The checked and, if requested, converted arguments. Only for tools with a CLI definition.
    pub fn arguments(&self) -> &Arguments {
        &self.arguments
    }

    /// The arguments exactly as given.
    pub fn raw_arguments(&self) -> &Raw {
        &self.raw
    }

    /// The `_meta` object of the request.
    pub fn meta(&self) -> Option<&Raw> {
        self.meta.as_ref()
    }

    /// Responses to input requests of an earlier attempt.
    pub fn continuation(&self) -> &Continuation {
        &self.continuation
    }
}

impl Policy {
    /// The rule for a tool: by its exposed name, else by its backend's own name.
    pub fn rule(&self, entry: &ToolEntry) -> Option<&Rule> {
        self.rules.get(entry.name.as_str()).or_else(|| self.rules.get(&*entry.local_name))
    }

    /// Whether callers can see a tool.
    pub fn shows(&self, entry: &ToolEntry) -> bool {
        if self.shows_all() || self.rule(entry).is_some() {
            return true;
        }
        let within = |max: Effect| Effect::of(entry) <= max;
        self.default == DefaultAccess::Enabled && self.max_effect.is_some_and(within)
    }

    /// Whether callers can see every tool.
    pub fn shows_all(&self) -> bool {
        self.default == DefaultAccess::Enabled && self.max_effect.is_none()
    }

    /// The effect of a tool: by its rule, else by its hints and name.
    pub fn effect(&self, entry: &ToolEntry) -> Effect {
        let ruled = self.rule(entry).and_then(|rule| rule.effect);
        ruled.unwrap_or_else(|| Effect::of(entry))
    }

    /// Whether a tool is blocked as destructive.
    pub fn blocks(&self, entry: &ToolEntry) -> bool {
        self.destructive == DestructiveTools::Blocked && denylist::contains(&entry.local_name)
    }

    /// The description of a tool under this policy.
    pub fn description<'a>(&'a self, entry: &'a ToolEntry) -> &'a str {
        self.rule(entry)
            .and_then(|rule| rule.description.as_deref())
            .filter(|text| !text.is_empty())
            .unwrap_or(&entry.description)
    }

    /// Resolves a call in the catalog and decides whether it may run.
    pub fn permit(
        &self,
        catalog: &CatalogSnapshot,
        _caller: &Caller,
        call: Call,
    ) -> Result<Permitted, CallError> {
        let name = call.tool.as_str();
        let Some(entry) = catalog.get(name).filter(|entry| self.shows(entry)) else {
            let similar = catalog.similar(name, |entry| self.shows(entry));
            return Err(CallError::UnknownTool { tool: call.tool.shortened(), similar });
        };
        if self.blocks(entry) {
            return Err(CallError::Destructive { local_name: entry.local_name.to_string() });
        }
        let arguments = check(entry, &call).map_err(|InvalidArguments { problems, unknown }| {
            let schema = Arc::clone(&entry.input_schema);
            CallError::InvalidArguments { tool: call.tool.clone(), problems, unknown, schema }
        })?;
        self.constrain(entry, &arguments, &call.arguments)?;
        let Call { arguments: raw, meta, continuation, .. } = call;
        Ok(Permitted { entry: Arc::clone(entry), arguments, raw, meta, continuation })
    }

    fn constrain(
        &self,
        entry: &ToolEntry,
        checked: &Arguments,
        raw: &RawValue,
    ) -> Result<(), CallError> {
        let rule = self.rule(entry).filter(|rule| !rule.args.is_empty());
        let Some(rule) = rule else { return Ok(()) };
        let invalid = |err: InvalidPattern| CallError::InvalidPolicy { reason: err.to_string() };
        let violations = match &entry.params {
            Some(params) => converted_violations(rule, params, checked),
            None => unconverted::check(&rule.args, &entry.input_schema, raw),
        };
        let violations = violations.map_err(invalid)?;
        if violations.is_empty() {
            return Ok(());
        }
        Err(CallError::PolicyViolation { tool: entry.name.clone(), violations })
    }
}

/// The violations of a rule by the converted arguments of a CLI tool.
fn converted_violations(
    rule: &Rule,
    params: &[Param],
    arguments: &Arguments,
) -> Result<Vec<String>, InvalidPattern> {
    let mut violations = Vec::new();
    for (name, constraint) in &rule.args {
        let value = arguments.get(name).filter(|_| params.iter().any(|param| param.name == *name));
        if let Some(value) = value {
            violations.extend(constraint.check(name, value)?);
        }
    }
    Ok(violations)
}

fn check(entry: &ToolEntry, call: &Call) -> Result<Arguments, InvalidArguments> {
    let Some(params) = entry.params.as_deref() else {
        entry.validator.check(&entry.input_schema, &call.arguments)?;
        return Ok(Arguments::default());
    };
    let given = Arguments::from_json(&call.arguments);
    match call.checking {
        Checking::Coerce => arguments::coerce(params, given),
        Checking::Strict => schema::check(params, given),
    }
}
