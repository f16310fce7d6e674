//! Explains why the tools that a workflow or a service class needs cannot be called, and what to do.

use std::sync::Arc;

use muster_api::{MissingTool, UnavailableServer};
use muster_core::{
    call::{Call, Caller, Checking, Role},
    json::RawObject,
    name::ToolName,
    next_step::NextStep,
    policy::explain::Decision,
    text,
};
use muster_gateway::dispatch::GatewaySnapshot;

/// The number of tools and servers that an explanation names.
const MOST: usize = 5;

/// Why one tool cannot be called, and what to do; `None` if there is no such tool.
pub(crate) fn reason(state: &GatewaySnapshot, tool: &str) -> Option<(String, String)> {
    switched_off(state, tool).or_else(|| absent(state, state, tool))
}

fn switched_off(state: &GatewaySnapshot, tool: &str) -> Option<(String, String)> {
    let cli = state.switched_off.get(tool)?;
    let hint = format!("an operator can enable it with `muster enable cli {cli}`");
    Some(("it is switched off".to_owned(), hint))
}

/// Why the servers of a tool are down, and what a caller with the view `state` can do.
fn absent(
    whole: &GatewaySnapshot,
    state: &GatewaySnapshot,
    tool: &str,
) -> Option<(String, String)> {
    let absent = whole.absent_servers_of(tool);
    let states: Vec<String> = absent.iter().map(|absent| absent.in_words()).collect();
    let hint = absent.first()?.info(state).hint?;
    Some((states.join("; "), hint))
}

/// Explains to one caller why tools cannot be called.
///
/// **Invariant:** only operators learn that the policy hides a tool. To others a hidden tool is one that does not exist.
#[derive(Debug)]
pub(crate) struct Explainer<'a> {
    caller: &'a Caller,
    /// What the caller sees.
    state: Arc<GatewaySnapshot>,
    /// All that the caller may know of.
    whole: Arc<GatewaySnapshot>,
}

impl<'a> Explainer<'a> {
    /// Explains to a caller with the view `state` of the gateway's snapshot.
    pub(crate) fn new(
        caller: &'a Caller,
        state: Arc<GatewaySnapshot>,
        snapshot: Arc<GatewaySnapshot>,
    ) -> Self {
        let whole = match state.policy.role() {
            Role::Operator => snapshot,
            Role::Agent => Arc::clone(&state),
        };
        Self { caller, state, whole }
    }

    /// The servers of tools that cannot be called.
    pub(crate) fn servers(&self, missing: &[String]) -> Vec<UnavailableServer> {
        let mut servers: Vec<UnavailableServer> = Vec::new();
        for absent in missing.iter().flat_map(|tool| self.whole.absent_servers_of(tool)) {
            if !servers.iter().any(|known| known.server == absent.server.as_str()) {
                servers.push(absent.info(&self.state));
            }
        }
        servers
    }

    /// The reasons for the first tools that are missing for another one than their server.
    pub(crate) fn reasons(&self, missing: &[String]) -> Vec<MissingTool> {
        let others = missing.iter().filter(|tool| self.whole.absent_servers_of(tool).is_empty());
        let explained = others.take(MOST).map(|tool| {
            let (reason, hint) = switched_off(&self.state, tool)
                .or_else(|| self.hidden(tool))
                .unwrap_or_else(|| self.unknown(tool));
            MissingTool { tool: tool.clone(), reason, hint }
        });
        explained.collect()
    }

    /// A line for each tool, and the hints.
    pub(crate) fn in_words(&self, missing: &[String]) -> String {
        let why = |tool: &String| match self.reason(tool) {
            Some((why, _)) => format!("{tool}: {why}"),
            None => format!("{tool}: there is no such tool"),
        };
        let mut lines: Vec<String> = missing.iter().take(MOST).map(why).collect();
        if missing.len() > MOST {
            lines.push(format!("and {} more", missing.len() - MOST));
        }
        lines.extend(self.hints(missing));
        if missing.iter().take(MOST).any(|tool| self.reason(tool).is_none()) {
            lines.push(format!("hint: find its name with {}", NextStep::FindTool));
        }
        lines.join("\n")
    }

    /// What to do about the tools whose reason is known.
    pub(crate) fn hints(&self, missing: &[String]) -> Vec<String> {
        let mut hints: Vec<String> = Vec::new();
        for (_, hint) in missing.iter().take(MOST).filter_map(|tool| self.reason(tool)) {
            let hint = format!("hint: {hint}");
            if !hints.contains(&hint) {
                hints.push(hint);
            }
        }
        hints
    }

    fn reason(&self, tool: &str) -> Option<(String, String)> {
        switched_off(&self.state, tool)
            .or_else(|| self.hidden(tool))
            .or_else(|| absent(&self.whole, &self.state, tool))
    }

    /// By which part of the policy the caller cannot see a tool that exists.
    fn hidden(&self, tool: &str) -> Option<(String, String)> {
        let GatewaySnapshot { catalog, policy, .. } = &*self.whole;
        catalog.get(tool)?;
        let nothing = RawObject::new().to_raw();
        let call = Call::new(ToolName::new(tool), nothing, Checking::Strict);
        let found = policy.explain(catalog, self.caller, call);
        let reason = match found.decision {
            Decision::Hidden => {
                let rules = found.rules.join("`, `");
                format!("the policy hides it from you: {} (`{rules}`)", found.reason)
            }
            // The tools of service classes are those that every caller may use.
            _ => "the policy lets only some callers use it".to_owned(),
        };
        let word = text::shell_quoted(tool);
        let hint = format!(
            "add a rule for {tool} to a file in `policies/`; `muster policy check {word}` names the rule that decides"
        );
        Some((reason, hint))
    }

    fn unknown(&self, tool: &str) -> (String, String) {
        let GatewaySnapshot { catalog, policy, .. } = &*self.state;
        let near = catalog.similar(tool, |entry| policy.shows(entry));
        let hint = match near.first() {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("find its name with {}", NextStep::FindTool),
        };
        ("there is no such tool".to_owned(), hint)
    }
}
