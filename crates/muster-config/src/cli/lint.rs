//! Lints for CLI configs: likely mistakes that do not keep a config from loading, because CLImax loads it too.

use std::collections::BTreeMap;

use crate::{
    Problem, ProblemKind,
    reader::repeated_keys,
    yaml::{self, Node, NodeValue},
};

/// The longest name that MCP clients accept.
const LONGEST_NAME: usize = 128;

/// The mistakes in the text of a config, by line.
pub fn lint(text: &str) -> Vec<Problem> {
    let mut problems = repeated_keys(text);
    problems.extend(yaml::parse(text).iter().flat_map(names));
    problems.sort_by_key(|problem| (problem.line, problem.column));
    problems
}

/// Problems with the names of tools.
fn names(root: &Node) -> Vec<Problem> {
    let mut first: BTreeMap<&str, usize> = BTreeMap::new();
    let mut problems = Vec::new();
    for (index, node) in tools(root).iter().enumerate() {
        let Some(node) = field(node, "name") else { continue };
        let Some(name) = node.as_text() else { continue };
        let mut report = |message: String, fix: String| {
            problems.push(Problem {
                path: vec!["tools".to_owned(), index.to_string(), "name".to_owned()],
                message,
                fix: Some(fix),
                line: node.line,
                column: node.column,
                kind: ProblemKind::Invalid,
            });
        };
        if !is_valid(name) {
            report(
                format!("`{name}` is not a name that MCP clients accept"),
                format!("use letters, digits, `_` and `-`: `{}`", repaired(name)),
            );
        }
        match first.get(name) {
            None => drop(first.insert(name, node.line)),
            Some(line) => report(
                format!("there are two tools named `{name}`: the one of line {line} has no effect"),
                "rename one of them".to_owned(),
            ),
        }
    }
    problems
}

fn tools(root: &Node) -> &[Node] {
    match field(root, "tools").map(|node| &node.value) {
        Some(NodeValue::List(tools)) => tools,
        Some(NodeValue::Scalar(_) | NodeValue::Map(_)) | None => &[],
    }
}

fn field<'n>(node: &'n Node, name: &str) -> Option<&'n Node> {
    let NodeValue::Map(pairs) = &node.value else { return None };
    pairs.iter().find(|(key, _)| key.as_text() == Some(name)).map(|(_, value)| value)
}

fn is_valid(name: &str) -> bool {
    !name.is_empty() && name.len() <= LONGEST_NAME && name.chars().all(is_name_letter)
}

fn is_name_letter(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || "_-.".contains(letter)
}

/// A valid name that resembles this one.
fn repaired(name: &str) -> String {
    let words = name.split(|letter| !is_name_letter(letter)).filter(|word| !word.is_empty());
    let joined: String = words.collect::<Vec<_>>().join("_").chars().take(LONGEST_NAME).collect();
    if joined.is_empty() { "tool".to_owned() } else { joined }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::lint;

    #[track_caller]
    #[expect(clippy::needless_pass_by_value, reason = "reads better in the tables")]
    fn check(text: &str, expect: Expect) {
        let report: String = lint(text)
            .iter()
            .map(|problem| {
                let fix = problem.fix.as_deref().unwrap_or_default();
                format!("{}:{} {problem} ({fix})\n", problem.line, problem.column)
            })
            .collect();
        expect.assert_eq(&report);
    }

    #[test]
    fn mistakes_are_named() {
        check(
            "command: a\ncommand: b\ntools:\n- {name: tar list!, description: d, description: e}\n- {name: x, description: d}\n- {name: x, description: d}\n- {name: '', description: d}\n",
            expect![[r#"
                2:1 command: `command` is written twice: line 1 has no effect (remove one of them)
                4:10 tools → 0 → name: `tar list!` is not a name that MCP clients accept (use letters, digits, `_` and `-`: `tar_list`)
                4:37 description: `description` is written twice: line 4 has no effect (remove one of them)
                6:10 tools → 2 → name: there are two tools named `x`: the one of line 5 has no effect (rename one of them)
                7:10 tools → 3 → name: `` is not a name that MCP clients accept (use letters, digits, `_` and `-`: `tool`)
            "#]],
        );
    }

    #[test]
    fn what_is_intended_is_no_mistake() {
        check(
            "x-base: &b {type: string}\ncommand: a\ntools:\n- {name: a.b-c_1, description: d, args: [{<<: *b, type: integer, name: n}]}\n",
            expect![[""]],
        );
        check("", expect![[""]]);
        check("tools: 1", expect![[""]]);
        check("[", expect![[""]]);
    }
}
