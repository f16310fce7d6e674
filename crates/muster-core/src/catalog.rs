//! The catalog: everything that can be called, as an immutable value.
//!
//! Backends *push* their tools here when they change; the catalog never queries a backend. A
//! request works on one [`CatalogSnapshot`] from start to end.

pub mod family;
pub mod indexed;
mod names;
pub mod offer;
pub mod ranked;
pub mod search;
mod template;

use std::{collections::BTreeSet, sync::Arc};

use rpds::RedBlackTreeMapSync;

use serde_json::value::RawValue;

use crate::{
    cli::Param,
    effect::Effect,
    json::{Raw, RawObject},
    name::{self, BackendName, ToolName},
    schema::validator::Validator,
    suggest,
};
use family::{FamilyMember, FamilyRoute, ServerFamily};
use indexed::LazyIndex;
use names::ToolNames;

/// A tool in the catalog.
#[derive(Debug, Clone)]
pub struct ToolEntry {
    /// The name that agents see.
    pub name: ToolName,
    /// The backend that runs it.
    pub backend: BackendName,
    /// The backend's own name for it.
    pub local_name: Arc<str>,
    /// What it does.
    pub description: Arc<str>,
    /// The JSON Schema of its arguments.
    pub input_schema: Arc<RawValue>,
    /// Its parameters by a CLI definition; `None` for tools that only have a schema.
    pub params: Option<Arc<[Param]>>,
    /// The definition as an MCP server listed it, in the server's own names; `None` for tools defined by muster, unless
    /// they carry `_meta`.
    pub definition: Option<Arc<RawValue>>,
    /// The effect that its definition states, if the definition is trusted; otherwise its hints and name decide.
    pub effect: Option<Effect>,
    /// Validates arguments against the schema; compiled at the first call.
    pub validator: Arc<Validator>,
    /// Who it is for.
    pub audience: ToolAudience,
}

/// The key of the labels in the `_meta` of a tool.
pub const LABELS: &str = "muster.giantswarm.io/labels";

/// The backend of workflows. A server cannot have its name, because of the slash.
pub const WORKFLOWS_BACKEND: &str = "workflow/";

impl ToolEntry {
    /// Whether an MCP server defines it, not muster. Workflows have a definition only for their labels.
    pub fn is_upstream(&self) -> bool {
        self.definition.is_some() && self.backend.as_str() != WORKFLOWS_BACKEND
    }

    /// Whether it declares an argument: a parameter, or a property at the top of its input schema.
    pub fn declares(&self, argument: &str) -> bool {
        if let Some(params) = &self.params {
            return params.iter().any(|param| param.name == argument);
        }
        let schema = RawObject::parse(&self.input_schema).unwrap_or_default();
        let properties = schema.get("properties").and_then(RawObject::parse);
        properties.is_some_and(|properties| properties.get(argument).is_some())
    }

    /// The labels that its definition carries in `_meta`: a JSON object.
    pub fn labels(&self) -> Option<Raw> {
        // Few tools have labels, and searching is cheaper than parsing.
        let definition = self.definition.as_deref().filter(|text| text.get().contains(LABELS))?;
        let definition = RawObject::parse(definition)?;
        let meta = RawObject::parse(definition.get("_meta")?)?;
        meta.get(LABELS).map(ToOwned::to_owned)
    }
}

/// The callers that a tool is intended for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ToolAudience {
    /// Callers, as the policy decides: every tool except the gateway's own.
    #[default]
    Callers,
    /// A tool of the gateway that changes nothing that belongs to others: operators may always call it, other callers
    /// as the policy decides.
    Everyone,
    /// A tool that changes the gateway: for operators, and for callers with a rule that names it.
    Operators,
}

impl ToolAudience {
    /// Whether the tool is the gateway's own.
    pub const fn is_gateway(self) -> bool {
        matches!(self, Self::Everyone | Self::Operators)
    }
}

/// A resource, resource template or prompt in the catalog.
#[derive(Debug, Clone)]
pub struct CatalogItem {
    /// The name that clients see: a URI, a URI template or a name.
    pub name: Arc<str>,
    /// The backend that offers it.
    pub backend: BackendName,
    /// The backend's own name for it.
    pub local_name: Arc<str>,
    /// The definition as the backend listed it, in its own names.
    pub definition: Arc<RawValue>,
}

/// The tools, resources and prompts of one backend.
#[derive(Debug, Clone, Default)]
pub struct Offer {
    /// Its tools in its own order; names may repeat.
    pub tools: Vec<ToolEntry>,
    /// Its resources.
    pub resources: Vec<CatalogItem>,
    /// Its resource templates.
    pub templates: Vec<CatalogItem>,
    /// Its prompts.
    pub prompts: Vec<CatalogItem>,
}

/// How a backend describes itself.
#[derive(Debug, Clone)]
pub struct BackendInfo {
    /// A name for people and filters; need not be unique.
    pub title: Arc<str>,
    /// A one-line description.
    pub description: Arc<str>,
    /// The category, for filters.
    pub category: Option<Arc<str>>,
    /// Tags for search.
    pub tags: Arc<[String]>,
}

/// One backend with everything that it offers.
#[derive(Debug, Clone)]
pub struct CatalogSource {
    /// The backend.
    pub backend: BackendName,
    /// How it describes itself.
    pub info: BackendInfo,
    /// Its resources.
    pub resources: Vec<CatalogItem>,
    /// Its resource templates.
    pub templates: Vec<CatalogItem>,
    /// Its prompts.
    pub prompts: Vec<CatalogItem>,
    /// Whether it is bundled with muster.
    pub is_bundled: bool,
    /// The members of its tool list besides the tools, such as `_meta`: a JSON object.
    pub tools_members: Option<Raw>,
    /// Its tools in its own order; names may repeat.
    entries: Vec<Arc<ToolEntry>>,
    /// For each tool the text that substring queries are matched against.
    haystacks: Vec<String>,
    /// Its membership in a family.
    member: Option<FamilyMember>,
    /// How calls are routed to a server, if it is a family.
    route: Option<FamilyRoute>,
}

impl CatalogSource {
    /// Creates a source.
    pub fn new(backend: BackendName, info: BackendInfo, offer: Offer) -> Self {
        let Offer { tools, resources, templates, prompts } = offer;
        let haystacks = tools.iter().map(|entry| search::haystack(&info, entry)).collect();
        let entries = tools.into_iter().map(Arc::new).collect();
        Self {
            backend,
            info,
            resources,
            templates,
            prompts,
            is_bundled: false,
            tools_members: None,
            entries,
            haystacks,
            member: None,
            route: None,
        }
    }

    fn set_entries(&mut self, entries: Vec<Arc<ToolEntry>>) {
        self.haystacks = entries.iter().map(|entry| search::haystack(&self.info, entry)).collect();
        self.entries = entries;
    }

    /// Returns this source with only the tools that `keep` accepts, and without resources and prompts.
    #[must_use]
    pub fn some_tools(&self, keep: impl Fn(&ToolEntry) -> bool) -> Self {
        let kept = self.entries.iter().zip(&self.haystacks).filter(|(entry, _)| keep(entry));
        let (entries, haystacks) =
            kept.map(|(entry, haystack)| (Arc::clone(entry), haystack.clone())).unzip();
        Self {
            backend: self.backend.clone(),
            info: self.info.clone(),
            resources: Vec::new(),
            templates: Vec::new(),
            prompts: Vec::new(),
            is_bundled: self.is_bundled,
            tools_members: None,
            entries,
            haystacks,
            member: None,
            route: None,
        }
    }

    /// Its tools in its own order; names may repeat.
    pub fn entries(&self) -> &[Arc<ToolEntry>] {
        &self.entries
    }

    /// Whether its tools are the gateway's own.
    fn is_gateway(&self) -> bool {
        self.entries.iter().all(|entry| entry.audience.is_gateway())
    }
}

/// The rule for several tools with the same name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum NameCollision {
    /// The tool defined last wins: a config may override an earlier one.
    #[default]
    LastWins,
    /// The tool of the backend that was added first wins: a new backend cannot take over a name.
    FirstWins,
}

/// The catalog at one moment.
///
/// **Invariant:** snapshots share their sources, so a per-owner snapshot costs only what differs.
#[derive(Debug, Clone, Default)]
pub struct CatalogSnapshot {
    /// By insertion order.
    sources: RedBlackTreeMapSync<u64, Arc<CatalogSource>>,
    /// The insertion order of each backend.
    orders: RedBlackTreeMapSync<BackendName, u64>,
    names: ToolNames,
    indexed: LazyIndex,
}

impl CatalogSnapshot {
    /// Adds or replaces a source. A replaced source keeps its position.
    #[must_use]
    pub fn with(&self, source: CatalogSource) -> Self {
        let mut next = self.clone();
        let families = [self.family_of(&source.backend), source.family().cloned()];
        next.insert(source);
        next.regroup_all(&families);
        next
    }

    fn insert(&mut self, source: CatalogSource) {
        let source = Arc::new(source);
        let order = match self.orders.get(&source.backend) {
            Some(order) => *order,
            None => self.sources.last().map_or(0, |(last, _)| last + 1),
        };
        let before = self.sources.get(&order).map(|source| source.entries()).unwrap_or_default();
        self.names.replace(order, before, source.entries());
        self.indexed = self.indexed.with(source.backend.clone(), Some(Arc::clone(&source)));
        self.orders.insert_mut(source.backend.clone(), order);
        self.sources.insert_mut(order, source);
    }

    fn family_of(&self, backend: &BackendName) -> Option<Arc<ServerFamily>> {
        self.source(backend.as_str()).and_then(|source| source.family().cloned())
    }

    fn regroup_all(&mut self, families: &[Option<Arc<ServerFamily>>]) {
        let names = families.iter().flatten().map(|family| family.name.as_str());
        for name in names.collect::<BTreeSet<_>>() {
            self.regroup(name);
        }
    }

    /// Adds or replaces several sources.
    #[must_use]
    pub fn with_all(&self, added: impl IntoIterator<Item = CatalogSource>) -> Self {
        added.into_iter().fold(self.clone(), |snapshot, source| snapshot.with(source))
    }

    /// Removes a backend. The names of its tools are remembered for error messages.
    #[must_use]
    pub fn without(&self, backend: &BackendName) -> Self {
        let mut next = self.clone();
        let family = self.family_of(backend);
        next.remove(backend);
        next.regroup_all(&[family]);
        next
    }

    fn remove(&mut self, backend: &BackendName) {
        let Some(order) = self.orders.get(backend).copied() else { return };
        let before = self.sources.get(&order).map(|source| source.entries()).unwrap_or_default();
        self.names.replace(order, before, &[]);
        self.indexed = self.indexed.with(backend.clone(), None);
        self.orders.remove_mut(backend);
        self.sources.remove_mut(&order);
    }

    /// Returns a snapshot without the sources that `shown` rejects, as if they had never been added.
    #[must_use]
    pub fn showing(&self, shown: impl Fn(&CatalogSource) -> bool) -> Self {
        let hidden = self.sources().filter(|source| !shown(source));
        let mut next = hidden.fold(self.clone(), |next, source| next.without(&source.backend));
        next.names.forget_former(|backend| {
            self.source(backend.as_str()).is_some_and(|source| !shown(source))
        });
        next
    }

    /// An empty snapshot with a collision rule.
    pub fn with_collisions(collision: NameCollision) -> Self {
        Self { names: ToolNames::with_collisions(collision), ..Self::default() }
    }

    /// Returns the backend that last offered a tool that has since been removed.
    pub fn former_backend(&self, name: &str) -> Option<&BackendName> {
        self.names.former_backend(name)
    }

    /// The prompts in the order of their sources.
    pub fn prompts(&self) -> impl Iterator<Item = &CatalogItem> {
        self.sources().flat_map(|source| &source.prompts)
    }

    /// The resources in the order of their sources. If several have the same URI, only the first is included.
    pub fn resources(&self) -> impl Iterator<Item = &CatalogItem> {
        let mut seen = BTreeSet::new();
        let all = self.sources().flat_map(|source| &source.resources);
        all.filter(move |resource| seen.insert(&resource.name))
    }

    /// The resource templates in the order of their sources.
    pub fn templates(&self) -> impl Iterator<Item = &CatalogItem> {
        self.sources().flat_map(|source| &source.templates)
    }

    /// The backend of a URI: the one that lists it, else one with a matching template.
    pub fn resource_backend(&self, uri: &str) -> Option<&BackendName> {
        let listed = self.resources().find(|resource| *resource.name == *uri);
        let by_template =
            || self.templates().find(|template| template::matches(&template.name, uri));
        listed.or_else(by_template).map(|found| &found.backend)
    }

    /// The sources in insertion order.
    pub fn sources(&self) -> impl Iterator<Item = &CatalogSource> {
        self.sources.values().map(|source| &**source)
    }

    /// The source of a backend.
    pub fn source(&self, backend: &str) -> Option<&CatalogSource> {
        self.sources.get(self.orders.get(backend)?).map(|source| &**source)
    }

    /// The tool with this name, or with `prefix_server_tool` where the server's name is merged with the
    /// beginning of the tool's.
    pub fn get(&self, name: &str) -> Option<&Arc<ToolEntry>> {
        self.names.get(name).or_else(|| {
            name::merged(name).find_map(|(merged, local)| {
                let is_local = |entry: &&Arc<ToolEntry>| *entry.local_name == *local;
                self.names.get(&merged).filter(is_local)
            })
        })
    }

    /// The number of callable tools.
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// Whether there is no callable tool.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The callable tools in source order, without those that lost a name collision.
    pub fn callable(&self) -> impl Iterator<Item = (&CatalogSource, &Arc<ToolEntry>)> {
        self.sources()
            .flat_map(|source| source.entries.iter().map(move |entry| (source, entry)))
            .filter(|(_, entry)| self.is_callable(entry))
    }

    /// The callable tools, each at the position where its name first occurs.
    pub fn by_first_definition(&self) -> Vec<&Arc<ToolEntry>> {
        let mut seen = BTreeSet::new();
        self.sources()
            .flat_map(|source| &source.entries)
            .filter(|entry| seen.insert(&entry.name))
            .filter_map(|entry| self.get(entry.name.as_str()))
            .collect()
    }

    /// The callable tools, sorted by name.
    pub fn sorted(&self) -> impl Iterator<Item = &Arc<ToolEntry>> {
        self.names.winners()
    }

    /// Tool names similar to `name` among those that `shown` accepts.
    pub fn similar(&self, name: &str, shown: impl Fn(&ToolEntry) -> bool) -> Vec<ToolName> {
        let similar = |name: &str| {
            let shown = self.sorted().filter(|entry| shown(entry));
            suggest::similar(name, shown.map(|entry| entry.name.as_str()))
        };
        let mut found = similar(name);
        if found.is_empty()
            && let Some((merged, _)) = name::merged(name).next()
        {
            found = similar(&merged);
        }
        found.into_iter().map(ToolName::new).collect()
    }

    fn is_callable(&self, entry: &Arc<ToolEntry>) -> bool {
        self.names.is_callable(entry)
    }
}

#[cfg(test)]
mod tests;
