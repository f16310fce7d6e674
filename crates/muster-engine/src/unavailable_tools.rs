//! Explains why the tools that a workflow or a service class needs cannot be called, and what to do.

use muster_api::UnavailableServer;
use muster_core::next_step::NextStep;
use muster_gateway::dispatch::GatewaySnapshot;

/// The number of tools and servers that an explanation names.
const MOST: usize = 5;

/// The servers of tools that cannot be called.
pub(crate) fn servers(state: &GatewaySnapshot, missing: &[String]) -> Vec<UnavailableServer> {
    let mut servers: Vec<UnavailableServer> = Vec::new();
    for absent in missing.iter().flat_map(|tool| state.absent_servers_of(tool)) {
        if !servers.iter().any(|known| known.server == absent.server.as_str()) {
            servers.push(absent.info(state));
        }
    }
    servers
}

/// Why one tool cannot be called, and what to do; `None` if there is no such tool.
pub(crate) fn reason(state: &GatewaySnapshot, tool: &str) -> Option<(String, String)> {
    if let Some(cli) = state.switched_off.get(tool) {
        let hint = format!("an operator can enable it with `muster enable cli {cli}`");
        return Some(("it is switched off".to_owned(), hint));
    }
    let absent = state.absent_servers_of(tool);
    let states: Vec<String> = absent.iter().map(|absent| absent.in_words()).collect();
    let hint = absent.first()?.info(state).hint?;
    Some((states.join("; "), hint))
}

/// A line for each tool, and the hints.
pub(crate) fn explained(state: &GatewaySnapshot, missing: &[String]) -> String {
    let why = |tool: &String| match reason(state, tool) {
        Some((why, _)) => format!("{tool}: {why}"),
        None => format!("{tool}: there is no such tool"),
    };
    let mut lines: Vec<String> = missing.iter().take(MOST).map(why).collect();
    if missing.len() > MOST {
        lines.push(format!("and {} more", missing.len() - MOST));
    }
    lines.extend(hints(state, missing));
    if missing.iter().take(MOST).any(|tool| reason(state, tool).is_none()) {
        lines.push(format!("hint: find its name with {}", NextStep::FindTool));
    }
    lines.join("\n")
}

/// What to do about the tools whose reason is known.
pub(crate) fn hints(state: &GatewaySnapshot, missing: &[String]) -> Vec<String> {
    let mut hints: Vec<String> = Vec::new();
    for (_, hint) in missing.iter().take(MOST).filter_map(|tool| reason(state, tool)) {
        let hint = format!("hint: {hint}");
        if !hints.contains(&hint) {
            hints.push(hint);
        }
    }
    hints
}
