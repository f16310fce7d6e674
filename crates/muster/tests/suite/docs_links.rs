//! Checks that every relative link and anchor in the Markdown files of the repository resolves.

use std::{
    fs,
    path::{Path, PathBuf},
};

use super::docs::root;

/// Folders that hold other people's files.
const SKIPPED: &[&str] = &["target", "node_modules", ".git", "__pycache__"];

/// Every Markdown file below a folder.
pub(crate) fn markdown_files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() && !SKIPPED.contains(&&*name) {
            found.extend(markdown_files(&path));
        } else if name.ends_with(".md") {
            found.push(path);
        }
    }
    found
}

/// The lines of a page outside code blocks, with their numbers.
fn prose(page: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut in_block = false;
    page.lines().enumerate().filter_map(move |(at, line)| {
        let is_fence = line.trim_start().starts_with("```");
        in_block ^= is_fence;
        (!in_block && !is_fence).then_some((at + 1, line))
    })
}

/// The targets of the links in one line, ignoring inline code.
fn targets(line: &str) -> Vec<&str> {
    let outside_code = line.split('`').step_by(2);
    outside_code
        .flat_map(|part| part.split("](").skip(1))
        .filter_map(|rest| Some(rest.split_once(')')?.0))
        .collect()
}

/// The anchors of a page's headings, as GitHub makes them.
fn anchors(page: &str) -> Vec<String> {
    let mut anchors: Vec<String> = Vec::new();
    for (_, line) in prose(page) {
        let Some(title) = line.strip_prefix('#') else { continue };
        let title = title.trim_start_matches('#').trim().to_lowercase();
        let slug: String = title
            .chars()
            .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'))
            .map(|c| if c == ' ' { '-' } else { c })
            .collect();
        let same = anchors.iter().filter(|known| **known == slug).count();
        anchors.push(if same == 0 { slug } else { format!("{slug}-{same}") });
    }
    anchors
}

#[test]
fn every_relative_link_resolves() {
    let mut broken = Vec::new();
    let mut checked = 0;
    for file in markdown_files(&root()) {
        let page = fs::read_to_string(&file).unwrap();
        for (line, target) in
            prose(&page).flat_map(|(at, line)| targets(line).into_iter().map(move |t| (at, t)))
        {
            if target.contains(':') {
                continue;
            }
            checked += 1;
            let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
            let linked = match path {
                "" => file.clone(),
                path => file.parent().unwrap().join(path),
            };
            let resolves = match anchor {
                "" => linked.exists(),
                anchor => fs::read_to_string(&linked)
                    .is_ok_and(|page| anchors(&page).iter().any(|known| known == anchor)),
            };
            if !resolves {
                broken.push(format!("{}:{line}: {target}", file.display()));
            }
        }
    }
    assert!(checked > 50, "only {checked} links were found");
    assert!(broken.is_empty(), "broken links:\n{}", broken.join("\n"));
}

#[test]
fn every_page_is_in_the_index() {
    let docs = root().join("docs");
    let index = fs::read_to_string(docs.join("README.md")).unwrap();
    for page in markdown_files(&docs) {
        let name = page.strip_prefix(&docs).unwrap().display().to_string();
        let folder_index = name.starts_with("decisions/") && name != "decisions/README.md";
        let listed = name == "README.md" || folder_index || index.contains(&format!("({name})"));
        assert!(listed, "docs/README.md does not link to {name}");
    }
}

/// Folders of the repository that pages refer to by path.
const FOLDERS: &[&str] = &["crates/", "configs/", "scripts/", "scenarios/", "examples/"];

#[test]
fn every_path_that_contributors_are_sent_to_exists() {
    let mut missing = Vec::new();
    for name in ["CONTRIBUTING.md", "ARCHITECTURE.md"] {
        let page = fs::read_to_string(root().join(name)).unwrap();
        for (line, text) in prose(&page) {
            let code = text.split('`').skip(1).step_by(2);
            let paths = code.filter(|code| FOLDERS.iter().any(|folder| code.starts_with(folder)));
            // A placeholder, or a command with arguments.
            let concrete = paths.filter(|path| !path.contains(['<', '*', ' ']));
            missing.extend(
                concrete
                    .filter(|path| !root().join(path).exists())
                    .map(|path| format!("{name}:{line}: {path}")),
            );
        }
    }
    assert!(missing.is_empty(), "missing:\n{}", missing.join("\n"));
}

/// The code map of ARCHITECTURE.md: a folder for each crate, then its files, with what they are.
#[test]
fn every_file_of_the_code_map_exists() {
    let page = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let map = page.split("```").nth(1).unwrap();
    let all = files_below(&root().join("crates"));
    let (mut crate_files, mut checked, mut missing) = (Vec::new(), 0, Vec::new());
    for line in map.lines() {
        let Some(entry) = line.strip_prefix("  ") else { continue };
        if let Some((name, _)) = entry.split_once("/ ").filter(|_| !entry.starts_with(' ')) {
            crate_files = files_below(&root().join("crates").join(name));
            assert!(!crate_files.is_empty(), "there is no crate {name}");
            continue;
        }
        let is_path = |word: &&str| word.ends_with(".rs") || word.ends_with('/');
        let words = entry.split([' ', ',', ':', ';', '(', ')', '`']).filter(is_path);
        for (index, word) in words.enumerate() {
            checked += 1;
            // A line begins with a file of its crate; its text may also name one of another crate.
            let files = if index == 0 { &crate_files } else { &all };
            let name = format!("/{}", word.trim_end_matches('/').trim_start_matches("*/"));
            let is_there =
                |path: &String| path.ends_with(&name) || path.contains(&format!("{name}/"));
            if !files.iter().any(is_there) {
                missing.push(word.to_owned());
            }
        }
    }
    assert!(checked > 150, "only {checked} files were found");
    assert!(missing.is_empty(), "missing: {missing:?}");
}

/// The paths of all files below a folder.
fn files_below(folder: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let paths = entries.map(|entry| entry.unwrap().path());
    paths
        .flat_map(|path| match path.is_dir() {
            true => files_below(&path),
            false => vec![path.display().to_string()],
        })
        .collect()
}

#[test]
fn anchors_are_made_as_github_makes_them() {
    let page = "# `muster serve`: it runs\n## A, b & c\n```\n# code\n```\n## A, b & c\n";
    assert_eq!(anchors(page), ["muster-serve-it-runs", "a-b--c", "a-b--c-1"]);
    assert_eq!(targets("see [`x`](a.md#b), not `[y](c)`"), ["a.md#b"]);
}
