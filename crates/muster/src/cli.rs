//! The `muster` command: one MCP endpoint in front of everything.

mod usage;

use std::{path::PathBuf, process::ExitCode};

use clap::{Args, CommandFactory as _, Parser, Subcommand, ValueEnum};
use clap_complete::CompleteEnv;

use crate::{
    commands::{
        self, auth::Auth, call::Call, check::Check, completion::Completion, context::Context,
        create::Create, events::Events, get::Get, list::List, search::Search,
        self_update::SelfUpdate, start::Start, stop::Stop, version::Version,
    },
    error::CommandError,
    output,
};

/// One MCP endpoint in front of every CLI and every MCP server you have
///
/// Agents see a handful of stable meta-tools (search, describe, call) in place of hundreds of tool
/// definitions.
#[derive(Debug, Parser)]
#[command(
    name = "muster",
    version = concat!("version ", env!("CARGO_PKG_VERSION")),
    after_help = AFTER_HELP
)]
pub struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
}

const AFTER_HELP: &str = "\
Examples:
  muster serve                      start on http://localhost:8090/mcp
  muster serve --config-path DIR    serve the configuration in a directory
  muster list mcpservers            list the servers of the running gateway
  muster search WORDS               find tools by what they do
  muster call TOOL key=value        call a tool";

#[derive(Debug, Subcommand)]
enum Command {
    Serve(Serve),
    Agent(commands::agent::Agent),
    Standalone(commands::standalone::Standalone),
    Import(commands::import::Import),
    Connect(commands::connect::Connect),
    Enable(commands::enable::Enable),
    Disable(commands::enable::Disable),
    Doctor(commands::doctor::Doctor),
    Top(Box<commands::top::Top>),
    List(Box<List>),
    Get(Box<Get>),
    Create(Box<Create>),
    Start(Box<Start>),
    Stop(Box<Stop>),
    Check(Box<Check>),
    Search(Box<Search>),
    Tokens(Box<commands::tokens::Tokens>),
    Token(commands::token::Token),
    Models(commands::models::Models),
    Call(Box<Call>),
    Events(Box<Events>),
    Auth(Box<Auth>),
    Context(Context),
    Schema(commands::schema::Schema),
    Test(Test),
    Version(Version),
    SelfUpdate(SelfUpdate),
    #[command(alias = "completions")]
    Completion(Completion),
}

/// Serve all configured servers and CLIs at one endpoint
///
/// Reads `config.yaml`, `mcpservers/*.yaml`, `clis/*.yaml` and `policies/*.yaml` in the configuration
/// directory and applies their changes. Of the bundled CLIs whose programs are installed, it offers the
/// tools that read, and only on this machine; `muster enable cli NAME` switches on the others.
#[derive(Debug, Args)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a switch of its own on the command line"
)]
#[command(after_help = "\
Examples:
  muster serve
  muster serve --config-path ./gateway --debug
  muster serve --surface climax")]
pub struct Serve {
    /// The configuration directory [default: ~/.config/muster]
    #[arg(long, value_name = "DIR")]
    pub(crate) config_path: Option<PathBuf>,
    /// The meta-tools that clients see
    #[arg(long, value_enum, default_value_t)]
    pub(crate) surface: SurfaceArg,
    /// Allow destructive tools
    #[arg(long)]
    pub(crate) yolo: bool,
    /// Let anyone who reaches the address call tools, without a login or token
    #[arg(long)]
    pub(crate) insecure_bind: bool,
    /// Write debug log lines
    #[arg(long, conflicts_with = "silent")]
    pub(crate) debug: bool,
    /// Write no log lines
    #[arg(long)]
    pub(crate) silent: bool,
    #[command(flatten)]
    pub(crate) logins: commands::serve::LoginFlags,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum SurfaceArg {
    /// The meta-tools of muster
    #[default]
    Muster,
    /// The meta-tools of CLImax: climax_search and climax_call
    Climax,
}

/// Run scenarios against real gateways
///
/// Starts `muster serve` with mock servers for each scenario, runs the steps and checks the results.
/// Exits with 1 if a scenario fails.
#[derive(Debug, Args)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a switch of its own on the command line"
)]
#[command(after_help = "\
Examples:
  muster test --config scenarios
  muster test --config scenarios --scenario mcpserver-crud --verbose
  muster test --config scenarios --parallel 12 --report reports
  muster test --config scenarios --validate-scenarios")]
pub struct Test {
    /// A scenario file, or a directory of scenario files
    #[arg(long, value_name = "PATH", default_value = "scenarios")]
    pub(crate) config: PathBuf,
    /// Run only scenarios of this category: behavioral or integration
    #[arg(long, value_name = "NAME", add = commands::completion::categories())]
    pub(crate) category: Option<String>,
    /// Run only scenarios about this concept: serviceclass, workflow, mcpserver or service
    #[arg(long, value_name = "NAME", add = commands::completion::concepts())]
    pub(crate) concept: Option<String>,
    /// Run only the scenario of this name
    #[arg(long, value_name = "NAME", add = commands::completion::scenarios())]
    pub(crate) scenario: Option<String>,
    /// The number of scenarios to run in parallel, 1 to 50
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) parallel: usize,
    /// Stop after the first failure
    #[arg(long)]
    pub(crate) fail_fast: bool,
    /// Also run scenarios with `skip: true`
    #[arg(long)]
    pub(crate) run_skipped: bool,
    /// The timeout of the whole run: `90s`, `10m`; a number is seconds
    #[arg(long, value_name = "DURATION", default_value = "10m")]
    pub(crate) timeout: String,
    /// The first port to try for gateway instances
    #[arg(long, value_name = "PORT", default_value_t = 18_000)]
    pub(crate) base_port: u16,
    /// Print each step
    #[arg(long)]
    pub(crate) verbose: bool,
    /// Print each step and the logs of the instances
    #[arg(long)]
    pub(crate) debug: bool,
    /// Write JSON and JUnit reports to this directory
    #[arg(long, value_name = "DIR")]
    pub(crate) report: Option<PathBuf>,
    /// Keep the configuration directories of the instances
    #[arg(long)]
    pub(crate) keep_temp_config: bool,
    /// Serve the test runner as MCP tools on standard input and output
    #[arg(long, conflicts_with_all = ["mock_mcp_server", "generate_schema", "validate_scenarios"])]
    pub(crate) mcp_server: bool,
    /// Run a mock MCP server on standard input and output, see --mock-config
    #[arg(long, conflicts_with_all = ["generate_schema", "validate_scenarios"])]
    pub(crate) mock_mcp_server: bool,
    /// The configuration of the mock server
    #[arg(long, value_name = "FILE")]
    pub(crate) mock_config: Option<PathBuf>,
    /// Write the schema of all core tools instead of running scenarios
    #[arg(long, conflicts_with = "validate_scenarios")]
    pub(crate) generate_schema: bool,
    /// The output file of --generate-schema [default: schema.json]
    #[arg(long, value_name = "FILE")]
    pub(crate) schema_output: Option<PathBuf>,
    /// Validate scenarios instead of running them
    #[arg(long)]
    pub(crate) validate_scenarios: bool,
    /// The schema to validate steps against
    #[arg(long, value_name = "FILE")]
    pub(crate) schema_input: Option<PathBuf>,
}

/// Parses the command line and runs the command.
pub fn main() -> ExitCode {
    if let Some(code) = muster_exec::serve::serve_if_launcher() {
        return code;
    }
    CompleteEnv::with_factory(Cli::command).var(commands::completion::ASKED_BY).complete();
    let words: Vec<String> =
        std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect();
    let typed = match Cli::try_parse_from(std::env::args_os()) {
        Ok(typed) => typed,
        Err(error) => return usage::report(&error, &Cli::command(), &words),
    };
    dispatch(typed).unwrap_or_else(|error| {
        output::report("Error", &error);
        error.exit_code()
    })
}

fn dispatch(cli: Cli) -> Result<ExitCode, CommandError> {
    let Some(command) = cli.command else {
        output::Printer::stdout().part(&Cli::command().render_help().to_string())?;
        return Ok(ExitCode::SUCCESS);
    };
    match command {
        Command::Serve(args) => commands::serve::run(&args, commands::serve::Clients::Configured),
        Command::Standalone(args) => commands::standalone::run(&args),
        Command::Agent(args) => commands::agent::run(&args),
        Command::Import(args) => commands::import::run(&args),
        Command::Connect(args) => commands::connect::run(&args),
        Command::Enable(args) => commands::enable::enable(&args),
        Command::Disable(args) => commands::enable::disable(&args),
        Command::Doctor(args) => commands::doctor::run(&args),
        Command::Top(args) => commands::top::run(&args),
        Command::List(args) => commands::list::run(&args),
        Command::Get(args) => commands::get::run(&args),
        Command::Create(args) => commands::create::run(&args),
        Command::Start(args) => commands::start::run(&args),
        Command::Stop(args) => commands::stop::run(&args),
        Command::Check(args) => commands::check::run(&args),
        Command::Search(args) => commands::search::run(&args),
        Command::Tokens(args) => commands::tokens::run(&args),
        Command::Token(args) => commands::token::run(&args),
        Command::Models(args) => commands::models::run(&args),
        Command::Call(args) => commands::call::run(&args),
        Command::Events(args) => commands::events::run(&args),
        Command::Auth(args) => commands::auth::run(&args),
        Command::Context(args) => commands::context::run(&args),
        Command::Schema(args) => commands::schema::run(&args),
        Command::Test(args) => commands::test::run(&args),
        Command::Version(args) => commands::version::run(&args),
        Command::SelfUpdate(args) => commands::self_update::run(&args),
        Command::Completion(args) => commands::completion::run(&args),
    }
}
