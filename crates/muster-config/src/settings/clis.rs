//! The bundled CLIs that a gateway offers, and edits of that choice that keep the rest of `config.yaml`.

use muster_core::value::Value;

use super::{Clis, choice::BundledClis, parse, setting::Setting as _};
use crate::{
    writer,
    yaml::{self, Node, NodeValue},
};

impl Clis {
    /// The part of the bundled CLI `name` that is offered. `disabled` wins over `enabled`.
    pub fn offered(&self, name: &str) -> BundledClis {
        let has = |list: &[String]| list.iter().any(|one| one == name);
        match (has(&self.disabled), has(&self.enabled)) {
            (true, _) => BundledClis::None,
            (false, true) => BundledClis::All,
            (false, false) => self.bundled,
        }
    }

    /// Offers all tools of the bundled CLI `name`.
    pub fn enable(&mut self, name: &str) {
        self.disabled.retain(|one| one != name);
        if self.offered(name) != BundledClis::All {
            self.enabled.push(name.to_owned());
        }
    }

    /// Offers no tools of the bundled CLI `name`.
    pub fn disable(&mut self, name: &str) {
        self.enabled.retain(|one| one != name);
        if self.offered(name) != BundledClis::None {
            self.disabled.push(name.to_owned());
        }
    }
}

/// Returns the text of a `config.yaml` with its lists of enabled and disabled CLIs replaced. Comments and all other
/// keys are preserved. `None` if the layout of the file does not allow that, or the file is invalid.
pub fn with_clis(text: &str, clis: &Clis) -> Option<String> {
    let mut expected = parse(text).ok()?.value;
    let before = expected.clis.clone();
    let mut edited = text.to_owned();
    for (key, was, list) in [
        ("enabled", &before.enabled, &clis.enabled),
        ("disabled", &before.disabled, &clis.disabled),
    ] {
        if was != list {
            edited = put_list(&edited, key, list, clis)?;
        }
    }
    expected.clis = clis.clone();
    (parse(&edited).ok()?.value == expected).then_some(edited)
}

/// Replaces or adds one list of the section `clis`.
fn put_list(text: &str, key: &str, list: &[String], clis: &Clis) -> Option<String> {
    let items: Vec<String> =
        list.iter().map(|name| writer::scalar(&Value::Text(name.clone()))).collect();
    let line = |indent: usize| format!("{:indent$}{key}: [{}]\n", "", items.join(", "));
    let root = yaml::parse(text).ok()?;
    let top = match &root.value {
        NodeValue::Map(pairs) => pairs.as_slice(),
        _ if root.to_value() == Value::Null => &[],
        _ => return None,
    };
    if top.iter().any(|(key, _)| key.column != 1) {
        return None;
    }
    let Some((section, value)) = top.iter().find(|(key, _)| key.as_text() == Some("clis")) else {
        let end = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
        return Some(format!("{text}{end}clis:\n{}", line(2)));
    };
    let after = |line: usize, pairs: &[(Node, Node)]| {
        pairs.iter().map(|(key, _)| key.line).filter(|next| *next > line).min()
    };
    let end = after(section.line, top);
    match &value.value {
        NodeValue::Map(pairs) if pairs.iter().all(|(key, _)| key.line > section.line) => {
            let indent = pairs.first().map_or(2, |(key, _)| key.column - 1);
            Some(match pairs.iter().find(|(inner, _)| inner.as_text() == Some(key)) {
                Some((inner, _)) => {
                    splice(text, inner.line, after(inner.line, pairs).or(end), &line(indent))
                }
                None => splice(text, section.line + 1, Some(section.line + 1), &line(indent)),
            })
        }
        // Written on one line, or empty.
        _ => {
            let block = writer::document(&[(Value::Text("clis".to_owned()), clis.changed())]);
            Some(splice(text, section.line, end, &block))
        }
    }
}

/// Replaces the lines from `first` until `next`, counted from 1. Comments and blank lines before `next`
/// belong to what follows.
fn splice(text: &str, first: usize, next: Option<usize>, block: &str) -> String {
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let until = next.map_or(lines.len(), |next| next - 1);
    let inside = lines.get(first - 1..until).unwrap_or_default();
    let is_content = |line: &&str| !matches!(line.trim_start().chars().next(), None | Some('#'));
    let kept = inside.iter().rposition(is_content).map_or(0, |last| last + 1);
    let before = lines.iter().take(first - 1);
    let after = inside.iter().skip(kept).chain(lines.iter().skip(until));
    let mut edited: String = before.copied().collect();
    if !edited.is_empty() && !edited.ends_with('\n') {
        edited.push('\n');
    }
    edited.push_str(block);
    edited.extend(after.copied());
    edited
}

#[cfg(test)]
mod tests {
    use super::{BundledClis, with_clis};
    use crate::settings::{Clis, parse};

    #[track_caller]
    fn check(before: &str, change: impl Fn(&mut Clis), after: &str) {
        let mut clis = parse(before).unwrap().value.clis;
        change(&mut clis);
        assert_eq!(with_clis(before, &clis).as_deref(), Some(after));
    }

    #[test]
    fn names_override_the_default() {
        let mut clis = Clis::default();
        assert_eq!(clis.offered("git"), BundledClis::ReadOnly);
        clis.enable("git");
        assert_eq!(clis.offered("git"), BundledClis::All);
        clis.disable("git");
        assert_eq!(clis.offered("git"), BundledClis::None);
        assert_eq!((clis.enabled.len(), clis.disabled.len()), (0, 1));
        clis.bundled = BundledClis::None;
        clis.disabled.clear();
        clis.disable("git");
        assert!(clis.disabled.is_empty(), "it is off already");
    }

    #[test]
    fn edits_keep_everything_else() {
        let enable = |clis: &mut Clis| clis.enable("gh");
        check("", enable, "clis:\n  enabled: [gh]\n");
        check("# mine\n", enable, "# mine\nclis:\n  enabled: [gh]\n");
        check(
            "aggregator:\n  port: 1 # one\n\n# CLIs\nclis:\n    # why\n    bundled: none\n",
            enable,
            "aggregator:\n  port: 1 # one\n\n# CLIs\nclis:\n    enabled: [gh]\n    # why\n    bundled: none\n",
        );
        check(
            "clis:\n  enabled:\n    - a # first\n    - b\n  # below\n  bundled: none\n# end\n",
            enable,
            "clis:\n  enabled: [a, b, gh]\n  # below\n  bundled: none\n# end\n",
        );
        check(
            "clis: {bundled: none} # off\nnamespace: n",
            enable,
            "clis:\n  bundled: none\n  enabled:\n    - gh\nnamespace: n",
        );
        check("clis:\nnamespace: n\n", enable, "clis:\n  enabled:\n    - gh\nnamespace: n\n");
        check(
            "clis:\n  enabled: [gh]",
            |clis| clis.disable("gh"),
            "clis:\n  disabled: [gh]\n  enabled: []\n",
        );
    }

    #[test]
    fn what_cannot_be_edited_is_left_alone() {
        let mut clis = Clis::default();
        clis.enable("gh");
        for text in ["{namespace: n}", "clis: [", "clis: {bundled: some}", "a: &x 1\n"] {
            assert_eq!(with_clis(text, &clis).is_none(), text != "a: &x 1\n", "{text}");
        }
    }
}
