//! The connection of the agent to its gateway.

use std::{sync::Arc, time::Duration};

use muster_client::{
    inventory::{self, Inventory},
    login::{self, AuthMode, ConnectionUse},
    remote::{
        Credentials, ListKind, Remote,
        error::RemoteError,
        target::{GatewayTransport, Target},
    },
};
use serde_json::{Value, json};
use tokio::time::sleep;

use super::console::Console;
use crate::{error::CommandError, terminal::Terminal};

const ATTEMPTS: u32 = 3;
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// Connects with retries, and prints each attempt.
pub(crate) async fn connect(
    target: &Target,
    mode: AuthMode,
    lines: Console,
) -> Result<Remote, CommandError> {
    let transport = match target.transport {
        GatewayTransport::StreamableHttp => "streamable-http",
        GatewayTransport::Sse => "sse",
    };
    let mut attempt = 1;
    loop {
        lines.info(&format!(
            "Connecting to aggregator at: {} using {transport} transport (attempt {attempt}/{ATTEMPTS})",
            target.url
        ));
        lines.request("initialize", &json!({"clientInfo": {"name": "muster-agent"}}));
        let error = match open(target, mode, lines).await {
            Ok(remote) => {
                let about = remote.about();
                lines.response(
                    "initialize",
                    &json!({"protocolVersion": about.protocol,
                            "serverInfo": {"name": about.name, "version": about.version}}),
                );
                return Ok(remote);
            }
            Err(error) => error,
        };
        let is_final = matches!(
            error,
            RemoteError::AuthRequired { .. }
                | RemoteError::AuthExpired { .. }
                | RemoteError::AuthFailed { .. }
        );
        if is_final {
            return Err(error.into());
        }
        if attempt == ATTEMPTS {
            let reason = match &error {
                RemoteError::Unreachable(_)
                | RemoteError::Insecure(_)
                | RemoteError::Connect(_) => error.to_string(),
                _ => format!("initialization failed: {error}"),
            };
            let error = CommandError::new(format!("failed to connect to aggregator: {reason}"));
            return Err(error.hint(match target.transport {
                GatewayTransport::Sse if !target.url.ends_with("/sse") => {
                    "server-sent events have an address of their own: name the endpoint that ends in /sse"
                }
                _ => "is the gateway running? start one with `muster serve`",
            }));
        }
        lines.info(&format!("Initialization failed, retrying: {error}"));
        attempt += 1;
        sleep(RETRY_INTERVAL).await;
    }
}

/// Connects with the stored token, or after a login if the gateway requires one.
async fn open(target: &Target, mode: AuthMode, lines: Console) -> Result<Remote, RemoteError> {
    let auth = match mode {
        AuthMode::None => Credentials::None,
        AuthMode::Auto | AuthMode::Prompt => login::stored_auth(target).await,
    };
    if matches!(auth, Credentials::Bearer(_)) {
        lines.info("Using existing authentication token");
    }
    match Remote::listen(&target.as_operator(), &auth).await {
        Err(RemoteError::AuthRequired { .. }) if mode != AuthMode::None => (),
        connected => return connected,
    }
    lines.info(&format!("Authentication required for {}", target.url));
    lines.info("Starting OAuth login flow...");
    let remote =
        login::connect_for(ConnectionUse::Listen, target, mode, false, &Terminal::Stderr).await?;
    lines.success("Authentication successful");
    Ok(remote)
}

/// Loads the inventory of the gateway and prints the requests.
pub(crate) async fn load(remote: &Remote, lines: Console) -> Result<Inventory, CommandError> {
    let failed =
        |err: RemoteError| CommandError::new(format!("failed to load initial data: {err}"));
    list(remote, ListKind::Tools, lines).await.map_err(failed)?;
    let resources = list(remote, ListKind::Resources, lines).await.map_err(failed)?;
    let prompts = list(remote, ListKind::Prompts, lines).await.map_err(failed)?;
    Ok(Inventory {
        resources: serde_json::from_value(resources).unwrap_or_default(),
        prompts: serde_json::from_value(prompts).unwrap_or_default(),
        ..Inventory::default()
    })
}

async fn list(remote: &Remote, kind: ListKind, lines: Console) -> Result<Value, RemoteError> {
    let (method, key) = match kind {
        ListKind::Tools => ("tools/list", "tools"),
        ListKind::Resources => ("resources/list", "resources"),
        ListKind::Prompts => ("prompts/list", "prompts"),
    };
    lines.request(method, &json!({}));
    let items: Vec<Value> = inventory::list(remote, kind).await?;
    lines.response(method, &json!({ key: items }));
    Ok(Value::Array(items))
}

/// Closes a connection, unless it is still in use.
pub(crate) async fn close(remote: Arc<Remote>) {
    if let Ok(remote) = Arc::try_unwrap(remote) {
        remote.close().await;
    }
}
