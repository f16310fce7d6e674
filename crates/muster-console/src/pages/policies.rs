//! The policy: who may do what, and which rule decides about a call.

use muster_api::policy::{PolicyAnswer, PolicyEntryInfo, PolicyInfo, PolicyRuleInfo};
use muster_core::{call::Role, effect::Effect, json::RawObject, policy::DefaultAccess};
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::{
    PageContext, PageReply,
    gateway::CoreError,
    html::{Element, Html, el},
    page::{Page, Section, heading},
    request::link,
    widgets::{cell, effect, empty, labelled, notice, prose, table, text},
};

/// The fields of a question, with their labels and hints.
const FIELDS: [(&str, &str, &str); 5] = [
    ("user", "User", "ann@example.com"),
    ("groups", "Groups", "developers, ops"),
    ("token", "Token", "ci"),
    ("client", "Client", "OAuth client id"),
    ("toolset", "Toolset", "reading"),
];

/// The page as JSON.
#[derive(Serialize)]
struct PoliciesView<'a> {
    policy: &'a PolicyInfo,
    #[serde(skip_serializing_if = "Option::is_none")]
    answer: Option<&'a PolicyAnswer>,
}

/// A question to the policy: the arguments of `core_policy_check`, and the equivalent command.
struct Question {
    wanted: RawObject<'static>,
    command: String,
}

pub(super) async fn page(cx: PageContext<'_>) -> Result<PageReply, CoreError> {
    let policy: PolicyInfo = cx.gateway.reply("core_policy_get", &json!({})).await?;
    let (question, problem) = match question(cx) {
        Ok(question) => (question, None),
        Err(problem) => (None, Some(problem)),
    };
    let mut command = "muster policy show".to_owned();
    let (mut answer, mut problem) = (None, problem);
    if let Some(Question { wanted, command: asked }) = question {
        command = asked;
        match cx.gateway.reply::<PolicyAnswer>("core_policy_check", &wanted).await {
            Ok(found) => answer = Some(found),
            Err(error) => problem = Some(error.text),
        }
    }
    let view = PoliciesView { policy: &policy, answer: answer.as_ref() };
    let page = Page::new(Section::Policies, "Policies", &view).command(command);
    let lead = "Ask whether somebody may call a tool, before an agent tries. Nothing is called.";
    let page = page
        .put(heading("Policies"))
        .put(el("p").class("lead").put(lead))
        .put(policy.problems.iter().map(|problem| notice("warn", problem)).collect::<Vec<_>>())
        .put(form(cx))
        .put(problem.map(|problem| notice("bad", &problem)))
        .put(answer.as_ref().map(verdict));
    Ok(page.put(rules(&policy)).put(entries(&policy)).put(toolsets(&policy)).into())
}

/// Reads the question from the query; `None` if it names no tool.
fn question(cx: PageContext<'_>) -> Result<Option<Question>, String> {
    let Some(tool) = given(cx, "tool") else { return Ok(None) };
    let mut wanted = RawObject::new();
    let mut command = format!("muster policy check {}", super::quoted(tool));
    wanted.set_value("tool", tool);
    for (name, ..) in FIELDS {
        let Some(value) = given(cx, name) else { continue };
        if name == "groups" {
            let groups: Vec<&str> =
                value.split(',').map(str::trim).filter(|group| !group.is_empty()).collect();
            for group in &groups {
                command = format!("{command} --group {}", super::quoted(group));
            }
            wanted.set_value(name, &groups);
            continue;
        }
        wanted.set_value(name, value);
        command = format!("{command} --{name} {}", super::quoted(value));
    }
    if given(cx, "operator").is_some() {
        wanted.set_value("operator", &true);
        command.push_str(" --operator");
    }
    if let Some(arguments) = given(cx, "arguments") {
        let parsed: Map<String, Value> = serde_json::from_str(arguments)
            .map_err(|error| format!("the arguments are not a JSON object: {error}"))?;
        wanted.set_value("arguments", &parsed);
        command = format!("{command} --json {}", super::quoted(arguments));
    }
    Ok(Some(Question { wanted, command }))
}

fn given<'a>(cx: PageContext<'a>, name: &str) -> Option<&'a str> {
    cx.request.query(name).map(str::trim).filter(|text| !text.is_empty())
}

/// The form of a question. It is a GET form, so that the answer has a URL.
fn form(cx: PageContext<'_>) -> Element {
    let input = |name: &'static str, hint: &str| {
        el("input")
            .attr("type", "text")
            .attr("id", name)
            .attr("name", name)
            .attr("placeholder", hint)
            .attr("value", given(cx, name).unwrap_or_default())
    };
    let who = FIELDS.map(|(name, label, hint)| labelled(name, label, input(name, hint)));
    let operator = el("input").attr("type", "checkbox").attr("id", "operator");
    let operator = operator
        .attr("name", "operator")
        .attr("value", "1")
        .flag("checked", given(cx, "operator").is_some());
    let operator = el("label").class("check").put(operator).put(" as an operator");
    let arguments = el("textarea")
        .attr("id", "arguments")
        .attr("name", "arguments")
        .attr("rows", "3")
        .attr("spellcheck", "false")
        .attr("placeholder", "{\"title\": \"Plan\"}")
        .put(given(cx, "arguments").unwrap_or_default());
    let tool = input("tool", "x_github_create_issue").flag("required", true);
    let who = el("fieldset")
        .put(el("legend").put("May"))
        .put(el("div").class("grid").put(Vec::from(who)))
        .put(operator);
    let what = el("fieldset")
        .put(el("legend").put("call"))
        .put(labelled("tool", "Tool", tool))
        .put(labelled("arguments", "Arguments as JSON", arguments));
    el("form").class("question card").attr("action", link(&["policies"])).put((
        who,
        what,
        el("button").class("primary").put("Ask"),
    ))
}

/// The answer to a question.
fn verdict(answer: &PolicyAnswer) -> Element {
    let (kind, word) = if answer.allowed { ("ok", "Yes") } else { ("bad", "No") };
    let subject = format!("{} → {}", answer.caller, answer.tool);
    let mut facts = el("dl").class("facts");
    let rules: Html = match answer.rules.as_slice() {
        [] => Html::default().put("none"),
        rules => rules.iter().fold(Html::default(), |list, rule| {
            list.put(el("code").class("rule").put(rule)).put(" ")
        }),
    };
    let mut put = |label: &str, value: Html| {
        let taken = std::mem::replace(&mut facts, el("dl"));
        facts = taken.put(el("dt").put(label)).put(el("dd").put(value));
    };
    put("Decided by", rules);
    put("Role", cell(answer.role.map(Role::as_str)));
    if let Some(kind) = answer.effect {
        put("Effect of the tool", cell(effect(kind)));
    }
    if !answer.entries.is_empty() {
        put("Entries that match", cell(el("code").put(answer.entries.join(", "))));
    }
    if !answer.toolset.is_empty() {
        put("Toolset", cell(&answer.toolset));
    }
    let problems = el("ul")
        .put(answer.problems.iter().map(|problem| el("li").put(problem)).collect::<Vec<_>>());
    let problems = (!answer.problems.is_empty()).then_some(problems);
    el("section")
        .attr("id", "answer")
        .class(format!("answer {kind}").as_str())
        .put(el("p").class("verdict").put(el("b").put(word)).put(el("span").put(subject)))
        .put(el("p").put(prose(&answer.reason)))
        .put((problems, facts))
}

fn rules(policy: &PolicyInfo) -> Html {
    let most = match policy.effect {
        None => String::new(),
        Some(effect) => format!(", up to the effect {effect}"),
    };
    let default = match policy.default {
        Some(DefaultAccess::Enabled) => {
            format!("Tools without a rule may be called by everybody{most}.")
        }
        Some(DefaultAccess::Disabled) | None => "Tools without a rule are hidden.".to_owned(),
    };
    let destructive = match policy.destructive_blocked {
        true => " Tools that are known to be destructive are blocked.",
        false => " Tools that are known to be destructive may run.",
    };
    let listed = match policy.rules.is_empty() {
        true => empty("No rules for everybody. They are files in policies/ of the configuration."),
        false => rule_table(&policy.rules),
    };
    Html::default()
        .put(el("h2").put("For everybody"))
        .put(el("p").put(default).put(destructive))
        .put(listed)
}

fn rule_table(rules: &[PolicyRuleInfo]) -> Element {
    let rows = rules.iter().map(|rule| {
        let limits = rule.limits.iter().map(|limit| el("div").class("mono").put(limit));
        let kind = rule.effect.map(effect);
        vec![cell(el("code").put(&rule.tool)), cell(kind), cell(limits.collect::<Vec<_>>())]
    });
    table(&[text("Tools"), text("Effect"), text("Limits")], rows.collect())
}

fn entries(policy: &PolicyInfo) -> Option<Html> {
    if policy.callers.is_empty() {
        return None;
    }
    let rows = policy.callers.iter().map(|entry| {
        let who = entry.subjects.iter().map(|subject| el("div").put(subject));
        vec![cell(el("code").put(&entry.path)), cell(who.collect::<Vec<_>>()), cell(added(entry))]
    });
    let columns = [text("Entry"), text("Callers"), text("Adds")];
    Some(
        Html::default()
            .put(el("h2").put("For some callers"))
            .put(el("p").class("lead").put("An entry only adds: all that match a caller apply."))
            .put(table(&columns, rows.collect())),
    )
}

/// The additions of an entry.
fn added(entry: &PolicyEntryInfo) -> Html {
    let mut list = Html::default();
    if entry.operator {
        list = list.put(el("div").put("the rights of an operator"));
    }
    for (label, value) in [
        ("tools without a rule: ", entry.default.map(DefaultAccess::as_str)),
        ("effect up to ", entry.effect.map(Effect::as_str)),
    ] {
        if let Some(value) = value {
            list = list.put(el("div").put(label).put(value));
        }
    }
    if !entry.toolset.is_empty() {
        list = list.put(el("div").put("toolset ").put(&entry.toolset));
    }
    for rule in &entry.rules {
        let limits = match rule.limits.is_empty() {
            true => String::new(),
            false => format!(" ({})", rule.limits.join("; ")),
        };
        list = list.put(el("div").put(el("code").put(&rule.tool)).put(limits));
    }
    list
}

fn toolsets(policy: &PolicyInfo) -> Option<Html> {
    if policy.toolsets.is_empty() {
        return None;
    }
    let rows = policy.toolsets.iter().map(|set| {
        let kind = set.effect.map(effect);
        vec![cell(&set.name), cell(set.selects.join(", ")), cell(kind), cell(&set.description)]
    });
    let columns = [text("Name"), text("Selects"), text("Effect up to"), text("About")];
    let listed = table(&columns, rows.collect());
    Some(Html::default().put(el("h2").put("Toolsets")).put(listed))
}
