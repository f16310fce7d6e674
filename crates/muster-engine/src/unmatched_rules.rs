//! Policy rules that match no tool or argument, reported to their author.

use std::collections::{BTreeMap, BTreeSet};

use muster_config::mcpserver::McpServer;
use muster_core::{catalog::CatalogSnapshot, connect::ServerListing};
use muster_workflow::is_assumed_available;

use crate::{
    cli_offer::{self, BundledCli},
    core_tools,
    reconcile::cli_source,
    server_offer,
    store::{FileProblem, Files, Severity},
    workflows,
};

/// The unmatched rules. A missing tool is not reported if it `may_come` once its server connects.
pub(crate) fn problems(
    files: &Files,
    catalog: &CatalogSnapshot,
    may_come: impl Fn(&str) -> bool,
) -> Vec<FileProblem> {
    let mut problems = Vec::new();
    for (path, file) in &files.policies {
        let Some(policy) = &file.policy else { continue };
        let unmatched = policy.unmatched_rules(catalog);
        let sure = unmatched.iter().filter(|rule| rule.argument.is_some() || !may_come(&rule.tool));
        problems.extend(sure.map(|rule| FileProblem {
            path: path.clone(),
            line: None,
            message: format!("{}: {}", rule.path().join(" → "), rule.message()),
            fix: rule.fix(),
            severity: Severity::Warning,
        }));
        let toolsets = policy.callers.iter().enumerate();
        let toolsets = toolsets.filter_map(|(at, grant)| Some((at, grant.toolset.as_deref()?)));
        let missing = toolsets.filter(|(_, name)| !files.toolsets.contains_key(*name));
        problems.extend(missing.map(|(at, name)| FileProblem {
            path: path.clone(),
            line: None,
            message: format!("callers → {at} → toolset: there is no toolset `{name}`"),
            fix: Some(format!("add `toolsets/{name}.yaml`")),
            severity: Severity::Warning,
        }));
    }
    problems
}

/// The unmatched rules without a running gateway, according to the listings of servers that could be connected.
pub fn examined(
    files: &Files,
    bundled: &[BundledCli],
    listings: &BTreeMap<String, ServerListing>,
) -> Vec<FileProblem> {
    let catalog = catalog(files, bundled, listings);
    problems(files, &catalog, |tool| is_awaited(files, listings, tool))
}

/// The steps of workflows that name tools which do not exist, without a running gateway.
pub fn missing_tools(
    files: &Files,
    bundled: &[BundledCli],
    listings: &BTreeMap<String, ServerListing>,
) -> Vec<FileProblem> {
    let catalog = catalog(files, bundled, listings);
    let mut problems = Vec::new();
    for file in files.workflows.values() {
        let tools: BTreeSet<&str> = file.workflow.tools().collect();
        let missing = tools.into_iter().filter(|tool| {
            !is_assumed_available(tool)
                && catalog.get(tool).is_none()
                && !may_be_awaited(files, listings, tool)
        });
        problems.extend(missing.map(|tool| {
            let near = catalog.similar(tool, |_| true);
            let fix = near.first().map(|near| format!("did you mean `{near}`?"));
            FileProblem {
                path: file.path.clone(),
                line: None,
                message: format!("there is no tool `{tool}`: the workflow is not available"),
                fix: fix.or_else(|| Some("find the name with `muster search`".to_owned())),
                severity: Severity::Warning,
            }
        }));
    }
    problems
}

/// The tools of the files and of the servers that could be connected.
fn catalog(
    files: &Files,
    bundled: &[BundledCli],
    listings: &BTreeMap<String, ServerListing>,
) -> CatalogSnapshot {
    let prefix = files.settings.aggregator.prefix();
    let clis = cli_offer::offered(files, bundled, |_| true);
    let clis = clis.iter().map(|(name, config)| cli_source(name, config));
    let heard = files.servers.values().filter_map(|file| {
        let listing = listings.get(&file.server.name)?;
        Some(server_offer::source(prefix, &file.server, listing))
    });
    let definitions = files.definitions();
    let ours = [core_tools::source(), workflows::source(&definitions)];
    CatalogSnapshot::default().with_all(ours.into_iter().chain(clis).chain(heard))
}

/// Whether a step's tool may belong to a server that could not be connected. Steps name tools in full, so the prefix
/// tells.
fn may_be_awaited(files: &Files, listings: &BTreeMap<String, ServerListing>, tool: &str) -> bool {
    let prefix = files.settings.aggregator.prefix();
    if !tool.starts_with(&format!("{prefix}_")) {
        return is_awaited(files, listings, tool);
    }
    let away = files.servers.values().filter(|file| !listings.contains_key(&file.server.name));
    away.into_iter().any(|file| tool.starts_with(&format!("{prefix}_{}_", file.server.prefix())))
}

/// Whether a missing tool may belong to a server that could not be connected.
fn is_awaited(files: &Files, listings: &BTreeMap<String, ServerListing>, tool: &str) -> bool {
    let (there, away): (Vec<&McpServer>, Vec<&McpServer>) = files
        .servers
        .values()
        .map(|file| &*file.server)
        .partition(|server| listings.contains_key(&server.name));
    may_come(files.settings.aggregator.prefix(), tool, &there, &away)
}

/// Whether a missing tool may belong to a server that is not connected.
pub(crate) fn may_come(
    prefix: &str,
    tool: &str,
    there: &[&McpServer],
    away: &[&McpServer],
) -> bool {
    let theirs = |server: &&McpServer| tool.starts_with(&format!("{prefix}_{}_", server.prefix()));
    // A name without a prefix may belong to any server.
    away.iter().any(theirs) || (!away.is_empty() && !there.iter().any(theirs))
}
