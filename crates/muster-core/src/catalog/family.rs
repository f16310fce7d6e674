//! Server families: equal tools of several servers, offered as one tool with an argument that selects the server.
//!
//! A tool is grouped only if all servers of the family that have it describe it identically, and none has an argument
//! with the selector's name. All other tools keep the names of their servers.

use std::{collections::BTreeMap, sync::Arc};

use serde_json::{Value, json, value::RawValue};

use super::{BackendInfo, CatalogSnapshot, CatalogSource, Offer, ToolEntry};
use crate::{
    effect::Effect,
    json::{Raw, RawObject, raw},
    name::{BackendName, ToolName, exposed_name},
};

/// The family that a server belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerFamily {
    /// Its name, which is part of the names of its tools.
    pub name: String,
    /// The argument that selects the server.
    pub instance_arg: String,
    /// The gateway's prefix for tool names.
    pub prefix: String,
}

/// The membership of a source in a family.
#[derive(Debug, Clone)]
pub(super) struct FamilyMember {
    family: Arc<ServerFamily>,
    /// All its tools under its own names.
    own: Vec<Arc<ToolEntry>>,
    /// Those that the family offers, under the family's names.
    grouped: Vec<Arc<ToolEntry>>,
}

/// The tool of the selected server and its arguments, or an error message for the caller.
pub type FamilyCall = Result<(Arc<ToolEntry>, Raw), String>;

/// How a family's tool calls are routed to a server.
#[derive(Debug, Clone)]
pub(super) struct FamilyRoute {
    instance_arg: String,
    members: Vec<BackendName>,
}

impl CatalogSource {
    /// The source as a member of a family.
    #[must_use]
    pub fn in_family(mut self, family: ServerFamily) -> Self {
        let own = self.entries.clone();
        self.member = Some(FamilyMember { family: Arc::new(family), own, grouped: Vec::new() });
        self
    }

    /// All its tools under its own names, including those that a family offers.
    pub fn own_tools(&self) -> &[Arc<ToolEntry>] {
        self.member.as_ref().map_or(&self.entries, |member| &member.own)
    }

    /// Its tools that a family offers, under the family's names.
    pub fn grouped_tools(&self) -> &[Arc<ToolEntry>] {
        self.member.as_ref().map_or(&[], |member| &member.grouped)
    }

    pub(super) fn family(&self) -> Option<&Arc<ServerFamily>> {
        self.member.as_ref().map(|member| &member.family)
    }

    /// The servers of the family that it stands for; empty if it is not a family.
    pub fn family_members(&self) -> &[BackendName] {
        self.route.as_ref().map_or(&[], |route| &route.members)
    }

    /// Returns this member with the tools in `merged` moved to the family; `None` if nothing changes.
    fn regrouped(&self, merged: &BTreeMap<Arc<str>, ToolName>) -> Option<Self> {
        let member = self.member.as_ref()?;
        let (mut grouped, mut entries) = (Vec::new(), Vec::new());
        for entry in &member.own {
            match merged.get(&entry.local_name) {
                Some(name) => grouped
                    .push(Arc::new(ToolEntry { name: name.clone(), ..ToolEntry::clone(entry) })),
                None => entries.push(Arc::clone(entry)),
            }
        }
        let names = |tools: &[Arc<ToolEntry>]| -> Vec<ToolName> {
            tools.iter().map(|entry| entry.name.clone()).collect()
        };
        if names(&grouped) == names(&member.grouped) && entries.len() == self.entries.len() {
            return None;
        }
        let member = FamilyMember { grouped, ..member.clone() };
        let mut next = Self { member: Some(member), ..self.clone() };
        next.set_entries(entries);
        Some(next)
    }
}

impl CatalogSnapshot {
    /// Regroups the tools of one family.
    pub(super) fn regroup(&mut self, family: &str) {
        let of_family =
            |source: &&Arc<CatalogSource>| source.family().is_some_and(|own| own.name == family);
        let mut members: Vec<Arc<CatalogSource>> =
            self.sources.values().filter(of_family).cloned().collect();
        members.sort_by(|one, other| one.backend.cmp(&other.backend));
        let merged = merged(&members);
        let names = merged.iter().map(|tool| (Arc::clone(&tool.local_name), tool.name.clone()));
        let names: BTreeMap<Arc<str>, ToolName> = names.collect();
        for next in members.iter().filter_map(|member| member.regrouped(&names)) {
            self.insert(next);
        }
        let backend = backend_of(family);
        let instance_arg = members.first().and_then(|member| member.family());
        let Some(instance_arg) = instance_arg.filter(|_| !merged.is_empty()) else {
            return self.remove(&backend);
        };
        let servers: Vec<&str> = members.iter().map(|member| member.backend.as_str()).collect();
        let info = BackendInfo {
            title: family.into(),
            description: format!("The servers {}", servers.join(", ")).into(),
            category: None,
            tags: Arc::default(),
        };
        let offer = Offer { tools: merged, ..Offer::default() };
        let mut source = CatalogSource::new(backend, info, offer);
        source.route = Some(FamilyRoute {
            instance_arg: instance_arg.instance_arg.clone(),
            members: members.iter().map(|member| member.backend.clone()).collect(),
        });
        self.insert(source);
    }

    /// The tool of the server that the arguments of a family's tool select, and the arguments without the
    /// selector. `None` if the tool is not a family's.
    pub fn instance(&self, entry: &ToolEntry, arguments: &RawValue) -> Option<FamilyCall> {
        let route = self.source(entry.backend.as_str())?.route.as_ref()?;
        let tool = &entry.name;
        let mut found: Vec<&Arc<ToolEntry>> = Vec::new();
        for member in &route.members {
            let tools = self.source(member.as_str()).map(CatalogSource::grouped_tools);
            found.extend(tools.unwrap_or_default().iter().find(|own| own.name == *tool));
        }
        let servers = || {
            let names: Vec<&str> = found.iter().map(|own| own.backend.as_str()).collect();
            names.join(", ")
        };
        let argument = &route.instance_arg;
        let mut given = RawObject::parse(arguments).unwrap_or_default();
        let Some(wanted) = given.get_text(argument).filter(|wanted| !wanted.is_empty()) else {
            return Some(Err(format!(
                "tool {tool} is provided by a family on servers {}; the \"{argument}\" parameter is \
                 required",
                servers()
            )));
        };
        let Some(own) = found.iter().find(|own| own.backend.as_str() == wanted) else {
            return Some(Err(format!(
                "tool {tool} is not available on server {wanted:?} (available: {})",
                servers()
            )));
        };
        given.remove(argument);
        Some(Ok((Arc::clone(own), given.to_raw())))
    }
}

/// The backend of a family. A server cannot have its name, because of the slash.
fn backend_of(family: &str) -> BackendName {
    BackendName::new(format!("family/{family}"))
}

/// The tools that a family offers, by name. The members are sorted.
fn merged(members: &[Arc<CatalogSource>]) -> Vec<ToolEntry> {
    let Some(family) = members.first().and_then(|member| member.family()) else {
        return Vec::new();
    };
    let differs = |member: &Arc<CatalogSource>| {
        member.family().is_none_or(|own| own.instance_arg != family.instance_arg)
    };
    if members.iter().any(differs) {
        return Vec::new();
    }
    let mut tools: BTreeMap<&str, Vec<&Arc<ToolEntry>>> = BTreeMap::new();
    for member in members {
        for entry in member.own_tools() {
            let providers = tools.entry(&entry.local_name).or_default();
            // A server that lists a name twice provides it once.
            if providers.last().is_none_or(|last| last.backend != entry.backend) {
                providers.push(entry);
            }
        }
    }
    tools.into_values().filter_map(|providers| group(family, &providers)).collect()
}

/// One tool for all providers; `None` if they cannot be one.
fn group(family: &ServerFamily, providers: &[&Arc<ToolEntry>]) -> Option<ToolEntry> {
    let first = providers.first()?;
    let argument = family.instance_arg.as_str();
    let fits = |entry: &&Arc<ToolEntry>| {
        entry.description == first.description
            && schema(entry).get("properties").is_none_or(|known| known.get(argument).is_none())
    };
    if !providers.iter().all(fits) {
        return None;
    }
    let servers: Vec<&str> = providers.iter().map(|entry| entry.backend.as_str()).collect();
    let words = first.description.rsplit_once(TRAILER).filter(|(_, rest)| rest.ends_with(')'));
    let words = words.map_or(&*first.description, |(words, _)| words);
    let description = format!("{words}{TRAILER}{})", servers.join(", "));
    let schema = raw(&with_selector(schema(first), argument, &servers));
    let definition =
        first.definition.as_deref().and_then(RawObject::parse).map(|mut definition| {
            definition.set_value("description", &description);
            definition.set("inputSchema", std::borrow::Cow::Borrowed(&*schema));
            definition.to_raw().into()
        });
    Some(ToolEntry {
        name: ToolName::new(exposed_name(&family.prefix, &family.name, &first.local_name)),
        backend: backend_of(&family.name),
        local_name: Arc::clone(&first.local_name),
        description: description.as_str().into(),
        input_schema: schema.into(),
        params: None,
        definition,
        // If providers disagree, the worst effect counts.
        effect: providers.iter().map(|entry| Effect::of(entry)).max(),
        validator: Arc::default(),
        audience: first.audience,
    })
}

/// Begins the list of servers at the end of a family tool's description.
const TRAILER: &str = " (available on servers: ";

fn schema(entry: &ToolEntry) -> Value {
    let schema = serde_json::from_str(entry.input_schema.get()).unwrap_or_default();
    if matches!(schema, Value::Object(_)) { schema } else { json!({"type": "object"}) }
}

/// A schema with the required argument that selects a server.
fn with_selector(mut schema: Value, argument: &str, servers: &[&str]) -> Value {
    let selector = json!({
        "type": "string",
        "description": format!("The server: one of {}", servers.join(", ")),
        "enum": servers,
    });
    let Value::Object(members) = &mut schema else { return schema };
    let properties = members.entry("properties").or_insert_with(|| json!({}));
    if !properties.is_object() {
        *properties = json!({});
    }
    if let Value::Object(properties) = properties {
        properties.insert(argument.to_owned(), selector);
    }
    let required = members.entry("required").or_insert_with(|| json!([]));
    if !required.is_array() {
        *required = json!([]);
    }
    if let Value::Array(required) = required {
        required.push(argument.into());
    }
    schema
}

#[cfg(test)]
mod tests;
