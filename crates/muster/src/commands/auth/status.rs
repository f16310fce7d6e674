//! `muster auth status`.

use jiff::Timestamp;
use muster_api::auth::{LoginState, ServerAuthStatus, Sso};
use muster_client::{
    login::{
        self, server_logins,
        token_store::{StoredToken, TokenStore},
    },
    remote::{Remote, error::RemoteError, target::Target},
};
use muster_core::text;

use crate::{error::CommandError, output::Printer};

/// The user's login at a gateway.
#[derive(Debug)]
enum LoginStatus {
    Authenticated(StoredToken),
    NotRequired,
    NotLoggedIn,
    Invalidated,
    Failed { class: &'static str, reason: String, token: Option<StoredToken> },
}

pub(super) async fn all(target: &Target) -> Result<(), CommandError> {
    let (status, remote) = login_status(target).await?;
    let printer = Printer::stdout();
    printer.line(&format!("Muster Aggregator\n  Endpoint:  {}", target.url))?;
    printer.line(&status.lines().join("\n"))?;
    let Some(remote) = remote else { return Ok(()) };
    // A gateway that lacks the `auth://status` resource has no servers that require logins.
    let servers = server_logins::list(&remote).await.unwrap_or_default();
    remote.close().await;
    if servers.is_empty() { Ok(()) } else { printer.line(&table(&servers)) }
}

/// Connects to find out the status, because only the gateway knows whether a token is still valid. A token that is
/// about to expire is refreshed first.
async fn login_status(target: &Target) -> Result<(LoginStatus, Option<Remote>), CommandError> {
    let tokens = TokenStore::of_user()?;
    let auth = login::stored_auth(target).await;
    let token = tokens.load(&target.url).filter(StoredToken::is_valid);
    Ok(match (Remote::connect(target, &auth).await, token) {
        (Ok(remote), Some(token)) => (LoginStatus::Authenticated(token), Some(remote)),
        (Ok(remote), None) => (LoginStatus::NotRequired, Some(remote)),
        (Err(RemoteError::AuthRequired { challenge, .. }), Some(_)) => {
            login::forget_refused(target, challenge.as_deref());
            (LoginStatus::Invalidated, None)
        }
        (Err(RemoteError::AuthRequired { .. }), None) => (LoginStatus::NotLoggedIn, None),
        (Err(err), token) => {
            let (class, reason) = classified(&err);
            (LoginStatus::Failed { class, reason, token }, None)
        }
    })
}

impl LoginStatus {
    fn lines(&self) -> Vec<String> {
        let status = |word: &str| format!("  Status:    {word}");
        let run = "             Run: muster auth login".to_owned();
        match self {
            Self::NotRequired => vec![status("No authentication required")],
            Self::NotLoggedIn => vec![status("Not authenticated"), run],
            Self::Invalidated => vec![
                status("Token invalidated"),
                "             The gateway no longer accepts the stored token.".to_owned(),
                run,
            ],
            Self::Failed { class, reason, token } => {
                let mut lines =
                    vec![status("Connection failed"), format!("             {class}: {reason}")];
                if let Some(expiry) = token.as_ref().and_then(|token| token.expiry) {
                    lines.push(format!("  (Local token expires: {})", relative(expiry)));
                }
                lines
            }
            Self::Authenticated(token) => {
                let refresh = if token.can_refresh() {
                    "Available"
                } else {
                    "Not available (re-auth required on expiry)"
                };
                let mut lines = vec![status("Authenticated")];
                if let Some(expiry) = token.expiry {
                    lines.push(format!("  Expires:   {}", relative(expiry)));
                }
                lines.push(format!("  Refresh:   {refresh}"));
                lines.push(format!("  Issuer:    {}", token.issuer_url));
                lines
            }
        }
    }
}

/// The category of an error, and its reason.
fn classified(error: &RemoteError) -> (&'static str, String) {
    match error {
        RemoteError::NotRunning => ("Network error", "connect: connection refused".to_owned()),
        RemoteError::Unreachable(reason) => ("Network error", reason.clone()),
        RemoteError::Insecure(reason) => ("TLS certificate error", reason.clone()),
        RemoteError::Connect(reason) => ("Connection error", reason.clone()),
        other => ("Connection error", other.to_string()),
    }
}

/// Formats a time relative to now.
pub(super) fn relative(moment: Timestamp) -> String {
    let left = moment.as_second() - Timestamp::now().as_second();
    if left >= 0 { format!("in {}", span(left)) } else { format!("expired {} ago", span(-left)) }
}

fn span(seconds: i64) -> String {
    let several = |count: i64, unit: &str| {
        if count == 1 { format!("1 {unit}") } else { format!("{count} {unit}s") }
    };
    match seconds {
        0..60 => "< 1 minute".to_owned(),
        60..3600 => several(seconds / 60, "minute"),
        3600..86_400 => several(seconds / 3600, "hour"),
        _ => several(seconds / 86_400, "day"),
    }
}

pub(super) const fn status_label(status: LoginState) -> &'static str {
    match status {
        LoginState::Connected => "Connected",
        LoginState::AuthRequired => "Not authenticated",
        LoginState::SsoPending => "SSO Pending",
        LoginState::ReauthRequired => "Re-authentication required",
        LoginState::Disconnected => "Disconnected",
        LoginState::Unreachable => "Unreachable",
        LoginState::Failed => "Error",
        LoginState::Other => "Unknown",
    }
}

const fn sso_label(sso: Sso) -> &'static str {
    match sso {
        Sso::Forwarded => "Forwarded",
        Sso::Exchanged => "Exchanged",
        Sso::Failed => "Failed",
    }
}

fn table(servers: &[ServerAuthStatus]) -> String {
    let pending = servers.iter().filter(|server| server.status.wants_login()).count();
    let (far, near): (Vec<&ServerAuthStatus>, Vec<&ServerAuthStatus>) =
        servers.iter().partition(|server| server.status == LoginState::Unreachable);
    let mut lines = vec![String::new(), "MCP Servers".to_owned()];
    if pending > 0 {
        lines.push(format!("  ({pending} pending authentication)"));
    }
    let widest = |texts: Vec<usize>, least: usize| texts.into_iter().max().unwrap_or(0).max(least);
    let wide = widest(near.iter().map(|server| server.name.chars().count()).collect(), 20);
    let label =
        |server: &ServerAuthStatus| server.sso().map(|sso| format!("[SSO: {}]", sso_label(sso)));
    let labels: Vec<usize> =
        near.iter().filter_map(|server| label(server)).map(|l| l.len()).collect();
    let label_width = widest(labels, 0);
    for server in near {
        let mut line = format!("  {:<wide$} {}", server.name, status_label(server.status));
        if label_width > 0 {
            line = format!("{line} {:<label_width$}", label(server).unwrap_or_default());
        }
        if server.needs_login() {
            line = format!("{line}  Run: muster auth login --server {}", server.name);
        }
        lines.push(line.trim_end().to_owned());
    }
    if !far.is_empty() {
        lines.push(format!("\n  ({} unreachable - not shown)", far.len()));
    }
    lines.join("\n")
}

/// Prints the login status at one server behind the gateway.
pub(super) async fn server(target: &Target, name: &str) -> Result<(), CommandError> {
    let (status, remote) = login_status(target).await?;
    let remote = match (status, remote) {
        (LoginStatus::Authenticated(_) | LoginStatus::NotRequired, Some(remote)) => remote,
        (LoginStatus::Failed { reason, .. }, _) => {
            return Err(CommandError::new(format!("failed to get server status: {reason}")));
        }
        _ => {
            let what = "not authenticated to aggregator. Run 'muster auth login' first";
            return Err(CommandError::new(what));
        }
    };
    let all = server_logins::list(&remote).await;
    remote.close().await;
    let failed = |err| CommandError::new(format!("failed to get server status: {err}"));
    let server = super::find(all.map_err(failed)?, name)?;
    let mut lines =
        vec![format!("MCP Server: {name}"), format!("  Status:   {}", status_label(server.status))];
    if let Some(sso) = server.sso() {
        lines.push(format!("  SSO:      {}", sso_label(sso)));
    }
    if let Some(error) = &server.error {
        lines.push(format!("  Error:    {}", text::printable(error)));
    }
    if !server.issuer.is_empty() {
        lines.push(format!("  Issuer:   {}", server.issuer));
    }
    if server.needs_login() {
        lines.push(format!("  Action:   Run: muster auth login --server {name}"));
    }
    Printer::stdout().line(&lines.join("\n"))
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use serde_json::json;

    use super::{ServerAuthStatus, classified, span, table};
    use muster_client::remote::error::RemoteError;

    #[test]
    fn spans() {
        let spans = [0, 60, 119, 3600, 7200, 86_400, 200_000].map(span).join(", ");
        expect!["< 1 minute, 1 minute, 1 minute, 1 hour, 2 hours, 1 day, 2 days"].assert_eq(&spans);
    }

    #[test]
    fn errors_are_classified_by_their_kind() {
        let text = || "no TLS with h: connection refused".to_owned();
        let class = |error: RemoteError| classified(&error).0;
        assert_eq!(class(RemoteError::Insecure(text())), "TLS certificate error");
        assert_eq!(class(RemoteError::Unreachable(text())), "Network error");
        assert_eq!(class(RemoteError::Connect(text())), "Connection error");
    }

    #[test]
    fn servers_below_each_other() {
        let servers: Vec<ServerAuthStatus> = serde_json::from_value(json!([
            {"name": "github", "status": "auth_required", "auth_tool": "core_auth_login"},
            {"name": "k8s", "status": "connected", "token_forwarding_enabled": true},
            {"name": "lost", "status": "unreachable"},
            {"name": "prod", "status": "sso_pending", "token_exchange_enabled": true},
            {"name": "stage", "status": "reauth_required", "auth_tool": "core_auth_login",
             "token_exchange_enabled": true, "sso_attempt_failed": true},
        ]))
        .unwrap();
        expect![[r"

            MCP Servers
              (2 pending authentication)
              github               Not authenticated                   Run: muster auth login --server github
              k8s                  Connected [SSO: Forwarded]
              prod                 SSO Pending [SSO: Exchanged]
              stage                Re-authentication required [SSO: Failed]     Run: muster auth login --server stage

              (1 unreachable - not shown)"]]
        .assert_eq(&table(&servers));
    }
}
