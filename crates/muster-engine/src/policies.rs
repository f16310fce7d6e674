//! Several policy files merged into one policy.
//!
//! The files apply together as if they were one: a tool may be called if some file names it, or if no file
//! disables tools it does not name or tools of that effect; and every limit of every file applies. While a
//! file cannot be read, no tool may be called, because its limits are unknown.
//!
//! The policy applies to every tool, including those of MCP servers and `core_*`: a caller limited to
//! `git_status` must not be able to add a server that runs a shell.

use indexmap::IndexMap;
use muster_core::{
    cli::Executor,
    policy::{
        DefaultAccess, DestructiveTools, Policy, Rule, constraint::Constraint, pattern::Pattern,
    },
};

/// Merges policies; `None` stands for one that cannot be read. Without any policy everything is allowed.
pub(crate) fn merged<'a>(
    policies: impl Iterator<Item = Option<&'a Policy>>,
    destructive: DestructiveTools,
) -> Policy {
    let mut whole = Policy { destructive, ..Policy::default() };
    let mut rules: IndexMap<String, Rule> = IndexMap::new();
    for policy in policies {
        let Some(policy) = policy else {
            return Policy { destructive, default: DefaultAccess::Disabled, ..Policy::default() };
        };
        if whole.executor == Executor::Local {
            whole.executor = policy.executor.clone();
        }
        if policy.default == DefaultAccess::Disabled {
            whole.default = DefaultAccess::Disabled;
        }
        whole.max_effect = whole.max_effect.into_iter().chain(policy.max_effect).min();
        for (name, rule) in policy.rules.iter() {
            let known = rules.entry(name.clone()).or_default();
            *known = both(known, rule);
        }
        whole.callers.extend(policy.callers.iter().cloned());
    }
    Policy { rules: rules.into_iter().collect(), ..whole }
}

fn both(one: &Rule, other: &Rule) -> Rule {
    let mut args = one.args.clone();
    for (name, constraint) in &other.args {
        let known = args.entry(name.clone()).or_default();
        *known = Constraint {
            pattern: match (&known.pattern, &constraint.pattern) {
                (Some(one), Some(other)) => Some(both_patterns(one, other)),
                (one, other) => one.clone().or_else(|| other.clone()),
            },
            min: stricter(known.min, constraint.min, f64::max),
            max: stricter(known.max, constraint.max, f64::min),
        };
    }
    let description = one.description.clone().or_else(|| other.description.clone());
    let effect = one.effect.max(other.effect);
    Rule { description, effect, args }
}

fn stricter(one: Option<f64>, other: Option<f64>, choose: impl Fn(f64, f64) -> f64) -> Option<f64> {
    match (one, other) {
        (Some(one), Some(other)) => Some(choose(one, other)),
        (one, other) => one.or(other),
    }
}

/// A pattern that matches what both match. Numbered back-references and global flags do not survive the
/// merge: such a pattern matches nothing.
fn both_patterns(one: &Pattern, other: &Pattern) -> Pattern {
    const NOTHING: &str = "(?!)";
    let (one, other) = (one.as_str(), other.as_str());
    if one == other {
        return Pattern::new(one);
    }
    let numbered = |pattern: &str| {
        let mut letters = pattern.chars().peekable();
        while let Some(letter) = letters.next() {
            let escaped = if letter == '\\' { letters.next() } else { None };
            if escaped.is_some_and(|letter| letter.is_ascii_digit()) {
                return true;
            }
        }
        pattern.contains("(?P") || pattern.contains("(?(")
    };
    let flagged = |pattern: &str| {
        let flags = pattern.strip_prefix("(?").and_then(|rest| rest.split_once(')'));
        flags.is_some_and(|(flags, _)| flags.chars().all(|flag| flag.is_ascii_alphabetic()))
    };
    if [one, other].into_iter().any(|pattern| numbered(pattern) || flagged(pattern)) {
        return Pattern::new(NOTHING);
    }
    Pattern::new(&format!("(?=(?:{one})\\Z)(?:{other})"))
}

#[cfg(test)]
mod tests {
    use muster_config::policy::parse;
    use muster_core::{
        cli::Executor,
        effect::Effect,
        policy::{DefaultAccess, DestructiveTools, Policy},
    };

    use super::merged;

    fn policy(files: &[&str]) -> Policy {
        let policies: Vec<Policy> = files.iter().map(|file| parse(file).unwrap().value).collect();
        merged(policies.iter().map(Some), DestructiveTools::Blocked)
    }

    #[test]
    fn without_files_everything_is_allowed() {
        let policy = policy(&[]);
        assert_eq!(policy.default, DefaultAccess::Enabled);
        assert_eq!(policy.destructive, DestructiveTools::Blocked);
    }

    #[test]
    fn one_file_that_disables_is_enough() {
        let policy = policy(&["default: enabled\ntools: {a: {}}", "tools: {b: {}}"]);
        assert_eq!(policy.default, DefaultAccess::Disabled);
        assert_eq!(policy.rules.keys().collect::<Vec<_>>(), ["a", "b"]);
    }

    #[test]
    fn while_one_file_cannot_be_read_nothing_is_allowed() {
        let good = parse("default: enabled\ntools: {a: {}}").unwrap().value;
        for files in [[Some(&good), None], [None, Some(&good)]] {
            let policy = merged(files.into_iter(), DestructiveTools::Allowed);
            assert_eq!((policy.default, policy.rules.len()), (DefaultAccess::Disabled, 0));
        }
    }

    #[test]
    fn of_effects_the_careful_file_counts() {
        let files = [
            "default: enabled\neffect: write\ntools: {a: {effect: read}}",
            "{default: enabled, effect: read}",
            "{default: enabled, tools: {a: {effect: write}}}",
        ];
        let policy = policy(&files);
        assert_eq!(policy.max_effect, Some(Effect::Read));
        assert_eq!(policy.rules.get("a").unwrap().effect, Some(Effect::Write));
    }

    #[test]
    fn every_limit_holds() {
        let policy = policy(&[
            "tools: {a: {args: {n: {min: 1, max: 9}, t: {pattern: '[a-z]+|0'}, u: {pattern: 'x'}}}}",
            "tools: {a: {description: d, args: {n: {min: 3}, t: {pattern: 'ab.*'}, v: {max: 1}}}}",
        ]);
        let rule = policy.rules.get("a").unwrap();
        assert_eq!(rule.description.as_deref(), Some("d"));
        let n = &rule.args["n"];
        assert_eq!((n.min, n.max), (Some(3.0), Some(9.0)));
        let t = rule.args["t"].pattern.as_ref().unwrap();
        let matches = |text: &str| t.matches(text).unwrap();
        assert!(matches("ab") && matches("abc"));
        assert!(!matches("ab1") && !matches("xabc") && !matches("0") && !matches("ab\n"));
        assert!(rule.args["u"].pattern.is_some());
        assert_eq!(rule.args["v"].max, Some(1.0));
    }

    #[test]
    fn patterns_that_cannot_be_joined_match_nothing() {
        let joined = |one: &str, other: &str| {
            let file =
                |pattern: &str| format!("tools: {{a: {{args: {{t: {{pattern: '{pattern}'}}}}}}}}");
            let policy = policy(&[&file(one), &file(other)]);
            policy.rules.get("a").unwrap().args["t"].pattern.clone().unwrap()
        };
        assert!(!joined("(a)\\1", "aa").matches("aa").unwrap());
        assert!(!joined("(?i)a", "a").matches("a").unwrap());
        assert!(joined("(?i)a", "(?i)a").matches("A").unwrap());
        assert!(joined("\\\\1", "..").matches("\\1").unwrap());
    }

    #[test]
    fn the_first_container_counts() {
        let policy = policy(&[
            "default: enabled",
            "executor: {type: docker, image: a}",
            "executor: {type: docker, image: b}",
        ]);
        let Executor::Docker(docker) = policy.executor else { panic!("no container") };
        assert_eq!(docker.image, "a");
    }
}
