//! Checks of server definitions, without connecting to the servers.

use std::fs;

use muster_config::mcpserver::{self, McpServerSpec};
use muster_engine::store::{Files, ServerFile};
use muster_exec::{environment::Environment, lookup};

use super::{Finding, Hop, repair::Repair};

/// Checks every definition.
pub(super) fn check(files: &Files, environment: &Environment) -> Vec<Finding> {
    files.servers.values().flat_map(|file| check_one(file, environment)).collect()
}

/// Checks one definition.
pub fn check_one(file: &ServerFile, environment: &Environment) -> impl Iterator<Item = Finding> {
    let address = match file.server.spec.kind.is_local() {
        true => command_line(file, environment),
        false => address(file),
    };
    address.into_iter().chain(unresolved(file))
}

/// Reports servers that wait for an operator's approval. They are not connected.
pub(super) fn pending(files: &Files) -> Vec<Finding> {
    let pending = files.servers.values().filter(|file| file.server.spec.is_pending());
    let findings = pending.map(|file| {
        let name = &file.server.name;
        let message = "it waits for approval, so it is not checked: an agent added or changed it";
        Finding::warning(Hop::Config, "approval-pending", name, message).fix(format!(
            "read {}, then approve it with `muster approve mcpserver {name}`",
            file.path.display()
        ))
    });
    findings.collect()
}

/// Reports a `command` that contains its arguments.
fn command_line(file: &ServerFile, environment: &Environment) -> Option<Finding> {
    let spec = &file.server.spec;
    let path = spec.env.get("PATH").map(String::as_str).or_else(|| environment.get("PATH"));
    if lookup::exists(&spec.command, path) {
        return None;
    }
    let mut words = words(&spec.command)?.into_iter();
    let command = words.next()?;
    let args: Vec<String> = words.chain(spec.args.iter().cloned()).collect();
    if args.len() == spec.args.len() {
        return None;
    }
    let (shown, list) = (quoted(&command), list(&args));
    let wanted = McpServerSpec { command, args, ..spec.clone() };
    let repair = repair(file, &wanted, |line, indent| {
        let value = line.trim_start().strip_prefix("command:")?;
        let comment = value.split_once(" #").map(|(_, comment)| format!(" #{comment}"));
        let comment = comment.unwrap_or_default();
        Some(format!("{indent}command: {shown}{comment}\n{indent}args: {list}"))
    });
    let message = format!("`command` holds a whole command line: {}", spec.command);
    let fix = format!("split it: `command: {shown}` and `args: {list}`");
    let name = &file.server.name;
    let finding = Finding::bad(Hop::Config, "command-with-arguments", name, message);
    Some(finding.fix(fix).repair(repair))
}

/// Reports a `url` without a supported scheme.
fn address(file: &ServerFile) -> Option<Finding> {
    let (name, url) = (&file.server.name, &file.server.spec.url);
    match url.split_once("://") {
        Some(("http" | "https", _)) => return None,
        Some((scheme, rest)) => {
            let message = format!("the scheme `{scheme}` is not supported");
            let finding = Finding::bad(Hop::Config, "url-scheme", name, message);
            return Some(finding.fix(format!("write `url: https://{rest}` or `http://{rest}`")));
        }
        None => (),
    }
    let host = url.split(['/', ':']).next().unwrap_or_default();
    let is_near = host == "localhost" || host.parse::<std::net::Ipv4Addr>().is_ok();
    let rest = url.trim_start_matches('/');
    let wanted = format!("{}://{rest}", if is_near { "http" } else { "https" });
    let spec = McpServerSpec { url: wanted.clone(), ..file.server.spec.clone() };
    let repair = repair(file, &spec, |line, indent| {
        let value = line.trim_start().strip_prefix("url:")?;
        Some(format!("{indent}url:{}", value.replacen(url.as_str(), &wanted, 1)))
    });
    let message = format!("the url `{url}` has no scheme");
    let finding = Finding::bad(Hop::Config, "url-without-scheme", name, message);
    Some(finding.fix(format!("write `url: {wanted}`")).repair(repair))
}

/// Reports `${NAME}` references, which other programs expand but muster does not.
fn unresolved(file: &ServerFile) -> Option<Finding> {
    let spec = &file.server.spec;
    let texts = spec.args.iter().chain(spec.env.values()).chain(spec.headers.values());
    let found = texts.chain([&spec.command, &spec.url]).find_map(|text| {
        let (_, rest) = text.split_once("${")?;
        rest.split_once('}').map(|(name, _)| name.to_owned())
    })?;
    let message =
        format!("`${{{found}}}` is sent as it is written: variables are not filled in here");
    let finding = Finding::warning(Hop::Config, "variable-reference", &file.server.name, message);
    Some(finding.fix(
        "write the value, name the variable in `inheritEnv`, or store a secret and refer to it by `secret://NAME`",
    ))
}

/// A repair that replaces one line of a definition's file; `None` if the result would not be exactly the wanted
/// definition.
pub(super) fn repair(
    file: &ServerFile,
    wanted: &McpServerSpec,
    replace: impl Fn(&str, &str) -> Option<String>,
) -> Option<Repair> {
    let before = fs::read_to_string(&file.path).ok()?;
    let mut replaced = false;
    let lines = before.split('\n').map(|line| {
        let indent = line.get(..line.len() - line.trim_start().len()).unwrap_or_default();
        match replace(line, indent).filter(|_| !replaced) {
            Some(new) => {
                replaced = true;
                new
            }
            None => line.to_owned(),
        }
    });
    let after = lines.collect::<Vec<_>>().join("\n");
    let read = mcpserver::parse(&after, &file.server.name).ok()?.value;
    (replaced && read.spec == *wanted).then(|| Repair::Text {
        path: file.path.clone(),
        before,
        after,
    })
}

/// Splits a command line as a shell does, without expansions; `None` if a quote is not closed.
fn words(line: &str) -> Option<Vec<String>> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    let mut letters = line.chars();
    while let Some(letter) = letters.next() {
        match (quote, letter) {
            (Some(open), letter) if letter == open => quote = None,
            (None, '\'' | '"') => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            (None | Some('"'), '\\') => word.get_or_insert_default().extend(letters.next()),
            (None, letter) if letter.is_whitespace() => words.extend(word.take()),
            (_, letter) => word.get_or_insert_default().push(letter),
        }
    }
    words.extend(word);
    quote.is_none().then_some(words)
}

fn list(words: &[String]) -> String {
    format!("[{}]", words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(", "))
}

/// Writes a text as a YAML scalar in a flow list.
fn quoted(word: &str) -> String {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "-_./@+".contains(letter);
    let is_text =
        word.starts_with(|first: char| first.is_ascii_alphabetic() || "./@".contains(first));
    let is_keyword = ["yes", "no", "on", "off", "true", "false", "null", "y", "n"]
        .contains(&word.to_lowercase().as_str());
    match is_text && !is_keyword && word.chars().all(plain) {
        true => word.to_owned(),
        false => serde_json::Value::from(word).to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::{list, words};

    #[test]
    fn command_lines() {
        let split = |line: &str| words(line).map(|words| list(&words));
        assert_eq!(split("npx -y pkg@1").unwrap(), r#"[npx, "-y", pkg@1]"#);
        assert_eq!(
            split(r#"sh -c 'a b' "c\"d" e\ f ''"#).unwrap(),
            r#"[sh, "-c", "a b", "c\"d", "e f", ""]"#
        );
        assert_eq!(split("a 'b"), None);
    }
}
