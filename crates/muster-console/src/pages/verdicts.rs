//! Verdicts: servers that are down or need an action, invalid files, and settings that admit too many callers.

use muster_api::{
    config::{ConfigInfo, ConfigProblem, ConfigValue},
    mcp_server::McpServerInfo,
    state::ServerState,
};
use serde::Serialize;

use crate::{
    html::{Element, el},
    page::form,
    request::link,
    widgets::prose,
};

/// The maximum number of verdicts on the page. The JSON form has all.
const MAX_SHOWN: usize = 20;

/// Something that needs attention.
#[derive(Debug, Serialize)]
pub(super) struct Verdict {
    pub(super) severity: Severity,
    /// The server, setting or file.
    subject: String,
    message: String,
    /// The command or the change that fixes it.
    fix: String,
    /// The page of the server.
    #[serde(skip_serializing_if = "Option::is_none")]
    page: Option<String>,
    /// The path that a button posts to, and its label.
    #[serde(skip)]
    action: Option<(String, &'static str)>,
}

/// The severity of a verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Severity {
    Bad,
    Warning,
}

/// The verdicts about settings, servers and files, the worst first.
pub(super) fn of(
    servers: &[McpServerInfo],
    config: &ConfigInfo,
    problems: &[ConfigProblem],
) -> Vec<Verdict> {
    let mut verdicts = of_access(config);
    verdicts.extend(servers.iter().filter_map(of_server));
    verdicts.extend(problems.iter().map(of_file));
    verdicts.sort_by_key(|verdict| verdict.severity != Severity::Bad);
    verdicts
}

/// The verdict about a problem in a file. It needs no button, because the gateway notices when the file is fixed.
fn of_file(problem: &ConfigProblem) -> Verdict {
    let name = problem.file.rsplit('/').take(2).collect::<Vec<_>>();
    let name = name.into_iter().rev().collect::<Vec<_>>().join("/");
    Verdict {
        severity: if problem.error { Severity::Bad } else { Severity::Warning },
        subject: match problem.line {
            Some(line) => format!("{name}:{line}"),
            None => name,
        },
        message: problem.message.clone(),
        fix: match problem.fix.as_str() {
            "" => format!("edit {}", problem.file),
            fix => fix.to_owned(),
        },
        page: None,
        action: None,
    }
}

fn of_server(server: &McpServerInfo) -> Option<Verdict> {
    let name = &server.name;
    let (severity, command, action) = match server.state {
        ServerState::Failed => {
            (Severity::Bad, "muster restart mcpserver", Some(("restart", "Restart")))
        }
        ServerState::AuthRequired => {
            (Severity::Warning, "muster auth login --server", Some(("login", "Log in")))
        }
        ServerState::AwaitingApproval => {
            (Severity::Warning, "muster approve mcpserver", Some(("approve", "Approve")))
        }
        _ if server.call_failures > 0 => {
            (Severity::Bad, "muster restart mcpserver", Some(("restart", "Restart")))
        }
        _ => return None,
    };
    let texts = [&server.error, &server.status_message];
    let message = texts.into_iter().map(String::as_str).find(|text| !text.is_empty());
    let message = message.unwrap_or(server.state.as_str());
    Some(Verdict {
        severity,
        subject: name.clone(),
        message: message.lines().next().unwrap_or_default().to_owned(),
        fix: format!("{command} {}", super::quoted(name)),
        page: Some(link(&["servers", name])),
        action: action.map(|(action, label)| (link(&["servers", name, action]), label)),
    })
}

fn of_access(config: &ConfigInfo) -> Vec<Verdict> {
    let Some(ConfigValue::Section(access)) = config.settings.get("Access") else {
        return Vec::new();
    };
    let is = |name: &str, value: serde_json::Value| matches!(access.settings.get(name), Some(ConfigValue::Value(found)) if *found == value);
    let verdict = |severity, subject: &str, message: &str, fix: &str| Verdict {
        severity,
        subject: subject.to_owned(),
        message: message.to_owned(),
        fix: fix.to_owned(),
        page: Some(link(&["settings"])),
        action: None,
    };
    let mut verdicts = Vec::new();
    if is("Mode", "open".into()) {
        let message =
            "every process on this machine may change the gateway, and so run programs as its user";
        let fix = "remove `access.mode: open` from config.yaml";
        verdicts.push(verdict(Severity::Warning, "access.mode", message, fix));
    }
    if is("InsecureBind", true.into()) {
        let message = "anyone who reaches the address of the gateway may call tools";
        let fix = "require logins or tokens, and remove `access.insecureBind` from config.yaml";
        verdicts.push(verdict(Severity::Bad, "access.insecureBind", message, fix));
    }
    verdicts
}

/// Renders verdicts.
pub(super) fn element(form_token: Option<&str>, verdicts: &[Verdict]) -> Element {
    if verdicts.is_empty() {
        return el("div").class("notice ok").put(el("strong").put("Everything works."));
    }
    let shown = verdicts.iter().take(MAX_SHOWN).map(|verdict| {
        let class = match verdict.severity {
            Severity::Bad => "notice bad",
            Severity::Warning => "notice warn",
        };
        let subject = match &verdict.page {
            Some(page) => el("a").attr("href", page).put(&verdict.subject),
            None => el("span").put(&verdict.subject),
        };
        let button = verdict
            .action
            .as_ref()
            .map(|(action, label)| form(action, form_token).put(el("button").put(*label)));
        let cure =
            el("div").class("row").put(button).put(el("code").class("muted").put(&verdict.fix));
        el("div")
            .class(class)
            .put(el("strong").put(subject))
            .put(el("p").put(prose(&verdict.message)))
            .put(cure)
    });
    let title = match verdicts.len() {
        1 => "One thing needs attention".to_owned(),
        count => format!("{count} things need attention"),
    };
    let more = verdicts.len().saturating_sub(MAX_SHOWN);
    let more = (more > 0)
        .then(|| el("p").put(prose(&format!("and {more} more: `muster doctor` shows them all"))));
    el("div").put(el("h2").class("first").put(title)).put(shown.collect::<Vec<_>>()).put(more)
}

#[cfg(test)]
mod tests {
    use muster_api::{
        config::{ConfigInfo, ConfigProblem},
        mcp_server::McpServerInfo,
    };
    use serde_json::json;

    use super::{MAX_SHOWN, ServerState, Severity, element, of};
    use crate::html::Html;

    #[test]
    fn what_is_broken_comes_first() {
        let server = |name: &str, state: ServerState, error: &str| McpServerInfo {
            name: name.to_owned(),
            state,
            error: error.to_owned(),
            ..McpServerInfo::default()
        };
        let servers = [
            server("fine", ServerState::Running, ""),
            server("new", ServerState::AwaitingApproval, ""),
            server("off", ServerState::Stopped, ""),
            server("my db", ServerState::Failed, "no such program\nand more"),
        ];
        let config: ConfigInfo =
            serde_json::from_value(json!({"Access": {"Mode": "open", "InsecureBind": false}}))
                .unwrap();
        let problem = ConfigProblem {
            file: "/etc/muster/policies/main.yaml".to_owned(),
            line: Some(3),
            message: "tools → x: there is no such tool".to_owned(),
            ..ConfigProblem::default()
        };
        let verdicts = of(&servers, &config, &[problem]);
        let seen: Vec<_> = verdicts
            .iter()
            .map(|one| (one.severity, one.subject.as_str(), one.message.as_str(), one.fix.as_str()))
            .collect();
        assert_eq!(
            seen.first().unwrap(),
            &(Severity::Bad, "my db", "no such program", "muster restart mcpserver 'my db'")
        );
        assert_eq!(
            seen.get(2).unwrap(),
            &(Severity::Warning, "new", "Awaiting Approval", "muster approve mcpserver new")
        );
        let subjects: Vec<_> = seen.iter().map(|one| one.1).collect();
        assert_eq!(subjects, ["my db", "access.mode", "new", "policies/main.yaml:3"]);
    }

    #[test]
    fn an_error_is_not_hidden_by_many_warnings() {
        let problem = |file: &str, error: bool| ConfigProblem {
            file: file.to_owned(),
            error,
            ..ConfigProblem::default()
        };
        let mut problems = vec![problem("/x/mcpservers/a.yaml", false); 2 * MAX_SHOWN];
        problems.push(problem("/x/policies/z.yaml", true));
        let verdicts = of(&[], &ConfigInfo::default(), &problems);
        assert_eq!(verdicts.first().unwrap().subject, "policies/z.yaml");
        let html = Html::from(element(None, &verdicts)).into_string();
        assert!(html.contains("41 things need attention"), "{html}");
        assert!(html.contains("policies/z.yaml"), "{html}");
        assert!(html.contains("and 21 more: <code>muster doctor</code>"), "{html}");
    }
}
