//! `muster auth whoami` and `muster auth refresh`.

use muster_auth::random::from_base64url;
use muster_client::{
    login::{
        self, flow, server_logins,
        token_store::{StoredToken, TokenStore},
    },
    remote::{Remote, target::Target},
};
use serde_json::Value;

use super::{AuthTarget, status::relative};
use crate::{error::CommandError, output::Printer};

pub(super) async fn whoami(target: &Target) -> Result<(), CommandError> {
    let (printer, url) = (Printer::stdout(), &target.url);
    let Some(token) = TokenStore::of_user()?.load(url).filter(StoredToken::is_valid) else {
        return printer.line(&format!(
            "Not authenticated to {url}\n\nTo authenticate, run:\n  muster auth login --endpoint {url}"
        ));
    };
    let identity = match identity(&token) {
        Some(identity) => identity,
        None => identity_at_gateway(target, &token).await.unwrap_or_else(|| "unknown".to_owned()),
    };
    let mut lines = vec![
        format!("Identity:  {identity}"),
        format!("Endpoint:  {url}"),
        format!("Issuer:    {}", token.issuer_url),
    ];
    if let Some(expiry) = token.expiry {
        lines.push(format!("Expires:   {}", relative(expiry)));
    }
    printer.line(&lines.join("\n"))
}

/// The user's identity according to the ID token. It is not verified: the issuer sent it directly, and it is only
/// shown.
fn identity(token: &StoredToken) -> Option<String> {
    let claims = token.id_token.as_ref()?.reveal().split('.').nth(1)?;
    let claims: Value = serde_json::from_slice(&from_base64url(claims)?).ok()?;
    let text = |key: &str| claims.get(key).and_then(Value::as_str).map(str::to_owned);
    text("email").or_else(|| text("sub"))
}

/// The user's identity according to the gateway.
async fn identity_at_gateway(target: &Target, token: &StoredToken) -> Option<String> {
    let remote = Remote::connect(target, &login::bearer(token)).await.ok()?;
    let user = server_logins::user(&remote).await;
    remote.close().await;
    user
}

pub(super) async fn refresh(target: &Target, at: &AuthTarget) -> Result<(), CommandError> {
    let url = &target.url;
    let Some(token) = TokenStore::of_user()?.load(url) else {
        return Err(CommandError::new(format!(
            "failed to refresh token: not authenticated. Run 'muster auth login --endpoint {url}' first"
        )));
    };
    at.say(&format!("Refreshing token for {url}..."))?;
    flow::refresh(&token).await.map_err(|cause| {
        CommandError::new(format!(
            "failed to refresh token: token refresh failed: {cause}. Run 'muster auth login --endpoint {url}' to re-authenticate"
        ))
    })?;
    at.say("Token refreshed successfully.")
}
