//! Policies: the files that decide which tools exist, within which limits, and where they run.

pub mod fields;

use std::sync::Arc;

use muster_core::{
    cli::{Docker, Executor},
    effect::Effect,
    glob::{CaseSensitivity, Glob},
    policy::{
        DefaultAccess, Policy, Rule,
        callers::{CallerGrant, Subjects},
        constraint::Constraint,
        pattern::Pattern,
        rules::Rules,
    },
};

use self::fields::{CALLERS, CONSTRAINT, EXECUTOR, POLICY, RULE};
use super::{
    LoadError, Loaded,
    reader::{Fields, Reader, load},
};
use crate::yaml::Node;

const DEFAULTS: &[(&str, DefaultAccess)] =
    &[("enabled", DefaultAccess::Enabled), ("disabled", DefaultAccess::Disabled)];

const EFFECTS: &[(&str, Effect)] =
    &[("read", Effect::Read), ("write", Effect::Write), ("destructive", Effect::Destructive)];

/// The fix for a pattern with a syntax error.
pub(crate) const BROKEN_PATTERN: &str = "close `[`, and put `\\` before a literal `[` or `\\`";

#[derive(Clone, Copy)]
enum ExecutorKind {
    Local,
    Docker,
}

const EXECUTORS: &[(&str, ExecutorKind)] =
    &[("local", ExecutorKind::Local), ("docker", ExecutorKind::Docker)];

/// Reads a policy. Tools that it does not name are disabled by default.
pub fn parse(text: &str) -> Result<Loaded<Policy>, LoadError> {
    load(text, policy)
}

fn policy(reader: &mut Reader, node: &Node) -> Option<Policy> {
    let fields = reader.fields(node, &POLICY)?;
    let place = reader.optional(&fields, "executor", Executor::Local, place);
    let default = reader.optional(&fields, "default", DefaultAccess::Disabled, |reader, node| {
        reader.choice(node, DEFAULTS)
    });
    let most = reader.nullable(&fields, "effect", effect);
    let rules = rules(reader, &fields);
    let callers = reader
        .optional(&fields, "callers", Vec::new(), |reader, node| reader.list(node, caller_grant));
    Some(Policy {
        executor: place?,
        default: default?,
        max_effect: most?.0,
        rules: rules?,
        callers: callers?.into_iter().map(Arc::new).collect(),
        ..Policy::default()
    })
}

fn rules(reader: &mut Reader, fields: &Fields<'_>) -> Option<Rules> {
    let rules = reader.optional(fields, "tools", Vec::new(), |reader, node| reader.map(node, rule));
    Some(rules?.into_iter().collect())
}

fn caller_grant(reader: &mut Reader, node: &Node) -> Option<CallerGrant> {
    let fields = reader.fields(node, &CALLERS)?;
    let texts = |reader: &mut Reader, name: &str| {
        reader.optional(&fields, name, Vec::new(), |reader, node| reader.list(node, Reader::text))
    };
    let flag =
        |reader: &mut Reader, name: &str| reader.optional(&fields, name, false, Reader::boolean);
    let globs = |reader: &mut Reader, name: &str, case: CaseSensitivity| {
        reader.optional(&fields, name, Vec::new(), |reader, node| {
            reader.list(node, |reader, node| glob(reader, node, case))
        })
    };
    let users = globs(reader, "users", CaseSensitivity::Insensitive);
    let clients = globs(reader, "clients", CaseSensitivity::Sensitive);
    let (groups, tokens) = (texts(reader, "groups"), texts(reader, "tokens"));
    let anonymous = flag(reader, "anonymous");
    let default = reader.nullable(&fields, "default", |reader, node| reader.choice(node, DEFAULTS));
    let most = reader.nullable(&fields, "effect", effect);
    let rules = rules(reader, &fields);
    let toolset = reader.nullable(&fields, "toolset", Reader::text);
    let operator = flag(reader, "operator");
    let subjects = Subjects {
        users: users?,
        groups: groups?,
        clients: clients?,
        tokens: tokens?,
        anonymous: anonymous?,
    };
    if subjects.is_empty() {
        let message = "the entry names no callers, so it has no effect";
        let fix = "add `users`, `groups`, `clients`, `tokens` or `anonymous: true`";
        return reader.refuse(node, message, fix);
    }
    let is_operator = operator?;
    if is_operator && subjects.anonymous {
        reader.warn(
            node,
            "`operator: true` beside `anonymous: true` lets everybody who reaches the gateway change it; name users, \
             groups or tokens",
        );
    }
    Some(CallerGrant {
        subjects,
        default: default?.0,
        max_effect: most?.0,
        rules: rules?,
        toolset: toolset?.0,
        operator: is_operator,
    })
}

fn glob(reader: &mut Reader, node: &Node, case: CaseSensitivity) -> Option<Glob> {
    let text = reader.text(node)?;
    match Glob::new(&text, case) {
        Ok(glob) => Some(glob),
        Err(_) => reader.refuse(node, format!("`{text}` is not a pattern"), BROKEN_PATTERN),
    }
}

pub(crate) fn effect(reader: &mut Reader, node: &Node) -> Option<Effect> {
    reader.choice(node, EFFECTS)
}

fn place(reader: &mut Reader, node: &Node) -> Option<Executor> {
    let fields = reader.fields(node, &EXECUTOR)?;
    let executor = reader.optional(&fields, "type", ExecutorKind::Local, |reader, node| {
        reader.choice(node, EXECUTORS)
    });
    let image = reader.nullable(&fields, "image", Reader::text);
    let volumes = reader
        .optional(&fields, "volumes", Vec::new(), |reader, node| reader.list(node, Reader::text));
    let working_dir = reader.nullable(&fields, "working_dir", Reader::text);
    let network = reader.nullable(&fields, "network", Reader::text);
    let (executor, image, volumes) = (executor?, image?.0, volumes?);
    let (working_dir, network) = (working_dir?.0, network?.0);
    match (executor, image.filter(|image| !image.is_empty())) {
        (ExecutorKind::Local, _) => Some(Executor::Local),
        (ExecutorKind::Docker, Some(image)) => {
            Some(Executor::Docker(Docker { image, volumes, network, working_dir }))
        }
        (ExecutorKind::Docker, None) => {
            let message = "Value error, Docker executor requires 'image' to be set";
            reader.refuse(node, message, "add `image: …`")
        }
    }
}

fn rule(reader: &mut Reader, node: &Node) -> Option<Rule> {
    let fields = reader.fields(node, &RULE)?;
    let description = reader.nullable(&fields, "description", Reader::text);
    let effect = reader.nullable(&fields, "effect", effect);
    let args =
        reader.optional(&fields, "args", Vec::new(), |reader, node| reader.map(node, constraint));
    Some(Rule { description: description?.0, effect: effect?.0, args: args?.into_iter().collect() })
}

fn constraint(reader: &mut Reader, node: &Node) -> Option<Constraint> {
    let fields = reader.fields(node, &CONSTRAINT)?;
    let pattern = reader.nullable(&fields, "pattern", pattern);
    let min = reader.nullable(&fields, "min", Reader::number);
    let max = reader.nullable(&fields, "max", Reader::number);
    Some(Constraint { pattern: pattern?.0, min: min?.0, max: max?.0 })
}

fn pattern(reader: &mut Reader, node: &Node) -> Option<Pattern> {
    let pattern = Pattern::new(&reader.text(node)?);
    if let Err(broken) = pattern.check() {
        reader.warn(node, format!("{broken}; every call that gives the argument will fail"));
    }
    Some(pattern)
}

#[cfg(test)]
mod tests;
