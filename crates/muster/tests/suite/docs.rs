//! What the pages say is true: their examples are read, and their commands are run.

use std::{fs, path::Path, process::Command};

use expect_test::expect_file;

use super::{
    client::{CLIMAX, Folder},
    docs_links::markdown_files,
};

pub(crate) fn root() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn pages() -> Vec<std::path::PathBuf> {
    let mut pages = markdown_files(&root().join("docs"));
    pages.extend(["README.md", "CONTRIBUTING.md", "skill/SKILL.md"].map(|page| root().join(page)));
    pages
}

/// The blocks of a page in one language.
fn blocks<'a>(page: &'a str, language: &str) -> Vec<&'a str> {
    let fence = format!("```{language}\n");
    page.split(&fence).skip(1).map(|rest| rest.split_once("```").unwrap().0).collect()
}

/// A server says how it is reached, a config what it runs, a workflow its steps; a policy has nothing of
/// that kind.
pub(crate) fn check_yaml(block: &str) -> Result<(), String> {
    let dedented = dedent(block);
    let block = dedented.as_str();
    let is_part_of_scenario = block.lines().any(|line| line.starts_with("pre_configuration:"))
        && !block.contains("concept:");
    // Values of the Helm chart are rendered by interop/chart.py.
    if is_part_of_scenario || block.starts_with("# values.yaml") {
        return muster_config::yaml::parse(block).map(drop).map_err(|err| err.to_string());
    }
    if block.lines().any(|line| line.starts_with("concept:")) {
        let loaded = muster_scenario::load::parse(Path::new("example"), block);
        return loaded.scenario.map(drop).ok_or_else(|| format!("{:?}", loaded.problems));
    }
    let has = |start: &str| block.lines().any(|line| line.starts_with(start));
    let is_settings =
        ["aggregator:", "access:", "clis:", "metrics:", "history:", "console:", "traces:"]
            .into_iter()
            .chain(["replicas:", "search:", "kubernetes:"])
            .any(has);
    let warnings = if is_settings {
        muster_config::settings::parse(block).map(|loaded| loaded.warnings)
    } else if has("# toolsets/") {
        muster_config::toolset::parse(block, "example").map(|loaded| loaded.warnings)
    } else if has("serviceConfig:") {
        muster_config::serviceclass::parse(block, "example").map(|loaded| loaded.warnings)
    } else if has("kind: Service") || has("serviceClassName:") {
        muster_config::service::parse(block, "example").map(|loaded| loaded.warnings)
    } else if has("type:") || has("url:") {
        muster_config::mcpserver::parse(block, "example").map(|loaded| loaded.warnings)
    } else if has("steps:") {
        muster_config::workflow::parse(block, "example").map(|loaded| loaded.warnings)
    } else if has("command:") {
        muster_config::cli::parse(block).map(|loaded| loaded.warnings)
    } else {
        muster_config::policy::parse(block).map(|loaded| loaded.warnings)
    };
    match warnings {
        Ok(warnings) if warnings.is_empty() => Ok(()),
        Ok(warnings) => Err(format!("{warnings:?}")),
        Err(err) => Err(err.to_string()),
    }
}

/// A block inside a list is indented with it.
fn dedent(block: &str) -> String {
    let lines = || block.lines().filter(|line| !line.trim().is_empty());
    let depth = lines().map(|line| line.len() - line.trim_start().len()).min().unwrap_or(0);
    block.lines().map(|line| format!("{}\n", line.get(depth..).unwrap_or_default())).collect()
}

#[test]
fn every_example_is_valid() {
    let mut seen = 0;
    for path in pages() {
        let page = fs::read_to_string(&path).unwrap();
        for block in blocks(&page, "yaml") {
            check_yaml(block).unwrap_or_else(|err| panic!("{}: {err}\n{block}", path.display()));
            seen += 1;
        }
        for block in blocks(&page, "json") {
            let json: Result<serde_json::Value, _> = serde_json::from_str(block);
            json.unwrap_or_else(|err| panic!("{}: {err}\n{block}", path.display()));
        }
    }
    assert!(seen >= 7, "only {seen} blocks of YAML were found");
}

#[test]
fn getting_started_happens_as_it_is_told() {
    let page = fs::read_to_string(root().join("docs/tutorials/getting-started.md")).unwrap();
    let folder = Folder::new(&[]);
    for block in blocks(&page, "yaml") {
        let name = block.lines().next().unwrap().strip_prefix("# ").unwrap();
        fs::write(folder.file(name), block).unwrap();
    }
    let mut parts = page.split("```console\n");
    let before = parts.next().unwrap().to_owned();
    let told = parts.fold(before, |told, part| {
        let (block, rest) = part.split_once("```").unwrap();
        let happened: String = commands(block).iter().map(|words| run(&folder, words)).collect();
        format!("{told}```console\n{happened}```{rest}")
    });
    expect_file!["../../../../docs/tutorials/getting-started.md"].assert_eq(&told);
}

/// The commands of a block: a line after `$`, with the lines of a here-document.
fn commands(block: &str) -> Vec<String> {
    let mut commands: Vec<String> = Vec::new();
    let mut inside = false;
    for line in block.lines() {
        match line.strip_prefix("$ ") {
            Some(command) => {
                inside = command.ends_with("<<'END'");
                commands.push(command.to_owned());
            }
            None if inside => {
                commands.last_mut().unwrap().extend(["\n", line]);
                inside = line != "END";
            }
            None => (),
        }
    }
    commands
}

/// A command and what it prints, as on a page.
fn run(folder: &Folder, command: &str) -> String {
    let programs = Path::new(CLIMAX).parent().unwrap().display();
    let script = format!("PATH={programs}:$PATH\n{command}");
    let output = Command::new("sh")
        .args(["-c", &script])
        .current_dir(folder.path())
        .env("HOME", folder.path())
        .env_remove("CLIMAX_LOG_FILE")
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{command}");
    let lines: String = String::from_utf8(output.stdout)
        .unwrap()
        .lines()
        .map(|line| format!("{}\n", line.trim_end()))
        .collect();
    format!("$ {command}\n{lines}")
}
