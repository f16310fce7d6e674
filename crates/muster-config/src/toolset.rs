//! Toolset files: named selections of tools.

pub mod fields;

use muster_core::{
    glob::{CaseSensitivity, Glob},
    name::check_resource_name,
    policy::toolset::{ToolPattern, Toolset},
};

use self::fields::SPEC;
use super::{
    LoadError, Loaded,
    policy::{BROKEN_PATTERN, effect},
    reader::{Reader, load_unique},
    resource::{self, Resource, ResourceFormat, SpecNode, resource_format},
};
use crate::yaml::Node;

/// The file format.
pub static FORMAT: ResourceFormat =
    resource_format!("Toolset", &SPEC, &["servers", "tools", "tags", "effect", "pinned"]);

/// A toolset and its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedToolset {
    /// Its name.
    pub name: String,
    /// The tools in it.
    pub toolset: Toolset,
}

/// Reads a file. A toolset without a name gets that of its file, without the extension.
pub fn parse(text: &str, file_name: &str) -> Result<Loaded<NamedToolset>, LoadError> {
    load_unique(text, |reader, node| {
        let Resource { name, spec, .. } =
            resource::read(reader, node, &FORMAT, file_name, read_spec)?;
        match check_resource_name(&name) {
            Ok(()) => Some(NamedToolset { name, toolset: spec }),
            Err(invalid) => reader.refuse(node, invalid.to_string(), None),
        }
    })
}

fn read_spec(reader: &mut Reader, source: SpecNode<'_>) -> Option<Toolset> {
    let fields = source.fields(reader)?;
    let description = reader.nullable(&fields, "description", Reader::text);
    let servers =
        reader.optional(&fields, "servers", Vec::new(), |reader, node| reader.list(node, glob));
    let tools = reader
        .optional(&fields, "tools", Vec::new(), |reader, node| reader.list(node, tool_pattern));
    let tags = reader
        .optional(&fields, "tags", Vec::new(), |reader, node| reader.list(node, Reader::text));
    let most = reader.nullable(&fields, "effect", effect);
    let pinned = reader
        .optional(&fields, "pinned", Vec::new(), |reader, node| reader.list(node, tool_pattern));
    Some(Toolset {
        description: description?.0.unwrap_or_default(),
        servers: servers?,
        tools: tools?,
        tags: tags?,
        effect: most?.0,
        pinned: pinned?,
    })
}

fn glob(reader: &mut Reader, node: &Node) -> Option<Glob> {
    let text = reader.text(node)?;
    match Glob::new(&text, CaseSensitivity::Sensitive) {
        Ok(glob) => Some(glob),
        Err(_) => reader.refuse(node, format!("`{text}` is not a pattern"), BROKEN_PATTERN),
    }
}

fn tool_pattern(reader: &mut Reader, node: &Node) -> Option<ToolPattern> {
    let glob = glob(reader, node)?;
    let text = node.as_text().unwrap_or_default();
    let names_core = text.starts_with("core_") || text.starts_with("core/");
    Some(ToolPattern { glob, with_server: text.contains('/'), names_core })
}

#[cfg(test)]
mod tests {
    use muster_core::effect::Effect;

    use super::parse;

    #[test]
    fn both_forms() {
        let short = parse("servers: [github]\neffect: read\n", "reading").unwrap().value;
        assert_eq!((short.name.as_str(), short.toolset.effect), ("reading", Some(Effect::Read)));
        let long = "kind: Toolset\nmetadata: {name: reading}\n\
                    spec: {servers: [github], effect: read}\n";
        assert_eq!(parse(long, "other").unwrap().value, short);
    }

    #[test]
    fn problems_name_the_field() {
        let error = parse("servers: ['[a']\n", "x").unwrap_err().to_string();
        assert!(error.contains("servers → 0: `[a` is not a pattern"), "{error}");
        let warned = parse("server: [a]\ntools: [b]\n", "x").unwrap();
        assert_eq!(warned.warnings.len(), 1);
    }

    #[test]
    fn only_patterns_that_begin_with_core_name_the_gateways_tools() {
        let set = parse("tools: ['*', 'core_*', 'core/core_stats', 'corex']\n", "x").unwrap().value;
        let core: Vec<bool> = set.toolset.tools.iter().map(|tool| tool.names_core).collect();
        assert_eq!(core, [false, true, true, false]);
    }
}
