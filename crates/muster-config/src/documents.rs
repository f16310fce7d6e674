//! Files with several YAML documents, and documents as JSON.

use serde_json::Value as Json;

use crate::{
    reader::values,
    yaml::{self, SyntaxError},
};

/// A document as JSON.
pub fn json(text: &str) -> Result<Json, SyntaxError> {
    yaml::parse(text).map(|root| values::json(&root))
}

/// A document of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct YamlDocument {
    /// Its text, after an empty line for each line of the file before it, so that line numbers are those of the file.
    pub text: String,
    /// The line that it starts in, from 1.
    pub line: usize,
}

/// The documents of a text that are not empty. A line that begins with `---` starts one, also inside a block of
/// text: YAML allows it nowhere else.
pub fn documents(text: &str) -> Vec<YamlDocument> {
    let mut found = vec![YamlDocument { text: String::new(), line: 1 }];
    for (number, line) in (1..).zip(text.split_inclusive('\n')) {
        let starts = line
            .strip_prefix("---")
            .is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '\t', '\n', '\r']));
        let ends = line.trim_end() == "...";
        if starts || ends {
            // Text after `---` on the same line belongs to the document.
            let rest = if starts { line.get(3..).unwrap_or_default() } else { "\n" };
            let text = format!("{}{rest}", "\n".repeat(number - 1));
            found.push(YamlDocument { text, line: number });
        } else if let Some(last) = found.last_mut() {
            last.text.push_str(line);
        }
    }
    found.retain(|document| document.text.lines().any(is_content));
    for document in &mut found {
        let first = document.text.lines().position(is_content).unwrap_or_default();
        document.line = document.line.max(first + 1);
    }
    found
}

fn is_content(line: &str) -> bool {
    let line = line.trim();
    !line.is_empty() && !line.starts_with('#') && !line.starts_with('%')
}

#[cfg(test)]
mod tests {
    use super::documents;
    use crate::yaml;

    #[test]
    fn each_document_keeps_its_lines() {
        let text = "# both\n---\na: 1\n--- # second\nb: |\n  x\n  ---\n...\n---\n# nothing\n";
        let found = documents(text);
        let lines: Vec<usize> = found.iter().map(|document| document.line).collect();
        assert_eq!(lines, [3, 5]);
        for (document, (key, line)) in found.iter().zip([("a", 3), ("b", 5)]) {
            let node = yaml::parse(&document.text).unwrap();
            let yaml::NodeValue::Map(pairs) = &node.value else { panic!("{node:?}") };
            assert_eq!((pairs[0].0.as_text(), pairs[0].0.line), (Some(key), line));
        }
        assert_eq!(documents("").len(), 0);
        assert_eq!(documents("a: 1")[0].text, "a: 1");
        assert_eq!(documents("--- {a: 1}\n")[0].line, 1);
    }
}
