//! Reference pages, made from the program itself. `UPDATE_EXPECT=1` writes them anew.

use clap::CommandFactory as _;
use expect_test::expect_file;
use muster::{climax::args::Cli, env_vars, error::EXIT_CODES};

const MADE: &str = "<!-- Made from the program by a test; do not edit by hand. -->\n";

#[test]
fn climax_command_line() {
    let mut command = Cli::command().term_width(90);
    command.build();
    let whole = section("climax", &command.render_long_help().to_string());
    let names: Vec<String> =
        command.get_subcommands().map(|sub| sub.get_name().to_owned()).collect();
    let sections = names.iter().filter(|name| *name != "help").map(|name| {
        let help = command.find_subcommand_mut(name).unwrap().render_long_help();
        section(&format!("climax {name}"), &help.to_string())
    });
    let sections: String = std::iter::once(whole).chain(sections).collect();
    expect_file!["../../../../docs/reference/climax-cli.md"]
        .assert_eq(&format!("# `climax`: command line\n\n{MADE}{sections}"));
}

fn section(title: &str, help: &str) -> String {
    let lines: Vec<&str> = help.trim_end().lines().map(str::trim_end).collect();
    format!("\n## `{title}`\n\n```text\n{}\n```\n", lines.join("\n"))
}

#[test]
fn environment_variables() {
    let rows: String =
        env_vars::ALL.iter().map(|(name, what)| format!("| `{name}` | {what} |\n")).collect();
    expect_file!["../../../../docs/reference/environment.md"].assert_eq(&format!(
        "# Environment variables\n\n{MADE}\n| variable | what it does |\n|---|---|\n{rows}\n\
         `$NAME` and `${{NAME}}` in a config's `command`, in defaults of `global_args`, and in a policy's \
         docker volumes are replaced from the server's environment too.\n"
    ));
}

#[test]
fn exit_codes() {
    let rows: String =
        EXIT_CODES.iter().map(|(code, meaning)| format!("| {code} | {meaning} |\n")).collect();
    expect_file!["../../../../docs/reference/exit-codes.md"]
        .assert_eq(&format!("# Exit codes\n\n{MADE}\n| code | meaning |\n|--:|---|\n{rows}"));
}
