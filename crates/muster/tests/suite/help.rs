//! What the shell completes, and the examples of the help.

use clap::CommandFactory as _;

use super::desk::Desk;

#[test]
fn live_names_are_completed() {
    let desk = Desk::new();
    let complete = |words: &[&str]| {
        let output = desk
            .command()
            .env("MUSTER_COMPLETE", "bash")
            .env("_CLAP_COMPLETE_INDEX", words.len().to_string())
            .env("_CLAP_IFS", " ")
            .args(["--", "muster"])
            .args(words)
            .output()
            .unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{words:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    assert_eq!(desk.run(&["__complete", "get", "mcpserver", ""]).lines().nth(1), Some("github"));
    assert_eq!(complete(&["get", "mcps"]), "mcpserver");
    assert_eq!(complete(&["get", "mcpserver", "GIT"]), "github");
    assert_eq!(complete(&["start", "service", "mcp"]), "mcp-aggregator");
    assert_eq!(complete(&["call", "core_even"]), "core_events");
    assert_eq!(complete(&["call", "core_events", "resourceT"]), "resourceType=");
    assert_eq!(complete(&["list", "workflow-executions"]), "workflow-executions");
    let scenarios = desk.home.file("scenarios");
    std::fs::create_dir(&scenarios).unwrap();
    let scenario = "name: deploy-twice\ncategory: behavioral\nconcept: workflow\n\
                    steps: [{id: look, tool: core_events, expected: {success: true}}]\n";
    std::fs::write(scenarios.join("one.yaml"), scenario).unwrap();
    let config = format!("--config={}", scenarios.display());
    assert_eq!(complete(&["test", &config, "--scenario", "dep"]), "deploy-twice");
    assert_eq!(complete(&["test", &config, "--category", "b"]), "behavioral");
    assert_eq!(complete(&["test", &config, "--concept", ""]), "workflow");
    desk.run(&["context", "add", "lab", "--endpoint", "http://x/mcp"]);
    assert_eq!(complete(&["context", "use", "l"]), "lab");
    assert_eq!(complete(&["list", "tools", "--context", "l"]), "lab");
    let nobody =
        complete(&["--quiet", "get", "service", "x", "--endpoint", "http://127.0.0.1:9/mcp"]);
    assert!(!nobody.contains("error"), "{nobody}");
    for shell in ["bash", "zsh", "fish", "powershell"] {
        assert!(desk.run(&["completion", shell]).contains("MUSTER_COMPLETE"), "{shell}");
        let brief = desk.run(&["completion", shell, "--no-descriptions"]);
        assert!(brief.contains("MUSTER_COMPLETE_BRIEF"), "{shell}");
    }
    for (variable, is_described) in [("MUSTER_COMPLETE", true), ("MUSTER_COMPLETE_BRIEF", false)] {
        let output =
            desk.command().env(variable, "fish").args(["--", "muster", "sear"]).output().unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        assert!(said.starts_with("search"), "{variable}: {said}");
        assert_eq!(said.contains('\t'), is_described, "{variable}: {said}");
    }
}

/// What cannot work in a test, and why.
const ELSEWHERE: &[(&str, &str)] = &[
    ("muster serve", "goes on until it is stopped"),
    ("muster test", "needs scenarios"),
    ("muster events --follow", "goes on until it is stopped"),
    ("muster calls --follow", "goes on until it is stopped"),
    ("muster calls 1234", "needs so many calls"),
    ("muster calls --caller ci", "needs calls of a token"),
    (
        "muster migrate kubernetes --namespace muster --apply",
        "needs a cluster; see interop/kubernetes.py",
    ),
    ("muster migrate files", "needs a cluster; see interop/kubernetes.py"),
    ("muster session end", "needs that session"),
    ("muster policy check x_", "needs these tools"),
    ("muster self-update", "needs releases"),
    ("muster auth login", "needs a gateway that wants logins"),
    ("muster agent", "goes on until it is stopped"),
    ("muster standalone", "goes on until it is stopped"),
    ("muster top", "goes on until it is stopped"),
    ("muster status", "ends with what it finds"),
    ("muster stop", "stops the gateway of a directory; see one_gateway.rs"),
    ("muster import", "reads what other programs have"),
    ("muster connect", "writes what other programs read"),
    ("muster doctor", "ends with what is wrong on the machine"),
    ("muster apply", "needs files; see verbs.rs"),
    ("muster edit", "needs an editor; see verbs.rs"),
    ("muster validate", "needs files; see verbs.rs"),
    ("muster create workflow --filename", "needs a file; see verbs.rs"),
    ("muster create serviceclass --filename", "needs a file; see verbs.rs"),
    ("muster delete", "deletes what other examples need; see verbs.rs"),
    ("muster restart service", "needs a service; see verbs.rs"),
    ("muster logs mcpserver github --follow", "goes on until it is stopped"),
    ("muster completion", "writes to places of the system"),
    ("muster man", "writes to places of the system"),
];

#[test]
fn every_example_of_the_help_works() {
    let desk = Desk::new();
    desk.run(&["context", "add", "lab", "--endpoint", &desk.url(), "--use"]);
    desk.run(&["start", "service", "github"]);
    let mut seen = 0;
    for example in examples(&muster::cli::Cli::command()) {
        let words = words(&example);
        let parsed = muster::cli::Cli::command().try_get_matches_from(&words);
        assert!(parsed.is_ok(), "{example}: {}", parsed.unwrap_err());
        seen += 1;
        if ELSEWHERE.iter().any(|(begin, _)| example.starts_with(begin)) {
            continue;
        }
        if example.starts_with("muster migrate kubernetes") {
            let toolsets = desk.home.file(".config/muster/toolsets");
            std::fs::create_dir_all(&toolsets).unwrap();
            std::fs::write(toolsets.join("reading.yaml"), "tools: ['*']\neffect: read\n").unwrap();
        }
        if example.starts_with("muster check") {
            desk.run(&["start", "service", "github"]);
        }
        if example.starts_with("muster create service") {
            desk.run(&["call", "core_service_delete", "name=db-forward"]);
        }
        if example.starts_with("muster context add lab") {
            desk.run(&["context", "delete", "lab", "--force"]);
        }
        if example.starts_with("muster create mcpserver") {
            desk.run(&["call", "core_mcpserver_delete", "name=files"]);
            desk.run(&["call", "core_mcpserver_delete", "name=search"]);
        }
        if let Some(name) = example.strip_prefix("muster create workflow ") {
            let name = name.split(' ').next().unwrap();
            desk.run(&["delete", "workflow", name, "--yes"]);
        }
        let words: Vec<&str> = words.iter().skip(1).map(String::as_str).collect();
        let said = desk.run(&words);
        assert!(!said.contains("\nexit "), "{said}");
    }
    assert!(seen > 30, "only {seen} examples were found");
}

/// The lines below `Examples:` of a command and of all below it.
fn examples(command: &clap::Command) -> Vec<String> {
    let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let (_, lines) = help.split_once("Examples:\n").unwrap_or_default();
    let mut found: Vec<String> = lines
        .lines()
        .map(|line| line.trim().split("   ").next().unwrap().to_owned())
        .filter(|line| line.starts_with("muster ") && !line.contains("DIR"))
        .map(|line| line.split(" > ").next().unwrap().split(" | ").next().unwrap().to_owned())
        .collect();
    found.retain(|line| !line.contains("WORDS") && !line.contains("TOOL"));
    found.extend(command.get_subcommands().flat_map(examples));
    found
}

/// The words of a line, as a shell takes them: quotes keep blanks.
fn words(line: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut quoted = false;
    for letter in line.chars() {
        match letter {
            '\'' => quoted = !quoted,
            ' ' if !quoted => words.push(String::new()),
            letter => words.last_mut().unwrap().push(letter),
        }
    }
    words
}
