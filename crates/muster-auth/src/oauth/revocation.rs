//! Revocation of refresh tokens at their issuer (RFC 7009).

use muster_net::{AddressPolicy, HttpClient, HttpRequest};

use super::ClientIdentity;

/// Revokes a refresh token, which ends the login that it belongs to.
pub async fn revoke(
    http: &HttpClient,
    endpoint: &str,
    policy: AddressPolicy,
    client: &ClientIdentity,
    refresh_token: &str,
) -> Result<(), String> {
    let mut fields = vec![("token", refresh_token), ("token_type_hint", "refresh_token")];
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
