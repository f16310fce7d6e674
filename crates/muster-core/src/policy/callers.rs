//! The part of a policy that depends on the caller.
//!
//! The policy for everybody comes first. Entries of `callers` that match a caller only add to it: tools, other limits
//! for the same tool (the last matching entry with a rule for the tool counts), or the rights of an operator. A toolset
//! that the caller is bound to is applied last and only removes tools.

use std::sync::Arc;

use super::{DefaultAccess, Policy, Rule, rules::Rules, toolset::ResolvedToolset};
use crate::{
    call::{Caller, Role},
    catalog::{CatalogSnapshot, CatalogSource, ToolEntry},
    effect::Effect,
    glob::Glob,
};

/// The subject of callers without a login and without a token.
const LOCAL: &str = "local";

/// A grant to some callers, beyond the policy for everybody.
#[derive(Debug, Clone, Default)]
pub struct CallerGrant {
    /// The callers.
    pub subjects: Subjects,
    /// The access to tools without a rule.
    pub default: Option<DefaultAccess>,
    /// The worst effect allowed to tools without a rule.
    pub max_effect: Option<Effect>,
    /// Rules for tools.
    pub rules: Rules,
    /// The name of a toolset whose tools exist for these callers.
    pub toolset: Option<String>,
    /// Whether they may change the gateway.
    pub operator: bool,
}

/// The callers of an entry: those that at least one field matches.
#[derive(Debug, Clone, Default)]
pub struct Subjects {
    /// Patterns of email addresses or subjects.
    pub users: Vec<Glob>,
    /// Groups.
    pub groups: Vec<String>,
    /// Patterns of the ids of OAuth clients.
    pub clients: Vec<Glob>,
    /// Names of static tokens.
    pub tokens: Vec<String>,
    /// Whether callers without a login and without a token match.
    pub anonymous: bool,
}

/// The part of a policy that depends on the caller. Callers with the same access share
/// everything that is derived from the policy.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CallerAccess {
    role: Role,
    /// The positions of the entries that match.
    grants: Vec<usize>,
    toolset: Option<Arc<str>>,
}

/// The parts of a policy that apply to one caller.
#[derive(Debug, Clone, Default)]
pub struct CallerScope {
    access: CallerAccess,
    /// The entries that match, in file order.
    grants: Vec<Arc<CallerGrant>>,
    /// The toolsets that entries add.
    added: Vec<ResolvedToolset>,
    limit: Option<ToolsetLimit>,
}

/// The toolset that a caller is limited to.
#[derive(Debug, Clone)]
enum ToolsetLimit {
    /// A toolset that exists.
    Known(ResolvedToolset),
    /// No toolset has this name: all tools are hidden.
    Unknown(Arc<str>),
}

impl Subjects {
    /// Whether no caller can match.
    pub fn is_empty(&self) -> bool {
        let Self { users, groups, clients, tokens, anonymous } = self;
        let lists = [users.is_empty(), groups.is_empty(), clients.is_empty(), tokens.is_empty()];
        lists.into_iter().all(|is_empty| is_empty) && !anonymous
    }

    fn include(&self, caller: &Caller) -> bool {
        // A token is not a user: its name must not match a pattern of users.
        if let Some(token) = &caller.token {
            return self.tokens.iter().any(|name| **name == **token);
        }
        let Some(principal) = &caller.principal else {
            return self.anonymous && *caller.subject == *LOCAL;
        };
        let is_user = |glob: &Glob| {
            principal.email.as_deref().is_some_and(|email| glob.matches(email))
                || glob.matches(&principal.subject)
        };
        self.users.iter().any(is_user)
            || self.groups.iter().any(|group| principal.groups.contains(group))
            || principal
                .client
                .as_deref()
                .is_some_and(|client| self.clients.iter().any(|glob| glob.matches(client)))
    }
}

impl CallerScope {
    /// Whether the caller may change the gateway.
    pub(super) fn role(&self) -> Role {
        self.access.role
    }

    /// The positions of the entries that match the caller.
    pub(super) fn entries(&self) -> &[usize] {
        &self.access.grants
    }

    /// The name of the toolset that the caller is limited to.
    pub(super) fn bound_toolset(&self) -> Option<&str> {
        self.access.toolset.as_deref()
    }

    /// The rules that name a tool, from the last entry that has one, else from the policy for everybody.
    pub(super) fn rules<'a>(
        &'a self,
        everybody: &'a Rules,
        entry: &'a ToolEntry,
    ) -> impl Iterator<Item = &'a Rule> {
        let added = self.grants.iter().rev().map(|grant| &grant.rules);
        let found = added.filter(|rules| !rules.is_empty()).find(|rules| {
            let mut named = rules.of(entry);
            named.next().is_some()
        });
        found.unwrap_or(everybody).of(entry)
    }

    /// Whether a rule names exactly this tool.
    pub(super) fn names(&self, everybody: &Rules, entry: &ToolEntry) -> bool {
        let mut all = self.grants.iter().map(|grant| &grant.rules).chain([everybody]);
        all.any(|rules| rules.explicit(entry).next().is_some())
    }

    /// The worst effect of tools that may be called without a rule; `None` if they are hidden.
    pub(super) fn open_to(&self, everybody: Option<Effect>) -> Option<Effect> {
        let added =
            self.grants.iter().filter_map(|grant| match (grant.default, grant.max_effect) {
                (Some(DefaultAccess::Disabled), _) | (None, None) => None,
                (_, most) => Some(most.unwrap_or(Effect::Destructive)),
            });
        everybody.into_iter().chain(added).max()
    }

    /// Whether an entry grants a tool through a toolset.
    pub(super) fn adds(&self, entry: &ToolEntry, effect: impl Fn() -> Effect) -> bool {
        !self.added.is_empty() && self.added.iter().any(|set| set.selects(entry, effect()))
    }

    /// Whether a tool is within the toolset that limits the caller, if there is one.
    pub(super) fn admits(&self, entry: &ToolEntry, effect: impl Fn() -> Effect) -> bool {
        match &self.limit {
            None => true,
            Some(ToolsetLimit::Known(set)) => set.selects(entry, effect()),
            Some(ToolsetLimit::Unknown(_)) => false,
        }
    }

    /// Whether a toolset of the caller pins a tool.
    fn pins(&self, entry: &ToolEntry) -> bool {
        let limit = match &self.limit {
            Some(ToolsetLimit::Known(set)) => Some(set),
            Some(ToolsetLimit::Unknown(_)) | None => None,
        };
        limit.into_iter().chain(&self.added).any(|set| set.pins(entry))
    }

    /// Whether a toolset limits the caller.
    pub(super) fn is_limited(&self) -> bool {
        self.limit.is_some()
    }

    /// Whether a server without tools is within the toolset, and whether an entry adds it.
    fn server(&self, source: &CatalogSource) -> (bool, bool) {
        let backend = &source.backend;
        let within = match &self.limit {
            None => true,
            Some(ToolsetLimit::Known(set)) => set.selects_server(backend),
            Some(ToolsetLimit::Unknown(_)) => false,
        };
        (within, self.added.iter().any(|set| set.selects_server(backend)))
    }
}

impl Policy {
    /// The access of a caller under this policy.
    pub fn access_of(&self, caller: &Caller) -> CallerAccess {
        let matching = self.callers.iter().enumerate();
        let matching = matching.filter(|(_, grant)| grant.subjects.include(caller));
        let mut role = caller.role;
        let mut grants = Vec::new();
        for (at, grant) in matching {
            grants.push(at);
            if grant.operator {
                role = Role::Operator;
            }
        }
        CallerAccess { role, grants, toolset: caller.toolset.clone() }
    }

    /// Whether this is the policy for callers with this access.
    pub fn is_for(&self, access: &CallerAccess) -> bool {
        self.scope.access == *access
    }

    /// The policy for callers with this access.
    #[must_use]
    pub fn narrowed(&self, access: CallerAccess, catalog: &CatalogSnapshot) -> Self {
        let find = |name: &str| self.toolsets.get(name).map(|set| set.resolved(catalog));
        let grants: Vec<Arc<CallerGrant>> =
            access.grants.iter().filter_map(|at| self.callers.get(*at)).map(Arc::clone).collect();
        let added = grants.iter().filter_map(|grant| find(grant.toolset.as_deref()?)).collect();
        let limit = access.toolset.as_ref().map(|name| match find(name) {
            Some(set) => ToolsetLimit::Known(set),
            None => ToolsetLimit::Unknown(Arc::clone(name)),
        });
        Self { scope: CallerScope { access, grants, added, limit }, ..self.clone() }
    }

    /// Whether the caller may change the gateway.
    pub fn role(&self) -> Role {
        self.scope.role()
    }

    /// Whether a tool is listed under its own name, next to the meta-tools.
    pub fn pins(&self, entry: &ToolEntry) -> bool {
        self.scope.pins(entry) && self.shows(entry)
    }

    /// Whether any toolset pins tools.
    pub fn has_pins(&self) -> bool {
        self.toolsets.values().any(|set| !set.pinned.is_empty())
    }

    /// Whether every server is visible.
    pub fn is_open(&self) -> bool {
        !self.scope.is_limited() && self.open_to() == Some(Effect::Destructive)
    }

    /// Whether the key of a rule begins with `start`, for a caller that no toolset limits.
    pub fn names_prefix(&self, start: &str) -> bool {
        let named = |rules: &Rules| rules.keys().any(|key| key.starts_with(start));
        !self.scope.is_limited()
            && (named(&self.rules) || self.scope.grants.iter().any(|grant| named(&grant.rules)))
    }

    /// The name of the toolset that the caller is limited to, if no such toolset exists.
    pub fn unknown_toolset(&self) -> Option<&str> {
        match &self.scope.limit {
            Some(ToolsetLimit::Unknown(name)) => Some(name),
            Some(ToolsetLimit::Known(_)) | None => None,
        }
    }

    /// Whether callers can see that a server exists, and its resources and prompts: they can see one of its tools, or
    /// could if it had any.
    pub fn shows_source(&self, source: &CatalogSource) -> bool {
        let mut tools = source.entries().iter().chain(source.grouped_tools());
        if tools.any(|entry| entry.audience.is_gateway() || self.shows(entry)) {
            return true;
        }
        if !source.own_tools().is_empty() {
            // The summary of CLIs counts hidden tools, unless it depends on the caller.
            let is_cli = source.entries().iter().all(|entry| entry.params.is_some());
            return is_cli && self.callers.is_empty() && !self.scope.is_limited();
        }
        let (within, added) = self.scope.server(source);
        let start = format!("{}/", source.backend);
        let named = |rules: &Rules| rules.keys().any(|key| key.starts_with(&start));
        let named = named(&self.rules) || self.scope.grants.iter().any(|grant| named(&grant.rules));
        within && (added || named || self.open_to().is_some())
    }

    /// The worst effect of tools that may be called without a rule; `None` if they are hidden.
    pub(super) fn open_to(&self) -> Option<Effect> {
        let everybody = (self.default == DefaultAccess::Enabled)
            .then(|| self.max_effect.unwrap_or(Effect::Destructive));
        self.scope.open_to(everybody)
    }
}
