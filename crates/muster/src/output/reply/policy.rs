//! The policy, and the logins and tokens of the gateway.

use muster_api::{
    access::{BrowserInfo, CreatedToken, LoginInfo, SessionList, StaticTokenInfo},
    policy::{PolicyAnswer, PolicyEntryInfo, PolicyInfo, PolicyRuleInfo, ToolsetSummary},
};
use muster_core::{call::Role, effect::Effect, policy::DefaultAccess};

use super::{ReplyView, time};
use crate::output::{
    format::OutputStyle,
    table::{self, Column},
};

impl ReplyView for PolicyAnswer {
    fn show(&self, _: OutputStyle) -> String {
        let verdict = if self.allowed { "yes" } else { "no" };
        let mut lines = vec![format!("{verdict}: {}", self.reason)];
        lines.extend(self.problems.iter().map(|problem| format!("  {problem}")));
        lines.push(String::new());
        let mut fact = |label: &str, value: &str| {
            if !value.is_empty() {
                lines.push(format!("{:<9}{value}", format!("{label}:")));
            }
        };
        fact("rule", &self.rules.join(", "));
        fact("tool", &self.tool);
        fact("server", &self.server);
        fact("effect", self.effect.map(Effect::as_str).unwrap_or_default());
        match self.role {
            Some(role) => fact("caller", &format!("{} ({})", self.caller, role.as_str())),
            None => fact("caller", &self.caller),
        }
        fact("entries", &self.entries.join(", "));
        fact("toolset", &self.toolset);
        lines.join("\n")
    }
}

const RULES: &[Column<PolicyRuleInfo>] = &[
    Column::new("tools", |rule| rule.tool.clone()),
    Column::new("effect", |rule| effect_or_dash(rule.effect)),
    Column::new("limits", |rule| or_dash(&rule.limits.join("; "))),
];

const ENTRIES: &[Column<PolicyEntryInfo>] = &[
    Column::new("entry", |entry| entry.path.clone()),
    Column::new("callers", |entry| entry.subjects.join(", ")),
    Column::new("adds", adds),
];

const TOOLSETS: &[Column<ToolsetSummary>] = &[
    Column::new("toolset", |set| set.name.clone()),
    Column::new("selects", |set| set.selects.join(", ")),
    Column::new("effect", |set| effect_or_dash(set.effect)),
];

/// The additions of an entry of `callers`.
fn adds(entry: &PolicyEntryInfo) -> String {
    let named = |label: &str, value: &str| (!value.is_empty()).then(|| format!("{label} {value}"));
    let mut parts: Vec<String> = Vec::new();
    parts.extend(entry.operator.then(|| "operator".to_owned()));
    parts.extend(named("default", entry.default.map(DefaultAccess::as_str).unwrap_or_default()));
    parts.extend(named("effect", entry.effect.map(Effect::as_str).unwrap_or_default()));
    parts.extend(named("toolset", &entry.toolset));
    parts.extend(entry.rules.iter().map(|rule| rule.tool.clone()));
    or_dash(&parts.join(", "))
}

fn effect_or_dash(effect: Option<Effect>) -> String {
    or_dash(effect.map(Effect::as_str).unwrap_or_default())
}

fn role(role: Option<Role>) -> String {
    role.map(Role::as_str).unwrap_or_default().to_owned()
}

fn or_dash(text: &str) -> String {
    if text.is_empty() { "-".to_owned() } else { text.to_owned() }
}

impl ReplyView for PolicyInfo {
    fn show(&self, style: OutputStyle) -> String {
        let most = match self.effect {
            None => String::new(),
            Some(effect) => format!(", up to the effect `{effect}`"),
        };
        let default = self.default.map(DefaultAccess::as_str).unwrap_or("unknown to this version");
        let blocked = if self.destructive_blocked {
            "tools that are known to be destructive are blocked"
        } else {
            "tools that are known to be destructive may run"
        };
        let mut parts = vec![format!("Tools without a rule are {default}{most}; {blocked}.")];
        if !self.rules.is_empty() {
            parts.push(table::list(RULES, &self.rules, style));
        }
        if !self.callers.is_empty() {
            parts.push(table::list(ENTRIES, &self.callers, style));
        }
        if !self.toolsets.is_empty() {
            parts.push(table::list(TOOLSETS, &self.toolsets, style));
        }
        parts.extend(self.problems.iter().map(|problem| format!("warning: {problem}")));
        parts.join("\n\n")
    }
}

const TOKENS: &[Column<StaticTokenInfo>] = &[
    Column::new("name", |token| token.name.clone()),
    Column::new("role", |token| role(token.role)),
    Column::new("toolset", |token| or_dash(token.toolset.as_deref().unwrap_or_default())),
    Column::new("created", |token| token.created.clone()),
    Column::new("expires", |token| match (&token.expires, token.expired) {
        (None, _) => "never".to_owned(),
        (Some(moment), false) => moment.clone(),
        (Some(moment), true) => format!("{moment} (expired)"),
    }),
    Column::new("last_used", |token| token.last_used.clone().unwrap_or_else(|| "never".to_owned())),
];

impl ReplyView for Vec<StaticTokenInfo> {
    fn show(&self, style: OutputStyle) -> String {
        if self.is_empty() {
            return "No tokens. Create one with `muster token create NAME`.".to_owned();
        }
        table::list(TOKENS, self, style)
    }
}

impl ReplyView for CreatedToken {
    fn show(&self, _: OutputStyle) -> String {
        self.token.clone()
    }
}

const LOGINS: &[Column<LoginInfo>] = &[
    Column::new("id", |login| login.id.clone()),
    Column::new("user", |login| login.user.clone()),
    Column::new("role", |login| role(login.role)),
    Column::new("groups", |login| or_dash(&login.groups.join(", "))),
    Column::wide("client", |login| or_dash(&login.client)),
    Column::wide("issuer", |login| login.issuer.clone()),
    Column::wide("first_seen", |login| time(&login.first_seen)),
    Column::new("last_seen", |login| time(&login.last_seen)),
    Column::new("requests", |login| login.requests.to_string()),
];

const BROWSERS: &[Column<BrowserInfo>] = &[
    Column::new("id", |browser| browser.id.clone()),
    Column::new("began", |browser| time(&browser.began)),
    Column::new("ends", |browser| time(&browser.ends)),
    Column::new("serves", |browser| {
        if browser.local { "this machine".to_owned() } else { "any machine".to_owned() }
    }),
];

impl ReplyView for SessionList {
    fn show(&self, style: OutputStyle) -> String {
        let logins = match self.logins.is_empty() {
            true => "No request came from a login since the gateway started.".to_owned(),
            false => table::list(LOGINS, &self.logins, style),
        };
        match self.browsers.is_empty() {
            true => logins,
            false => {
                format!(
                    "{logins}\n\nBrowsers at the console:\n{}",
                    table::list(BROWSERS, &self.browsers, style)
                )
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use serde_json::json;

    use super::super::tests::shown;
    use crate::output::format::OutputFormat;

    #[test]
    fn an_answer_begins_with_yes_or_no() {
        let reply = json!({"allowed": false, "decision": "limited", "reason": "a rule limits the arguments, and these are outside",
            "rules": ["tools.notes/*"], "problems": ["Argument 'n': value 9 exceeds maximum 5.0"], "tool": "x_notes_read",
            "server": "notes", "effect": "read", "caller": "ann@example.com", "role": "agent", "entries": ["callers[0]"]});
        expect![[r"
            no: a rule limits the arguments, and these are outside
              Argument 'n': value 9 exceeds maximum 5.0

            rule:    tools.notes/*
            tool:    x_notes_read
            server:  notes
            effect:  read
            caller:  ann@example.com (agent)
            entries: callers[0]"]]
        .assert_eq(&shown("core_policy_check", &reply, OutputFormat::Table));
    }

    #[test]
    fn a_policy_is_shown_in_tables() {
        let reply = json!({"default": "enabled", "effect": "read", "destructive_blocked": true,
            "rules": [{"tool": "github/*", "effect": "write", "limits": ["limit: at most 5"]}],
            "callers": [{"path": "callers[0]", "subjects": ["group ops"], "operator": true, "rules": [{"tool": "x_y"}]}],
            "toolsets": [{"name": "review", "selects": ["server github"], "effect": "read"}]});
        expect![[r"
            Tools without a rule are enabled, up to the effect `read`; tools that are known to be destructive are blocked.

            TOOLS      EFFECT   LIMITS
            github/*   write    limit: at most 5

            ENTRY        CALLERS     ADDS
            callers[0]   group ops   operator, x_y

            TOOLSET   SELECTS         EFFECT
            review    server github   read"]]
        .assert_eq(&shown("core_policy_get", &reply, OutputFormat::Table));
    }
}
