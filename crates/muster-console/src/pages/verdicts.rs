//! Verdicts: servers that are down or need an action, invalid files, and settings that admit too many callers.

use muster_api::{config::ConfigProblem, mcp_server::McpServerInfo, state::ServerState};
use serde::Serialize;

use crate::{
    SetupFinding,
    html::{Element, el},
    page::form,
    request::link,
    widgets::prose,
};

/// The maximum number of verdicts on the page. The JSON form has all.
const MAX_SHOWN: usize = 20;
/// The file of the settings.
const SETTINGS: &str = "config.yaml";

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

/// The verdicts about the setup, servers and files, the worst first.
pub(super) fn of(
    servers: &[McpServerInfo],
    findings: &[SetupFinding],
    problems: &[ConfigProblem],
) -> Vec<Verdict> {
    let mut verdicts: Vec<Verdict> = servers.iter().filter_map(of_server).collect();
    verdicts.extend(findings.iter().map(|finding| of_finding(finding, servers)));
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
    let message = message.unwrap_or(server.state.as_str()).lines().next().unwrap_or_default();
    // The command follows as the fix.
    let message = message.split_once(" - run: ").map_or(message, |(message, _)| message);
    Some(Verdict {
        severity,
        subject: name.clone(),
        message: message.to_owned(),
        fix: format!("{command} {}", super::quoted(name)),
        page: Some(link(&["servers", name])),
        action: action.map(|(action, label)| (link(&["servers", name, action]), label)),
    })
}

/// The verdict about a finding of a check. Its page is that of the server or of the settings, if it is about one.
fn of_finding(finding: &SetupFinding, servers: &[McpServerInfo]) -> Verdict {
    let SetupFinding { is_bad, subject, message, fix } = finding;
    let is_server = servers.iter().any(|server| server.name == *subject);
    let page = match subject.as_str() {
        _ if is_server => Some(link(&["servers", subject])),
        SETTINGS => Some(link(&["settings"])),
        _ => None,
    };
    Verdict {
        severity: if *is_bad { Severity::Bad } else { Severity::Warning },
        subject: subject.clone(),
        message: message.clone(),
        fix: fix.clone(),
        page,
        action: None,
    }
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
        let fix = (!verdict.fix.is_empty()).then(|| cure(&verdict.fix));
        let cure = el("div").class("row").put(button).put(fix);
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

/// A fix: a command as code, a sentence as text.
fn cure(fix: &str) -> Element {
    let is_command = ["muster ", "chmod "].iter().any(|program| fix.starts_with(program));
    match is_command && !fix.contains('`') {
        true => el("code").class("muted").put(fix),
        false => el("span").class("muted").put(prose(fix)),
    }
}

#[cfg(test)]
mod tests {
    use muster_api::{config::ConfigProblem, mcp_server::McpServerInfo};

    use super::{MAX_SHOWN, ServerState, Severity, element, of};
    use crate::{SetupFinding, html::Html};

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
            McpServerInfo {
                status_message: "Not approved - run: muster approve mcpserver new".to_owned(),
                ..server("new", ServerState::AwaitingApproval, "")
            },
            server("off", ServerState::Stopped, ""),
            server("my db", ServerState::Failed, "no such program\nand more"),
        ];
        let finding = |is_bad, subject: &str| SetupFinding {
            is_bad,
            subject: subject.to_owned(),
            message: "`x: y` is unsafe".to_owned(),
            fix: "remove it: `muster x`".to_owned(),
        };
        let findings =
            [finding(false, "config.yaml"), finding(false, "fine"), finding(true, "tokens.yaml")];
        let problem = ConfigProblem {
            file: "/etc/muster/policies/main.yaml".to_owned(),
            line: Some(3),
            message: "tools → x: there is no such tool".to_owned(),
            ..ConfigProblem::default()
        };
        let verdicts = of(&servers, &findings, &[problem]);
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
            &(Severity::Warning, "new", "Not approved", "muster approve mcpserver new")
        );
        let subjects: Vec<_> = seen.iter().map(|one| one.1).collect();
        let expected =
            ["my db", "tokens.yaml", "new", "config.yaml", "fine", "policies/main.yaml:3"];
        assert_eq!(subjects, expected);
        let pages: Vec<_> = verdicts.iter().map(|one| one.page.as_deref()).collect();
        let [server, settings] = ["/console/servers/fine", "/console/settings"].map(Some);
        assert_eq!(pages.get(3..5), Some([settings, server].as_slice()));
        let html = Html::from(element(None, &verdicts)).into_string();
        assert!(
            html.contains("<code class=\"muted\">muster approve mcpserver new</code>"),
            "{html}"
        );
        assert!(html.contains("remove it: <code>muster x</code></span>"), "{html}");
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
        let verdicts = of(&[], &[], &problems);
        assert_eq!(verdicts.first().unwrap().subject, "policies/z.yaml");
        let html = Html::from(element(None, &verdicts)).into_string();
        assert!(html.contains("41 things need attention"), "{html}");
        assert!(html.contains("policies/z.yaml"), "{html}");
        assert!(html.contains("and 21 more: <code>muster doctor</code>"), "{html}");
    }
}
