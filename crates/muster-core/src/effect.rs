//! The effect of a tool: whether it reads, writes or destroys.
//!
//! A CLI config states the effect of its tools. **Invariant:** a server's hints never make a tool look more harmless than its name does. In
//! doubt the worse effect is assumed.

use std::fmt;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::{catalog::ToolEntry, json::RawObject, name::ToolName, policy};

/// The effect of a tool, the least harmful first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Effect {
    /// It only reads.
    Read,
    /// It may change something. The default if nothing is known.
    Write,
    /// It may delete or overwrite.
    Destructive,
}

impl Effect {
    /// The effect that a tool's definition states, else by its hints and name. A policy may override it: see
    /// [`policy::Policy::effect`].
    pub fn of(entry: &ToolEntry) -> Self {
        if let Some(effect) = entry.effect {
            return effect;
        }
        if policy::is_known_destructive(&entry.local_name) {
            return Self::Destructive;
        }
        let hinted =
            entry.definition.as_deref().and_then(RawObject::parse).and_then(|definition| {
                let hints = RawObject::parse(definition.get("annotations")?)?;
                let flag = |key: &str| match hints.get(key)?.get() {
                    "true" => Some(true),
                    "false" => Some(false),
                    _ => None,
                };
                Self::from_hints(flag("readOnlyHint"), flag("destructiveHint"))
            });
        match (hinted, by_name(&entry.local_name)) {
            (Some(hinted), named) => named.map_or(hinted, |named| hinted.max(named)),
            (None, named) => named.unwrap_or(Self::Write),
        }
    }

    fn from_hints(read_only: Option<bool>, destructive: Option<bool>) -> Option<Self> {
        match (read_only, destructive) {
            (_, Some(true)) => Some(Self::Destructive),
            (Some(true), _) => Some(Self::Read),
            (Some(false), _) | (None, Some(false)) => Some(Self::Write),
            (None, None) => None,
        }
    }

    /// The effect as a keyword.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Destructive => "destructive",
        }
    }

    /// Parses a keyword.
    pub fn parse(word: &str) -> Option<Self> {
        [Self::Read, Self::Write, Self::Destructive].into_iter().find(|one| one.as_str() == word)
    }
}

/// A tool whose effect is worse than its call allows.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "`{tool}` is {effect}, and the call said `{most}`\nhint: if that is wanted, call again with effect `{effect}`"
)]
pub struct ExcessiveEffect {
    /// The tool.
    pub tool: ToolName,
    /// Its effect.
    pub effect: Effect,
    /// The worst effect that the call allows.
    pub most: Effect,
}

impl fmt::Display for Effect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The effect by a tool's name: a destructive word anywhere, else the first known word.
fn by_name(name: &str) -> Option<Effect> {
    let words = words(name);
    let has = |list: &[&str], word: &String| list.contains(&word.as_str());
    if words.iter().any(|word| has(DESTRUCTIVE_WORDS, word)) {
        return Some(Effect::Destructive);
    }
    words.iter().find_map(|word| {
        let writes = has(WRITE_WORDS, word).then_some(Effect::Write);
        writes.or_else(|| has(READ_WORDS, word).then_some(Effect::Read))
    })
}

fn words(name: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut after_small = false;
    let mut open = false;
    for c in name.chars() {
        let hump = after_small && c.is_uppercase();
        after_small = c.is_lowercase();
        if !c.is_alphanumeric() {
            open = false;
            continue;
        }
        if !open || hump {
            words.push(String::new());
            open = true;
        }
        if let Some(word) = words.last_mut() {
            word.extend(c.to_lowercase());
        }
    }
    words
}

const DESTRUCTIVE_WORDS: &[&str] = &[
    "delete",
    "deletes",
    "remove",
    "rm",
    "rmi",
    "rmdir",
    "drop",
    "destroy",
    "purge",
    "wipe",
    "erase",
    "truncate",
    "prune",
    "kill",
    "terminate",
    "uninstall",
    "revoke",
    "reset",
    "overwrite",
    "format",
    "shutdown",
    "unlink",
    "trash",
    "cleanup",
];

const WRITE_WORDS: &[&str] = &[
    "create", "add", "set", "update", "write", "edit", "put", "post", "patch", "send", "insert",
    "upload", "move", "rename", "copy", "merge", "push", "commit", "apply", "start", "stop",
    "restart", "run", "execute", "exec", "install", "enable", "disable", "assign", "publish",
    "deploy", "register", "save", "store", "append", "replace", "modify", "change", "book", "buy",
    "order", "pay", "submit", "reply", "archive", "close", "open", "checkout", "login", "logout",
    "click", "type", "navigate", "fill", "approve", "reject", "cancel", "scale", "rollback",
    "import", "make", "mkdir", "touch",
];

const READ_WORDS: &[&str] = &[
    "get",
    "list",
    "read",
    "search",
    "find",
    "query",
    "show",
    "describe",
    "fetch",
    "view",
    "count",
    "check",
    "status",
    "info",
    "log",
    "logs",
    "diff",
    "ps",
    "top",
    "stat",
    "stats",
    "inspect",
    "lookup",
    "version",
    "help",
    "tail",
    "head",
    "cat",
    "ls",
    "tree",
    "grep",
    "browse",
    "preview",
    "explain",
    "validate",
    "verify",
    "test",
    "compare",
    "calculate",
    "convert",
    "translate",
    "events",
    "history",
    "whoami",
    "ping",
    "available",
];

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::value::RawValue;

    use super::Effect;
    use crate::{
        catalog::{ToolAudience, ToolEntry},
        name::{BackendName, ToolName},
        schema,
    };

    #[track_caller]
    fn check(name: &str, annotations: &str, expect: Effect) {
        let definition = format!(r#"{{"name":"{name}","annotations":{annotations}}}"#);
        let entry = ToolEntry {
            name: ToolName::new(name),
            backend: BackendName::new("b"),
            local_name: name.into(),
            description: "".into(),
            input_schema: schema::input_schema(&[]).into(),
            params: None,
            definition: RawValue::from_string(definition).ok().map(Arc::from),
            effect: None,
            validator: Arc::default(),
            audience: ToolAudience::default(),
        };
        assert_eq!(Effect::of(&entry), expect, "{name} {annotations}");
    }

    #[test]
    fn hints_apply_unless_the_name_is_worse() {
        check("look", r#"{"readOnlyHint":true}"#, Effect::Read);
        check("look", r#"{"readOnlyHint":false}"#, Effect::Write);
        check("look", r#"{"destructiveHint":true}"#, Effect::Destructive);
        check("look", r#"{"readOnlyHint":true,"destructiveHint":true}"#, Effect::Destructive);
        check("create_issue", r#"{"destructiveHint":false}"#, Effect::Write);
        check("create_issue", r#"{"readOnlyHint":true}"#, Effect::Write);
        check("delete_repo", r#"{"readOnlyHint":true}"#, Effect::Destructive);
        check("kubectl_apply", r#"{"readOnlyHint":true}"#, Effect::Destructive);
        check("get_issue", r#"{"readOnlyHint":false}"#, Effect::Write);
    }

    #[test]
    fn without_hints_the_name_decides() {
        check("get_issue", "{}", Effect::Read);
        check("listPods", "null", Effect::Read);
        check("createPullRequest", "{}", Effect::Write);
        check("set_list", "{}", Effect::Write);
        check("docker_rm", "{}", Effect::Destructive);
        check("git-reset", "{}", Effect::Destructive);
        check("get_and_delete", "{}", Effect::Destructive);
        check("frobnicate", "{}", Effect::Write);
        check("targets", "{}", Effect::Write);
    }
}
