//! `apply`, `edit`, `delete`, `restart`, `logs` and `validate`, and resources created from files and flags.

use std::{
    fs,
    io::{BufRead as _, BufReader, Write as _},
    process::{Command, Stdio},
};

use expect_test::expect;

use super::{client::Folder, desk::Desk, serve::MUSTER};

const RESOURCES: &str = "\
# a server, a workflow and a class
name: files
command: mcp-files
args: [/srv, --token, canary-arg]
env: {API_TOKEN: canary-env, LEVEL: info}
autoStart: false
---
kind: Workflow
metadata: {name: look}
spec:
  steps:
    - {id: a, tool: x_nobody_tool, args: {q: \"{{ .input.what }}\"}}
---
kind: ServiceClass
metadata: {name: probe}
spec:
  serviceConfig:
    timeout: {create: 30s}
    lifecycleTools:
      start: {tool: x_github_greet, args: {name: a}}
      stop: {tool: x_github_greet, args: {name: a}}
";

#[test]
fn files_are_applied() {
    let desk = Desk::new();
    let file = desk.home.file("all.yaml");
    fs::write(&file, RESOURCES).unwrap();
    let path = file.to_str().unwrap();
    let first = [desk.run(&["apply", "-f", path, "--dry-run"]), desk.run(&["apply", "-f", path])];
    fs::write(&file, RESOURCES.replace("/srv", "/tmp").replace("30s", "40s")).unwrap();
    let second = [desk.run(&["apply", "-f", path]), desk.run(&["get", "workflow", "look"])];
    let said = [first, second].concat().concat();
    assert!(!said.contains("canary"), "{said}");
    expect![[r#"
        $ muster apply -f [HOME]/all.yaml --dry-run
        mcpserver files would be created
        workflow look would be created
          warning: steps.0.tool: there is no tool `x_nobody_tool`: the workflow is not available
          hint: find its name with `muster search`
          warning: steps.0.args.q: `.input.what` is not among the arguments
          hint: declare it: `args: {what: {type: string}}`
        serviceclass probe would be created
        $ muster apply -f [HOME]/all.yaml
        mcpserver files created
        workflow look created
          warning: steps.0.tool: there is no tool `x_nobody_tool`: the workflow is not available
          hint: find its name with `muster search`
          warning: steps.0.args.q: `.input.what` is not among the arguments
          hint: declare it: `args: {what: {type: string}}`
        serviceclass probe created
        $ muster apply -f [HOME]/all.yaml
        mcpserver files updated
          ~ args: /srv, --token, [REDACTED] → /tmp, --token, [REDACTED]
          (secrets are sent again; they are not compared)
        workflow look unchanged
        serviceclass probe updated
          ~ serviceConfig.timeout.create: 30000000000 → 40000000000
        $ muster get workflow look
        PROPERTY        VALUE
        name            look
        description
        available       Unavailable
        missing tools   x_nobody_tool

        Workflow Steps:
        STEP   ID   TOOL            DESCRIPTION   DETAILS
        1      a    x_nobody_tool                 args.q: {{ .input.what }}
        stderr: hint: x_nobody_tool: there is no such tool; find its name with `muster search`
    "#]]
    .assert_eq(&said);

    // What a file leaves out gets its default.
    let server = "name: files\ncommand: mcp-files\nautoStart: false\n";
    let more = format!(
        "{server}description: d\nargs: [a]\nenv: {{A: b}}\ntimeout: 5\nprotocolEra: legacy\n"
    );
    for text in [more.as_str(), server, server] {
        fs::write(&file, text).unwrap();
        desk.run(&["apply", "-f", path]);
    }
    let said = desk.run(&["apply", "-f", path]);
    assert!(said.contains("mcpserver files unchanged"), "{said}");
    let shown = desk.run(&["get", "mcpserver", "files", "-o", "json"]);
    for gone in ["description", "args", "env", "timeout", "protocolEra"] {
        assert!(!shown.contains(&format!("\"{gone}\"")), "{shown}");
    }

    let mut child = desk
        .command()
        .args(["apply", "-f", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let text =
        "kind: Service\nmetadata: {name: s}\nspec: {serviceClassName: nobody}\n---\nfoo: 1\n";
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        said.contains("standard input:5: it is not clear what this document describes"),
        "{said}"
    );
    assert_eq!(output.status.code(), Some(1));
}

#[test]
#[expect(clippy::too_many_lines, reason = "one conversation")]
fn resources_are_created_restarted_and_deleted() {
    let desk = Desk::new();
    let file = desk.home.file("twice.yaml");
    fs::write(&file, "steps:\n  - {id: a, tool: core_service_list}\n").unwrap();
    let path = file.to_str().unwrap();
    desk.check(
        &[
            &["create", "workflow"],
            &["create", "workflow", "one"],
            &["create", "workflow", "one", "--step", "core_service_list", "--step", "core_x {"],
            &["create", "workflow", "one", "--arg", "n", "--step", "s=core_service_status {\"name\": \"{{ .input.n }}\"}"],
            &["create", "workflow", "two", "--step", "x_nobody_tool"],
            &["create", "workflow", "--filename", path],
            &["create", "serviceclass", "--filename", path],
            &["create", "serviceclass", "probe"],
            &["create", "serviceclass", "probe", "--start", "x_github_greet", "--stop", "x_github_greet"],
            &["delete", "workflow", "one"],
            &["delete", "workflow", "one", "two", "twcie", "--yes"],
            &["delete", "rocket", "x"],
            &["delete", "workflow"],
            &["delete", "serviceclass", "probe", "--yes"],
            &["restart", "mcpserver", "github"],
            &["restart", "mcpserver", "githbu"],
            &["restart", "service", "mcp-aggregator"],
            &["restart", "workflow", "x"],
            &["delete", "mcpserver", "github", "--yes"],
            &["list", "mcpservers"],
        ],
        expect![[r#"
            $ muster create workflow
            stderr: Error: requires at least 2 arg(s), only received 1
            stderr:
            stderr: hint: write `muster create workflow --filename FILE`
            exit 1
            $ muster create workflow one
            stderr: Error: a workflow must have at least one step
            stderr:
            stderr: hint: add --step TOOL, or describe the workflow in a file: --filename FILE
            exit 1
            $ muster create workflow one --step core_service_list --step core_x {
            stderr: Error: the arguments of --step core_x are not a JSON object: {
            stderr:
            stderr: hint: write --step 'core_x {"name": "value"}'
            exit 1
            $ muster create workflow one --arg n --step s=core_service_status {"name": "{{ .input.n }}"}
            Workflow created successfully
            $ muster create workflow two --step x_nobody_tool
            Workflow created successfully
            warning: steps.0.tool: there is no tool `x_nobody_tool`: the workflow is not available
            hint: find its name with `muster search`
            $ muster create workflow --filename [HOME]/twice.yaml
            Workflow created successfully
            $ muster create serviceclass --filename [HOME]/twice.yaml
            stderr: Error: [HOME]/twice.yaml describes a workflow, not a serviceclass
            stderr:
            stderr: hint: create it with `muster apply -f [HOME]/twice.yaml`
            exit 1
            $ muster create serviceclass probe
            stderr: Error: a service class needs the tools that start and stop its services
            stderr:
            stderr: hint: add --start TOOL and --stop TOOL, or describe the class in a file: --filename FILE
            exit 1
            $ muster create serviceclass probe --start x_github_greet --stop x_github_greet
            ServiceClass 'probe' created successfully
            $ muster delete workflow one
            stderr: Error: deleting workflow one must be confirmed
            stderr:
            stderr: hint: add --yes to delete without a question
            exit 1
            $ muster delete workflow one two twcie --yes
            Workflow 'one' deleted successfully
            Workflow 'two' deleted successfully
            stderr: ❌ Command returned error
            stderr: Error: Failed to delete workflow: workflows.muster.giantswarm.io "twcie" not found
            stderr:
            stderr: hint: did you mean `twice`?
            exit 1
            $ muster delete rocket x
            stderr: Error: unknown resource type 'rocket'. Available types: mcpserver, workflow, serviceclass, service, policy, toolset, cli
            exit 1
            $ muster delete workflow
            stderr: Error: requires at least 2 arg(s), only received 1
            stderr:
            stderr: hint: see `muster delete --help`
            exit 1
            $ muster delete serviceclass probe --yes
            ServiceClass 'probe' deleted successfully
            $ muster restart mcpserver github
            Successfully restarted service 'github'
            $ muster restart mcpserver githbu
            stderr: ❌ Command returned error
            stderr: Error: Failed to restart service: service githbu not found
            stderr:
            stderr: hint: did you mean `github`?
            exit 1
            $ muster restart service mcp-aggregator
            stderr: ❌ Command returned error
            stderr: Error: Failed to restart service: mcp-aggregator is the gateway that answers this call; restart the muster process instead
            exit 1
            $ muster restart workflow x
            stderr: Error: unknown resource type 'workflow'. Available types: mcpserver, service
            exit 1
            $ muster delete mcpserver github --yes
            MCP server 'github' deleted successfully
            $ muster list mcpservers
            No MCP servers found
        "#]],
    );
}

#[test]
fn files_with_broken_addresses_are_invalid() {
    let files = [
        ("mcpservers/a.yaml", "# mine\nurl: localhost:9/mcp\n"),
        ("mcpservers/b.yaml", "command: nobody-has-this -y server\n"),
        ("policies/p.yaml", "default: enabled\n"),
        ("toolsets/t.yaml", "servers: [a]\n"),
    ];
    let folder = Folder::new(&[]);
    for (name, text) in files {
        let path = folder.file(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let muster = |words: &[&str]| {
        let output = Command::new(MUSTER)
            .args(words)
            .current_dir(folder.path())
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let said = [output.stdout, output.stderr].concat();
        format!("{}{}\n", String::from_utf8(said).unwrap(), output.status)
    };
    expect![[r#"
        ./mcpservers/a.yaml:2: error: the url `localhost:9/mcp` has no scheme
          → write `url: http://localhost:9/mcp`
        ./mcpservers/b.yaml:1: error: `command` holds a whole command line: nobody-has-this -y server
          → split it: `command: nobody-has-this` and `args: ["-y", server]`
        4 files, 2 errors, 0 warnings
        exit status: 1
    "#]]
    .assert_eq(&muster(&["validate", "."]));
    // Definitions that are files only are deleted as files.
    expect![[r#"
        ./policies/p.yaml deleted
        exit status: 0
    "#]]
    .assert_eq(&muster(&["delete", "policy", "p", "--yes", "--config-path", "."]));
    let refused = muster(&["delete", "toolset", "t", "u", "--yes", "--config-path", "."]);
    assert!(refused.contains("has no toolset u") && folder.file("toolsets/t.yaml").exists());
    let remote = muster(&["delete", "toolset", "t", "--yes", "--endpoint", "http://h/mcp"]);
    assert!(remote.contains("a toolset is a file on the machine of its gateway"), "{remote}");
}

#[test]
fn logs_of_local_servers() {
    let desk = Desk::new();
    let chatty = "name: chatty\ntype: stdio\ncommand: sh\nautoStart: false\ntimeout: 2\n\
                  args: [-c, 'echo one >&2; printf \"two \\033[31m\\n\" >&2; echo stray; exit 1']\n";
    fs::write(desk.gateway.folder.file("mcpservers/chatty.yaml"), chatty).unwrap();
    // The gateway reads the file before it answers.
    desk.run(&["call", "core_config_reload"]);
    desk.run(&["start", "service", "chatty"]);
    let lines = |words: &[&str]| -> Vec<String> {
        let said = desk.run(words);
        said.lines().skip(1).map(|line| line.replacen("[TIME]", "", 1).trim().to_owned()).collect()
    };
    let mut all = lines(&["logs", "mcpserver", "chatty"]);
    all.sort();
    // A server that ends during the handshake is started again with the older protocol.
    all.dedup();
    assert_eq!(all, ["one", "stdout, not a message: stray", "two \u{1b}[31m"]);
    assert_eq!(lines(&["logs", "mcpserver", "chatty", "--tail", "1"]).len(), 1);
    // New lines follow the old ones, in order and once.
    let mut following = desk.command();
    following.args(["logs", "mcpserver", "chatty", "--follow", "--tail", "1", "-o", "json"]);
    let mut following = following.stdout(Stdio::piped()).spawn().unwrap();
    let mut numbers = BufReader::new(following.stdout.take().unwrap()).lines().map(|line| {
        let line: serde_json::Value = serde_json::from_str(&line.unwrap()).unwrap();
        line["number"].as_u64().unwrap()
    });
    let last = numbers.next().unwrap();
    desk.run(&["start", "service", "chatty"]);
    let next: Vec<u64> = numbers.by_ref().take(2).collect();
    assert!(last < next[0] && next[0] < next[1], "{last} {next:?}");
    following.kill().unwrap();
    following.wait().unwrap();
    desk.check(
        &[
            &["logs", "mcpserver", "github"],
            &["logs", "mcpserver", "chattty"],
            &["logs", "workflow", "deploy"],
            &["logs", "mcpserver", "chatty", "--tail", "few"],
        ],
        expect![[r#"
            $ muster logs mcpserver github
            github has written nothing
            $ muster logs mcpserver chattty
            stderr: ❌ Command returned error
            stderr: Error: Failed to show the log: MCP server chattty not found
            stderr:
            stderr: hint: did you mean `chatty`?
            exit 1
            $ muster logs workflow deploy
            stderr: Error: unknown resource type 'workflow'. Available types: mcpserver
            exit 1
            $ muster logs mcpserver chatty --tail few
            stderr: Error: invalid value 'few' for '--tail <N>': not a whole number
            stderr:
            stderr: hint: see `muster logs --help`
            exit 1
        "#]],
    );
}

fn muster(folder: &Folder, words: &[&str], editor: &str) -> String {
    let output = Command::new(MUSTER)
        .args(words)
        .current_dir(folder.path())
        .env("HOME", folder.path())
        .env("EDITOR", editor)
        .env_remove("VISUAL")
        .env_remove("XDG_STATE_HOME")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let text = [&*output.stdout, &*output.stderr].concat();
    let text = String::from_utf8(text).unwrap();
    let text = text.replace(&folder.path().display().to_string(), "[FOLDER]");
    format!("$ muster {}\n{text}exit {}\n", words.join(" "), output.status.code().unwrap())
}

fn folder(files: &[(&str, &str)]) -> Folder {
    let folder = Folder::new(&[]);
    for (name, text) in files {
        let path = folder.file(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    folder
}

#[test]
fn definitions_are_edited() {
    let before = "# mine\nname: a\ncommand: x # why\nenv: {TOKEN: canary}\n";
    let folder = folder(&[
        ("gw/mcpservers/a.yaml", before),
        ("gw/policies/main.yaml", "default: enabled\n"),
    ]);
    let edit = |words: &[&str], editor: &str| {
        muster(&folder, &[&["edit"], words, &["--config-path", "gw"]].concat(), editor)
    };
    let read = |name: &str| fs::read_to_string(folder.file(name)).unwrap();
    let said = edit(&["mcpserver", "a"], "sed -i s/x/y/");
    assert_eq!(
        said,
        "$ muster edit mcpserver a --config-path gw\ngw/mcpservers/a.yaml changed\nexit 0\n"
    );
    assert_eq!(read("gw/mcpservers/a.yaml"), before.replace('x', "y"));
    assert!(edit(&["mcpserver", "a"], "true").contains("Nothing was changed"));

    let said = edit(&["mcpserver", "a"], "sed -i s/command/comand/");
    assert!(said.contains("the file was not changed:\ngw/mcpservers/a.yaml:2: "), "{said}");
    assert!(
        said.contains("line 3 has `comand`: write `command`") && said.ends_with("exit 1\n"),
        "{said}"
    );
    assert_eq!(read("gw/mcpservers/a.yaml"), before.replace('x', "y"));
    let kept = said.split("your text is kept in ").nth(1).unwrap().lines().next().unwrap();
    let kept = kept.replace("[FOLDER]", &folder.path().display().to_string());
    assert!(fs::read_to_string(kept).unwrap().contains("comand: y # why"));

    assert!(edit(&["mcpserver", "a"], "false").contains("the editor `false` failed"));
    assert!(edit(&["mcpserver", "a"], "no-such-editor").contains("cannot start the editor"));
    assert!(edit(&["policy", "main"], "sed -i s/enabled/disabled/").contains("main.yaml changed"));
    assert!(edit(&["config"], "true").contains("cannot read gw/config.yaml"));
    assert!(edit(&["mcpserver", "aa"], "true").contains("gw has no mcpserver aa"));
    assert!(edit(&["workflow"], "true").contains("write `muster edit workflow NAME`"));
}

#[test]
fn files_are_validated_without_a_gateway() {
    let folder = folder(&[
        ("gw/config.yaml", "aggregator: {port: 9, prot: 1}\n"),
        ("gw/mcpservers/a.yaml", "name: a\ncommand: x\ncommand: y\n"),
        ("gw/mcpservers/b.yaml", "name: c\ncommand: x\n"),
        ("gw/mcpservers/c.yaml", "name: c\ncommand: x\n---\nname: d\n"),
        ("gw/workflows/w.yaml", "name: w\nstep: []\n"),
        (
            "gw/workflows/x.yaml",
            "name: x\nsteps:\n  - {id: a, tool: x_t, args: {p: '{{ .input.zzz }}'}}\n",
        ),
        (
            "gw/clis/t.yaml",
            "command: tar\ntools:\n  - {name: tar list!, description: d}\n  - {name: a, description: d}\n  - {name: a, description: d}\n",
        ),
        (
            "many.yaml",
            "name: a\ncommand: x\n---\nkind: Workflow\nspec: {steps: [{id: a, toool: x}]}\n---\nfoo: 1\n",
        ),
        ("good/one.yaml", "url: https://h/mcp\n"),
    ]);
    let run = |words: &[&str]| muster(&folder, &[&["validate"], words].concat(), "");
    let said = [
        run(&["gw"]),
        run(&["many.yaml"]),
        run(&["good"]),
        run(&["nothing.yaml"]),
        run(&["good/one.yaml", "-o", "json"]),
    ];
    expect![[r#"
        $ muster validate gw
        gw/clis/t.yaml:3: error: tools → 0 → name: `tar list!` is not a name that MCP clients accept
          → use letters, digits, `_` and `-`: `tar_list`
        gw/clis/t.yaml:5: error: tools → 2 → name: there are two tools named `a`: the one of line 4 has no effect
          → rename one of them
        gw/config.yaml:1: warning: aggregator → prot: unknown field; did you mean `port`?
        gw/mcpservers/a.yaml:3: error: command: `command` is written twice: line 2 has no effect
          → remove one of them
        gw/mcpservers/c.yaml:3: error: a second document starts here: write one document per file, or give the file to `muster apply -f`
        gw/workflows/w.yaml:1: error: steps: Field required
          → line 2 has `step`: write `steps`
        gw/workflows/x.yaml:3: warning: steps → 0 → args → p: `.input.zzz` is not among the arguments
          → declare it: `args: {zzz: {type: string}}`
        7 files, 5 errors, 2 warnings
        exit 1
        $ muster validate many.yaml
        many.yaml:5: error: spec → steps → 0: a step needs a `tool`
          → add `tool: …`
        many.yaml:7: error: it is not clear what this document describes
          → add `kind: MCPServer`, `Workflow`, `ServiceClass`, `Service` or `Toolset`, or put the file into its folder of the configuration directory
        1 file, 2 errors, 0 warnings
        exit 1
        $ muster validate good
        1 file, 0 errors, 0 warnings
        exit 0
        $ muster validate nothing.yaml
        Error: cannot read nothing.yaml: No such file or directory (os error 2)
        exit 1
        $ muster validate good/one.yaml -o json
        {
          "valid": true,
          "files": 1,
          "problems": []
        }
        exit 0
    "#]].assert_eq(&said.concat());
}
