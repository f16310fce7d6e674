//! `core_policy_*`: the policy in effect, and its decision on a call.

use std::{path::Path, sync::Arc};

use muster_api::policy::{
    PolicyAnswer, PolicyEntryInfo, PolicyInfo, PolicyRuleInfo, ToolsetSummary,
};
use muster_config::kinds::DefinitionKind;
use muster_core::{
    call::{Call, Caller, Checking},
    caller_directory::CallerQuery,
    catalog::CatalogSnapshot,
    json::raw,
    name::ToolName,
    policy::{
        DestructiveTools, Policy,
        callers::{CallerGrant, Subjects},
        constraint::Constraint,
        explain::Decision,
        rules::Rules,
        toolset::Toolset,
    },
};
use serde_json::{Map, Value, json};

use super::{Args, CoreTool, Failure, ToolAudience, ToolReply, access, object};
use crate::handle::Handle;

pub(super) const TOOLS: &[CoreTool] = &[
    CoreTool {
        name: "core_policy_get",
        audience: ToolAudience::Operators,
        effect: None,
        summary: "Show the policy in effect, of all policy files together: rules, what some callers may use beyond them, \
                  and toolsets.",
        schema: || json!({"type": "object", "properties": {}}),
        run: |handle, _, _| Box::pin(std::future::ready(get(handle))),
    },
    CoreTool {
        name: "core_policy_check",
        audience: ToolAudience::Operators,
        effect: None,
        summary: "Ask whether a caller may call a tool with some arguments, without calling it. The reply names the rule \
                  that decides. Without user, groups, client and token the question is about a caller without a login.",
        schema: || {
            json!({"type": "object", "required": ["tool"], "properties": {
                "tool": {"type": "string", "description": "The tool, under the name that agents see"},
                "arguments": {"type": "object", "description": "The arguments of the call"},
                "user": {"type": "string", "description": "An email address, or a subject at the identity provider"},
                "groups": {"type": "array", "items": {"type": "string"}, "description": "The groups of the user"},
                "client": {"type": "string", "description": "The id of the OAuth client that the user logged in with"},
                "token": {"type": "string", "description": "The name of a static token"},
                "toolset": {"type": "string", "description": "The toolset that the caller's address names"},
                "operator": {"type": "boolean", "description": "Ask about an operator"},
            }})
        },
        run: |handle, _, args| Box::pin(check(handle, args)),
    },
];

#[expect(clippy::unnecessary_wraps, reason = "the signature of every tool")]
fn get(handle: &Handle) -> ToolReply {
    let policy = Arc::clone(&handle.state.borrow().policy);
    let places = [DefinitionKind::Policy, DefinitionKind::Toolset]
        .map(|kind| handle.store.definitions().place(kind));
    let is_policy = |path: &Path| places.iter().any(|place| path.starts_with(place));
    let view = handle.now();
    let problems = view.problems.iter().filter(|problem| is_policy(&problem.path));
    Ok(object(&PolicyInfo {
        problems: problems.map(ToString::to_string).collect(),
        ..described(&policy)
    }))
}

/// The policy for a listing.
fn described(policy: &Policy) -> PolicyInfo {
    PolicyInfo {
        default: Some(policy.default),
        effect: policy.max_effect,
        destructive_blocked: policy.destructive == DestructiveTools::Blocked,
        rules: rules(&policy.rules),
        callers: policy.callers.iter().enumerate().map(|(at, grant)| entry(at, grant)).collect(),
        toolsets: policy.toolsets.iter().map(|(name, set)| toolset(name, set)).collect(),
        problems: Vec::new(),
    }
}

fn rules(rules: &Rules) -> Vec<PolicyRuleInfo> {
    let rules = rules.iter().map(|(tool, rule)| PolicyRuleInfo {
        tool: tool.clone(),
        effect: rule.effect,
        limits: rule.args.iter().map(|(name, limit)| limit_text(name, limit)).collect(),
    });
    rules.collect()
}

fn limit_text(name: &str, limit: &Constraint) -> String {
    let pattern = limit.pattern.as_ref().map(|pattern| format!("matches {}", pattern.as_str()));
    let min = limit.min.map(|min| format!("at least {min}"));
    let max = limit.max.map(|max| format!("at most {max}"));
    let parts: Vec<String> = [pattern, min, max].into_iter().flatten().collect();
    format!("{name}: {}", parts.join(", "))
}

fn entry(at: usize, grant: &CallerGrant) -> PolicyEntryInfo {
    let Subjects { users, groups, clients, tokens, anonymous } = &grant.subjects;
    let mut subjects = Vec::new();
    subjects.extend(users.iter().map(|glob| format!("user {}", glob.as_str())));
    subjects.extend(groups.iter().map(|group| format!("group {group}")));
    subjects.extend(clients.iter().map(|glob| format!("client {}", glob.as_str())));
    subjects.extend(tokens.iter().map(|token| format!("token {token}")));
    subjects.extend(anonymous.then(|| "callers without a login".to_owned()));
    PolicyEntryInfo {
        path: entry_path(at),
        subjects,
        operator: grant.operator,
        default: grant.default,
        effect: grant.max_effect,
        toolset: grant.toolset.clone().unwrap_or_default(),
        rules: rules(&grant.rules),
    }
}

fn entry_path(at: usize) -> String {
    format!("callers[{at}]")
}

fn toolset(name: &str, set: &Toolset) -> ToolsetSummary {
    let servers = set.servers.iter().map(|glob| format!("server {}", glob.as_str()));
    let tools = set.tools.iter().map(|pattern| format!("tool {}", pattern.glob.as_str()));
    let tags = set.tags.iter().map(|tag| format!("tag {tag}"));
    let mut selects: Vec<String> = servers.chain(tools).chain(tags).collect();
    if selects.is_empty() {
        selects.push("every tool".to_owned());
    }
    ToolsetSummary {
        name: name.to_owned(),
        description: set.description.clone(),
        selects,
        effect: set.effect,
    }
}

async fn check(handle: &Handle, args: Args) -> ToolReply {
    let (caller, call) = question(handle, &args)?;
    let snapshot = Arc::clone(&handle.state.borrow());
    // Always on a blocking thread, because checking arguments may take long.
    let answer = tokio::task::spawn_blocking(move || {
        answer(&snapshot.policy, &snapshot.catalog, &caller, call)
    });
    let unreadable = handle.now().unreadable_policy.clone();
    match answer.await {
        Ok(answer) => Ok(object(&explained(answer, unreadable.as_deref()))),
        Err(error) => Err(format!("the question cannot be answered: {error}").into()),
    }
}

/// The answer, with the true reason while a policy cannot be read.
fn explained(answer: PolicyAnswer, unreadable: Option<&Path>) -> PolicyAnswer {
    match unreadable {
        Some(path) if !answer.allowed => PolicyAnswer {
            reason: format!(
                "policy `{}` cannot be read: all calls are refused until it is fixed",
                path.display()
            ),
            ..answer
        },
        Some(_) | None => answer,
    }
}

/// The caller and the call that a question is about.
fn question(handle: &Handle, args: &Args) -> Result<(Caller, Call), Failure> {
    let text = |name: &str| args.text(name).map(str::to_owned);
    let groups = args.any("groups").and_then(Value::as_array).map(Vec::as_slice);
    let groups = groups.unwrap_or_default().iter().filter_map(Value::as_str).map(str::to_owned);
    let query = CallerQuery {
        user: text("user"),
        groups: groups.collect(),
        client: text("client"),
        token: text("token"),
        toolset: text("toolset"),
        operator: args.flag("operator"),
    };
    let tool = args.text("tool").ok_or("tool is required")?;
    let none = Value::Object(Map::new());
    let arguments = match args.any("arguments") {
        None | Some(Value::Null) => raw(&none),
        Some(given) if given.is_object() => raw(given),
        Some(_) => return Err("`arguments` must be an object".into()),
    };
    let caller = access::directory(handle)?.caller(&query).map_err(access::refused)?;
    Ok((caller, Call::new(ToolName::new(tool), arguments, Checking::Strict)))
}

fn answer(policy: &Policy, catalog: &CatalogSnapshot, caller: &Caller, call: Call) -> PolicyAnswer {
    let tool = call.tool.to_string();
    let server = catalog.get(&tool).map(|entry| entry.backend.to_string()).unwrap_or_default();
    let found = policy.explain(catalog, caller, call);
    let principal = caller.principal.as_deref();
    let email = principal.and_then(|principal| principal.email.as_deref());
    PolicyAnswer {
        allowed: found.decision == Decision::Allowed,
        decision: Some(found.decision),
        reason: found.reason,
        rules: found.rules,
        problems: found.problems,
        tool,
        server,
        effect: found.effect,
        caller: match (&caller.token, email) {
            (Some(token), _) => format!("token {token}"),
            (None, Some(email)) => email.to_owned(),
            (None, None) => caller.subject.to_string(),
        },
        role: Some(found.role),
        toolset: caller.toolset.as_deref().unwrap_or_default().to_owned(),
        entries: found.entries.into_iter().map(entry_path).collect(),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use muster_api::policy::PolicyAnswer;

    use super::explained;

    #[test]
    fn while_a_policy_cannot_be_read_that_is_the_reason() {
        let answer = |allowed: bool| PolicyAnswer {
            allowed,
            reason: "no rule names it".to_owned(),
            ..PolicyAnswer::default()
        };
        let unreadable = Some(Path::new("policies/a.yaml"));
        let closed =
            "policy `policies/a.yaml` cannot be read: all calls are refused until it is fixed";
        for (allowed, unreadable, expected) in [
            (false, unreadable, closed),
            (false, None, "no rule names it"),
            (true, unreadable, "no rule names it"),
        ] {
            assert_eq!(explained(answer(allowed), unreadable).reason, expected);
        }
    }
}
