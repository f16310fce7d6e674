//! The commands of `muster`, one file each.
//!
//! To add a command, declare its module and add a row to `commands!`.

mod agent;
mod apply;
mod approve;
mod auth;
mod call;
mod calls;
mod check;
mod climax;
pub(crate) mod completion;
mod connect;
mod console;
mod context;
mod create;
mod delete;
mod doctor;
mod edit;
mod enable;
mod events;
mod gateway_args;
mod get;
mod import;
mod list;
mod logs;
mod man;
mod manifest;
mod migrate;
mod models;
mod policy;
mod resource_kinds;
mod resource_verb;
mod restart;
mod schema;
mod search;
mod self_update;
mod serve;
mod service;
mod session;
mod standalone;
mod start;
mod stats;
mod status;
mod stop;
mod test;
mod token;
mod tokens;
mod tool_args;
mod top;
mod validate;
mod version;

use std::process::ExitCode;

use clap::Subcommand;

use crate::error::CommandError;

/// Generates [`Command`] from rows: the name and the arguments of a command, and the function that runs it.
macro_rules! commands {
    ($($(#[$attribute:meta])* $name:ident($args:ty) => $run:path;)*) => {
        /// A command with its arguments. The order is the order of the help.
        #[derive(Debug, Subcommand)]
        pub(crate) enum Command {
            $($(#[$attribute])* $name($args),)*
        }

        impl Command {
            /// Runs the command.
            pub(crate) fn run(&self) -> Result<ExitCode, CommandError> {
                match self {
                    $(Self::$name(args) => $run(args),)*
                }
            }
        }
    };
}

commands! {
    Serve(Box<serve::Serve>) => serve::run;
    Agent(agent::Agent) => agent::run;
    Standalone(Box<standalone::Standalone>) => standalone::run;
    Import(import::Import) => import::run;
    Migrate(migrate::Migrate) => migrate::run;
    Connect(connect::Connect) => connect::run;
    Enable(enable::Enable) => enable::enable;
    Disable(enable::Disable) => enable::disable;
    Doctor(doctor::Doctor) => doctor::run;
    Console(Box<console::ConsoleArgs>) => console::run;
    Top(Box<top::Top>) => top::run;
    List(Box<list::List>) => list::run;
    Get(Box<get::Get>) => get::run;
    Create(Box<create::Create>) => create::run;
    Apply(Box<apply::Apply>) => apply::run;
    Edit(edit::Edit) => edit::run;
    Delete(Box<delete::Delete>) => delete::run;
    Validate(validate::Validate) => validate::run;
    Approve(Box<approve::Approve>) => approve::run;
    Start(Box<start::Start>) => start::run;
    Stop(Box<stop::Stop>) => stop::run;
    Status(Box<status::Status>) => status::run;
    Service(service::Service) => service::run;
    Restart(Box<restart::Restart>) => restart::run;
    Logs(Box<logs::Logs>) => logs::run;
    Check(Box<check::Check>) => check::run;
    Search(Box<search::Search>) => search::run;
    Tokens(Box<tokens::Tokens>) => tokens::run;
    Token(token::Token) => token::run;
    Session(Box<session::Session>) => session::run;
    Policy(Box<policy::Policy>) => policy::run;
    Models(models::Models) => models::run;
    Call(Box<call::Call>) => call::run;
    Calls(Box<calls::Calls>) => calls::run;
    Stats(Box<stats::Stats>) => stats::run;
    Events(Box<events::Events>) => events::run;
    Auth(Box<auth::Auth>) => auth::run;
    Context(context::Context) => context::run;
    Schema(schema::Schema) => schema::run;
    Test(Box<test::Test>) => test::run;
    Version(Box<version::Version>) => version::run;
    SelfUpdate(self_update::SelfUpdate) => self_update::run;
    Climax(climax::Climax) => climax::run;
    Man(man::Man) => man::run;
    #[command(alias = "completions")]
    Completion(completion::Completion) => completion::run;
}
