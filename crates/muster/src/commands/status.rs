//! `muster status`: whether the gateway is running, and the state of its servers.

use std::{path::PathBuf, process::ExitCode};

use clap::Args;
use muster_api::{mcp_server::McpServerList, state::ServerState};
use muster_client::{
    local_gateway,
    remote::{Credentials, Remote, error::RemoteError, target::Target},
    user_dirs,
};
use muster_core::json::raw;
use muster_engine::state_folder::StateFolder;
use serde::Serialize;
use serde_json::json;

use super::gateway_args::GatewayArgs;
use crate::{
    error::{CommandError, NOT_RUNNING},
    output::{
        Printer,
        format::{OutputFormat, OutputStyle},
        next_step, properties, yaml,
    },
    process,
};

/// Show whether the gateway is running
///
/// Shows the gateway of the configuration directory: its process, endpoint and state folder, and the servers that are
/// down. Exits with 4 if it is not running.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  muster status
  muster status -o json
  muster status --config-path ./gateway")]
pub(crate) struct Status {
    /// The state folder of the gateway, if it has a special one
    #[arg(long, value_name = "DIR")]
    state_path: Option<PathBuf>,
    #[command(flatten)]
    gateway: GatewayArgs,
}

/// The status of a gateway.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct GatewayStatus {
    running: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pid: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    endpoint: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    since: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    servers: Option<ServerCounts>,
    config: PathBuf,
    state_folder: PathBuf,
    #[serde(skip_serializing_if = "Option::is_none")]
    log: Option<PathBuf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
}

#[derive(Debug, Serialize)]
struct ServerCounts {
    total: usize,
    up: usize,
    down: Vec<ServerProblem>,
}

#[derive(Debug, Serialize)]
struct ServerProblem {
    name: String,
    state: ServerState,
    #[serde(skip_serializing_if = "String::is_empty")]
    reason: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<String>,
}

pub(crate) fn run(args: &Status) -> Result<ExitCode, CommandError> {
    process::block_on_code(async {
        args.gateway.refuse_endpoint("muster status", args.state_path.is_some())?;
        let style = args.gateway.style()?;
        let config = args.gateway.config_directory()?;
        let folder = user_dirs::state_folder(&config, args.state_path.as_deref())?;
        let status = status(config, &folder).await;
        Printer::stdout().line(&shown(&status, style)?)?;
        Ok(if status.running { ExitCode::SUCCESS } else { ExitCode::from(NOT_RUNNING) })
    })
}

async fn status(config: PathBuf, folder: &StateFolder) -> GatewayStatus {
    let log = Some(folder.log_path()).filter(|log| log.exists());
    let mut status = GatewayStatus {
        running: false,
        pid: None,
        endpoint: None,
        since: None,
        version: None,
        servers: None,
        config,
        state_folder: folder.path().to_owned(),
        log,
        problem: None,
    };
    let Some(owner) = folder.owner() else { return status };
    status.running = true;
    status.pid = owner.pid;
    let Some(record) = owner.record else {
        status.problem = Some("it is starting".to_owned());
        return status;
    };
    status.since = Some(record.started_at);
    status.version = Some(record.version);
    status.endpoint = record.endpoint.as_deref().map(local_gateway::local_url);
    match &status.endpoint {
        None => status.problem = Some("it is starting, or serves standard input".to_owned()),
        Some(url) => match servers(url).await {
            Ok(servers) => status.servers = Some(servers),
            Err(error) => status.problem = Some(error.to_string()),
        },
    }
    status
}

async fn servers(url: &str) -> Result<ServerCounts, RemoteError> {
    let target = Target::at(url).as_operator();
    let remote = Remote::connect(&target, &Credentials::None).await?;
    let all = raw(&json!({"showAll": true, "verbose": true}));
    let list: Result<McpServerList, RemoteError> = remote.reply("core_mcpserver_list", &all).await;
    remote.close().await;
    let servers = list?.mcp_servers;
    let total = servers.len();
    let down: Vec<ServerProblem> = servers
        .into_iter()
        .filter(|server| !server.state.is_up())
        .map(|server| ServerProblem {
            // Omit the hint if there is only a status message, which names the next step itself.
            hint: next_step::for_info(&server)
                .filter(|_| !server.error.is_empty() || server.status_message.is_empty()),
            name: server.name,
            state: server.state,
            reason: if server.error.is_empty() { server.status_message } else { server.error },
        })
        .collect();
    Ok(ServerCounts { total, up: total - down.len(), down })
}

fn shown(status: &GatewayStatus, style: OutputStyle) -> Result<String, CommandError> {
    match style.format {
        OutputFormat::Json => Ok(serde_json::to_string_pretty(status).unwrap_or_default()),
        OutputFormat::Yaml => Ok(yaml::document(&raw(status))),
        OutputFormat::Table | OutputFormat::Wide => Ok(table(status, style)),
    }
}

fn table(status: &GatewayStatus, style: OutputStyle) -> String {
    let mut rows = properties::rows(status);
    rows.retain(|(name, _)| name != "running" && !name.starts_with("servers."));
    let state = if status.running { "running" } else { "not running" };
    rows.insert(0, ("gateway".to_owned(), state.to_owned()));
    if let Some(servers) = &status.servers {
        let ServerCounts { total, up, down } = servers;
        let counts = format!("{up} of {total} up");
        let place = rows.iter().position(|(name, _)| name == "config").unwrap_or(rows.len());
        let down = down.iter().map(|server| {
            let ServerProblem { name, state, reason, hint } = server;
            let reason = if reason.is_empty() { String::new() } else { format!(": {reason}") };
            let hint = hint.as_deref().map(|hint| format!("\n{hint}")).unwrap_or_default();
            ("down".to_owned(), format!("{name} ({}){reason}{hint}", state.as_str()))
        });
        let new: Vec<(String, String)> =
            std::iter::once(("servers".to_owned(), counts)).chain(down).collect();
        rows.splice(place..place, new);
    }
    let mut text = properties::of_rows(["property", "value"], rows, style);
    if !status.running {
        text.push_str(
            "\n\nStart it with: muster serve, or in the background: muster serve --background",
        );
    }
    text
}
