//! Revocation of tokens at their issuer (RFC 7009).

use muster_net::{AddressPolicy, HttpClient, HttpRequest};

use super::ClientIdentity;
use crate::secret::Secret;

/// A token to revoke.
#[derive(Debug, Clone, Copy)]
pub enum RevocableToken<'a> {
    /// A refresh token. Revoking it ends its login.
    Refresh(&'a Secret),
    /// An access token, for logins without a refresh token.
    Access(&'a Secret),
}

/// Revokes a token.
pub async fn revoke(
    http: &HttpClient,
    endpoint: &str,
    policy: AddressPolicy,
    client: &ClientIdentity,
    token: RevocableToken<'_>,
) -> Result<(), String> {
    let (token, hint) = match token {
        RevocableToken::Refresh(token) => (token, "refresh_token"),
        RevocableToken::Access(token) => (token, "access_token"),
    };
    let mut fields = vec![("token", token.reveal().as_str()), ("token_type_hint", hint)];
    let credentials = client.authenticate(&mut fields);
    let mut request = HttpRequest::form(endpoint, policy, &fields);
    if let Some((name, value)) = credentials {
        request = request.header(name, &value);
    }
    let response = http.send(request).await.map_err(|err| err.to_string())?;
    match response.status {
        status if status.is_success() => Ok(()),
        status => Err(format!("the revocation endpoint answered with status {}", status.as_u16())),
    }
}
