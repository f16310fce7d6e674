//! One test binary for the commands: words, wire and processes, through the real binary.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    clippy::needless_pass_by_value,
    reason = "a test may panic, and starts the programs it tests"
)]

#[path = "suite/access.rs"]
mod access;
#[path = "suite/attack_table.rs"]
mod attack_table;
#[path = "suite/attacks.rs"]
mod attacks;
#[path = "suite/backends.rs"]
mod backends;
#[path = "suite/bridge.rs"]
mod bridge;
#[path = "suite/bulk.rs"]
mod bulk;
#[path = "suite/bundled.rs"]
mod bundled;
#[path = "suite/canaries.rs"]
mod canaries;
#[path = "suite/canary_peers.rs"]
mod canary_peers;
#[path = "suite/client.rs"]
mod client;
#[path = "suite/client_side.rs"]
mod client_side;
#[path = "suite/cluster.rs"]
mod cluster;
#[path = "suite/commands.rs"]
mod commands;
#[path = "suite/console.rs"]
mod console;
#[path = "suite/console_access.rs"]
mod console_access;
#[path = "suite/console_pages.rs"]
mod console_pages;
#[path = "suite/contexts.rs"]
mod contexts;
#[path = "suite/credential_files.rs"]
mod credential_files;
#[path = "suite/desk.rs"]
mod desk;
#[path = "suite/disclosure.rs"]
mod disclosure;
#[path = "suite/discovery.rs"]
mod discovery;
#[path = "suite/docs.rs"]
mod docs;
#[path = "suite/docs_links.rs"]
mod docs_links;
#[path = "suite/doctor.rs"]
mod doctor;
#[path = "suite/events.rs"]
mod events;
#[path = "suite/examples.rs"]
mod examples;
#[path = "suite/exhaustion.rs"]
mod exhaustion;
#[path = "suite/exposure.rs"]
mod exposure;
#[path = "suite/fidelity.rs"]
mod fidelity;
#[path = "suite/garbage.rs"]
mod garbage;
#[path = "suite/help.rs"]
mod help;
#[path = "suite/hostile_servers.rs"]
mod hostile_servers;
#[path = "suite/injection.rs"]
mod injection;
#[path = "suite/login.rs"]
mod login;
#[path = "suite/login_attacks.rs"]
mod login_attacks;
#[path = "suite/mcp.rs"]
mod mcp;
#[path = "suite/mistakes.rs"]
mod mistakes;
#[path = "suite/one_gateway.rs"]
mod one_gateway;
#[path = "suite/one_program.rs"]
mod one_program;
#[path = "suite/operators.rs"]
mod operators;
#[path = "suite/option_injection.rs"]
mod option_injection;
#[path = "suite/pending.rs"]
mod pending;
#[path = "suite/processes.rs"]
mod processes;
#[path = "suite/protected.rs"]
mod protected;
#[path = "suite/reference.rs"]
mod reference;
#[path = "suite/reference_tools.rs"]
mod reference_tools;
#[path = "suite/resources.rs"]
mod resources;
#[path = "suite/rmcp.rs"]
mod rmcp;
#[path = "suite/self_update.rs"]
mod self_update;
#[path = "suite/serve.rs"]
mod serve;
#[path = "suite/state_folder.rs"]
mod state_folder;
#[path = "suite/stopping.rs"]
mod stopping;
#[path = "suite/telemetry.rs"]
mod telemetry;
#[path = "suite/tidy.rs"]
mod tidy;
#[path = "suite/traces.rs"]
mod traces;
#[path = "suite/transcripts.rs"]
mod transcripts;
#[path = "suite/verbs.rs"]
mod verbs;
#[path = "suite/world.rs"]
mod world;
