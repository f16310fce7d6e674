//! Access policy. Nothing runs without a [`Permitted`], and only [`Policy::permit`] creates one, here or at another
//! replica.

pub mod callers;
pub mod constraint;
mod denylist;
pub mod explain;
pub mod pattern;
pub mod rules;
pub mod toolset;
mod unconverted;
pub mod unmatched;

use std::{collections::BTreeMap, sync::Arc};

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::{
    arguments::{self, Arguments, InvalidArguments},
    call::{Call, CallError, Caller, Checking, Role},
    catalog::{CatalogSnapshot, ToolAudience, ToolEntry, WORKFLOWS_BACKEND, family::FamilyCall},
    cli::{Executor, Param},
    client::Continuation,
    effect::{Effect, ExcessiveEffect},
    json::Raw,
    policy::{
        callers::{CallerGrant, CallerScope},
        constraint::Constraint,
        pattern::InvalidPattern,
        rules::Rules,
        toolset::Toolset,
    },
    schema,
};

/// The authorization of tool calls: the tools that callers may use, and with which arguments.
#[derive(Debug, Clone, Default)]
pub struct Policy {
    /// Where CLI commands run.
    pub executor: Executor,
    /// The access to tools without a rule.
    pub default: DefaultAccess,
    /// The worst effect allowed to tools without a rule; `None` for any.
    pub max_effect: Option<Effect>,
    /// Rules for tools.
    pub rules: Rules,
    /// Whether known destructive tools may run.
    pub destructive: DestructiveTools,
    /// Additional grants to some callers, in file order.
    pub callers: Vec<Arc<CallerGrant>>,
    /// The toolsets by name.
    pub toolsets: Arc<BTreeMap<String, Arc<Toolset>>>,
    /// The caller that this policy applies to; by default a caller that no entry of `callers` matches.
    pub scope: CallerScope,
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, std::default::Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DefaultAccess {
    /// They may be called. The default without a policy file.
    #[default]
    Enabled,
    /// They are hidden. The default of a policy file.
    Disabled,
}

impl DefaultAccess {
    /// Its name in files and replies.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Enabled => "enabled",
            Self::Disabled => "disabled",
        }
    }
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

/// A call that another replica permitted and forwarded, because the server of its tool runs on this replica.
#[derive(Debug)]
pub struct ForwardedCall {
    /// The tool, by the server's own name.
    pub entry: Arc<ToolEntry>,
    /// The arguments exactly as given.
    pub arguments: Raw,
    /// The `_meta` object of the request.
    pub meta: Option<Raw>,
    /// Responses to input requests of an earlier attempt.
    pub continuation: Continuation,
}

impl Permitted {
    /// Accepts another replica's decision about a call. All replicas have the same policies, and only they have the key
    /// that encrypts their messages: an attacker who can forge a decision can also read every login. The call names a
    /// tool of an MCP server, which receives its arguments as they are, and never a tool of the gateway.
    pub fn by_another_replica(call: ForwardedCall) -> Self {
        let ForwardedCall { entry, arguments, meta, continuation } = call;
        Self { entry, arguments: Arguments::default(), raw: arguments, meta, continuation }
    }

    /// The tool.
    pub fn entry(&self) -> &ToolEntry {
        &self.entry
    }

    /// The tool, as the catalog has it.
    pub const fn shared_entry(&self) -> &Arc<ToolEntry> {
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
    /// The rules for a tool, the most specific first. The limits of all of them apply.
    pub fn rules_of<'a>(&'a self, entry: &'a ToolEntry) -> impl Iterator<Item = &'a Rule> {
        self.scope.rules(&self.rules, entry)
    }

    /// Whether the caller can see a tool.
    pub fn shows(&self, entry: &ToolEntry) -> bool {
        let effect = || self.effect(entry);
        if !self.scope.admits(entry, effect) {
            return false;
        }
        match (entry.audience, self.scope.role()) {
            (ToolAudience::Operators | ToolAudience::Everyone, Role::Operator) => return true,
            // Neither the default access nor a rule for a group of tools grants an operator's tools.
            (ToolAudience::Operators, Role::Agent) => return self.scope.names(&self.rules, entry),
            (ToolAudience::Callers, _) | (ToolAudience::Everyone, Role::Agent) => (),
        }
        let open_to = self.open_to();
        open_to == Some(Effect::Destructive)
            || self.rules_of(entry).next().is_some()
            || open_to.is_some_and(|most| Effect::of(entry) <= most)
            || self.scope.adds(entry, effect)
    }

    /// Whether the caller can see every tool.
    pub fn shows_all(&self) -> bool {
        self.scope.role() == Role::Operator
            && !self.scope.is_limited()
            && self.open_to() == Some(Effect::Destructive)
    }

    /// The effect of a tool: by its rule, else by its hints and name.
    pub fn effect(&self, entry: &ToolEntry) -> Effect {
        self.ruled_effect(entry).unwrap_or_else(|| Effect::of(entry))
    }

    /// The effect of a tool by its rule.
    pub fn ruled_effect(&self, entry: &ToolEntry) -> Option<Effect> {
        self.rules_of(entry).find_map(|rule| rule.effect)
    }

    /// Whether a tool is blocked as destructive. The names are those of servers' tools: a workflow may have any name, since
    /// each of its steps is permitted by itself.
    pub fn blocks(&self, entry: &ToolEntry) -> bool {
        self.destructive == DestructiveTools::Blocked
            && entry.backend.as_str() != WORKFLOWS_BACKEND
            && denylist::contains(&entry.local_name)
    }

    /// The description of a tool under this policy.
    pub fn description<'a>(&'a self, entry: &'a ToolEntry) -> &'a str {
        let mut said = self.rules_of(entry).filter_map(|rule| rule.description.as_deref());
        said.find(|text| !text.is_empty()).unwrap_or(&entry.description)
    }

    /// Resolves a call in the catalog and decides whether this caller may run it.
    pub fn permit(
        &self,
        catalog: &CatalogSnapshot,
        caller: &Caller,
        call: Call,
    ) -> Result<Permitted, CallError> {
        // A request carries the policy of its caller. A policy that was derived for another caller must never decide.
        let access = self.access_of(caller);
        if !self.is_for(&access) {
            return self.narrowed(access, catalog).decide(catalog, caller.most_effect, call);
        }
        self.decide(catalog, caller.most_effect, call)
    }

    fn decide(
        &self,
        catalog: &CatalogSnapshot,
        most: Option<Effect>,
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
        if let Some(found) = catalog.instance(entry, &call.arguments) {
            return self.decide_instance(entry, found, most, call);
        }
        self.decide_entry(entry, most, call)
    }

    /// Decides on a call of a family's tool, by the rules for that tool and those for the tool of the selected server.
    fn decide_instance(
        &self,
        entry: &ToolEntry,
        found: FamilyCall,
        most: Option<Effect>,
        call: Call,
    ) -> Result<Permitted, CallError> {
        let (own, arguments) = found.map_err(CallError::Instance)?;
        if !self.shows(&own) {
            let message =
                format!("tool {} is not available on server \"{}\"", call.tool, own.backend);
            return Err(CallError::Instance(message));
        }
        self.constrain(entry, &Arguments::default(), &call.arguments)?;
        self.decide_entry(&own, most, Call { arguments, ..call })
    }

    /// Decides on the tool that runs.
    fn decide_entry(
        &self,
        entry: &Arc<ToolEntry>,
        most: Option<Effect>,
        call: Call,
    ) -> Result<Permitted, CallError> {
        if let Some(most) = most {
            self.check_effect(entry, most)?;
        }
        let arguments = check(entry, &call).map_err(|InvalidArguments { problems, unknown }| {
            let schema = Arc::clone(&entry.input_schema);
            CallError::InvalidArguments { tool: call.tool.clone(), problems, unknown, schema }
        })?;
        self.constrain(entry, &arguments, &call.arguments)?;
        let Call { arguments: raw, meta, continuation, .. } = call;
        Ok(Permitted { entry: Arc::clone(entry), arguments, raw, meta, continuation })
    }

    /// Checks that the effect of a tool is at most `most`.
    pub fn check_effect(&self, entry: &ToolEntry, most: Effect) -> Result<(), ExcessiveEffect> {
        let effect = self.effect(entry);
        if effect <= most {
            return Ok(());
        }
        Err(ExcessiveEffect { tool: entry.name.clone(), effect, most })
    }

    fn constrain(
        &self,
        entry: &ToolEntry,
        checked: &Arguments,
        raw: &RawValue,
    ) -> Result<(), CallError> {
        // The policy limits what agents send to the gateway itself, not what its operators do.
        if entry.audience.is_gateway() && self.scope.role() == Role::Operator {
            return Ok(());
        }
        let rules = self.rules_of(entry).chain(self.rules.bare(entry));
        let invalid = |err: InvalidPattern| CallError::InvalidPolicy { reason: err.to_string() };
        let mut violations = Vec::new();
        for rule in rules.filter(|rule| !rule.args.is_empty()) {
            let found = match &entry.params {
                Some(params) => converted_violations(rule, params, checked),
                None => unconverted::check(&rule.args, &entry.input_schema, raw),
            };
            violations.extend(found.map_err(invalid)?);
        }
        if violations.is_empty() {
            return Ok(());
        }
        Err(CallError::PolicyViolation { tool: entry.name.clone(), violations })
    }
}

/// The violations of a rule by the converted arguments of a CLI tool, one sentence each.
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
