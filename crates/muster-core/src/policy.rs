//! What is allowed. The only maker of [`Permitted`], without which nothing runs.

pub mod constraint;
mod denylist;
pub mod pattern;
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
    policy::constraint::Constraint,
    schema,
};

/// Which tools exist for callers, and within which limits.
#[derive(Debug, Clone, Default)]
pub struct Policy {
    /// Where CLI commands run.
    pub executor: Executor,
    /// What holds for a tool that no rule names.
    pub default: DefaultAccess,
    /// The most that a tool may do that no rule names. Without it, anything.
    pub max_effect: Option<Effect>,
    /// Rules in the order written, by the name that callers use or by the backend's own name of a tool.
    pub rules: IndexMap<String, Rule>,
    /// Whether tools that are known to destroy things may run.
    pub destructive: DestructiveTools,
}

/// Whether tools that are known to destroy things may run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, std::default::Default)]
pub enum DestructiveTools {
    /// They may: whoever wrote the config chose them.
    #[default]
    Allowed,
    /// They may not, unless someone said so.
    Blocked,
}

/// What holds for a tool that no rule names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, std::default::Default)]
pub enum DefaultAccess {
    /// It may be called. Without a policy file this is how things are.
    #[default]
    Enabled,
    /// It does not exist. A policy file that says nothing means this.
    Disabled,
}

/// What a policy says about one tool.
#[derive(Debug, Clone, std::default::Default)]
pub struct Rule {
    /// Words that replace the tool's own; empty counts as none.
    pub description: Option<String>,
    /// What the tool may do, whatever it says of itself.
    pub effect: Option<Effect>,
    /// Limits by argument, in the order written.
    pub args: IndexMap<String, Constraint>,
}

/// Whether tools of that name are known to destroy things, whoever has them.
pub fn is_known_destructive(local_name: &str) -> bool {
    denylist::names(local_name)
}

/// A call that may run. Its fields are private: only [`Policy::permit`] makes one.
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

    /// The arguments as checked, and as converted where that was asked for. Only for tools that a CLI
    /// definition describes.
    pub fn arguments(&self) -> &Arguments {
        &self.arguments
    }

    /// The arguments exactly as they were given.
    pub fn raw_arguments(&self) -> &Raw {
        &self.raw
    }

    /// What the client sent along about the request itself.
    pub fn meta(&self) -> Option<&Raw> {
        self.meta.as_ref()
    }

    /// Answers to earlier questions of the same call.
    pub fn continuation(&self) -> &Continuation {
        &self.continuation
    }
}

impl Policy {
    /// What is said about a tool: about this very one, else about all that their backends name so.
    pub fn rule(&self, entry: &ToolEntry) -> Option<&Rule> {
        self.rules.get(entry.name.as_str()).or_else(|| self.rules.get(&*entry.local_name))
    }

    /// Whether a tool exists for callers.
    pub fn shows(&self, entry: &ToolEntry) -> bool {
        if self.shows_all() || self.rule(entry).is_some() {
            return true;
        }
        let harmless = |most: Effect| Effect::of(entry) <= most;
        self.default == DefaultAccess::Enabled && self.max_effect.is_some_and(harmless)
    }

    /// Whether every tool exists for callers, without a look at it.
    pub fn shows_all(&self) -> bool {
        self.default == DefaultAccess::Enabled && self.max_effect.is_none()
    }

    /// What a tool may do: as the policy says, else as the tool and its name do.
    pub fn effect(&self, entry: &ToolEntry) -> Effect {
        let said = self.rule(entry).and_then(|rule| rule.effect);
        said.unwrap_or_else(|| Effect::of(entry))
    }

    /// Whether a tool is kept from running because it is known to destroy things.
    pub fn blocks(&self, entry: &ToolEntry) -> bool {
        self.destructive == DestructiveTools::Blocked && denylist::names(&entry.local_name)
    }

    /// The words that describe a tool under this policy.
    pub fn description<'a>(&'a self, entry: &'a ToolEntry) -> &'a str {
        self.rule(entry)
            .and_then(|rule| rule.description.as_deref())
            .filter(|text| !text.is_empty())
            .unwrap_or(&entry.description)
    }

    /// Resolves a call against what there is and decides about it.
    pub fn permit(
        &self,
        catalog: &CatalogSnapshot,
        _caller: &Caller,
        call: Call,
    ) -> Result<Permitted, CallError> {
        let name = call.tool.as_str();
        let Some(entry) = catalog.get(name).filter(|entry| self.shows(entry)) else {
            let similar = catalog.similar(name, |entry| self.shows(entry));
            return Err(CallError::UnknownTool { tool: call.tool.clone(), similar });
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
        let given;
        let arguments = match &entry.params {
            Some(_) => checked,
            None => {
                given = Arguments::from_json(raw);
                &given
            }
        };
        let mut violations = Vec::new();
        for (name, constraint) in &rule.args {
            let takes = |params: &[Param]| params.iter().any(|param| param.name == *name);
            if !entry.params.as_deref().is_none_or(takes) {
                continue;
            }
            let Some(value) = arguments.get(name) else { continue };
            let found = constraint
                .check(name, value)
                .map_err(|err| CallError::InvalidPolicy { reason: err.to_string() })?;
            violations.extend(found);
        }
        if violations.is_empty() {
            return Ok(());
        }
        Err(CallError::PolicyViolation { tool: entry.name.clone(), violations })
    }
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
