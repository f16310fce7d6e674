//! The OAuth login at a gateway: authorization code with PKCE, and token refresh.

use std::{sync::Arc, time::Duration};

use http::Method;
use jiff::Timestamp;
use muster_auth::{
    oauth::{
        AuthorizationRequest, BearerChallenge, CallbackError, CallbackParams, ClientAuthMethod,
        ClientIdentity, Discovered, DiscoveryError, IssuerMetadata, MetadataFetcher,
        PendingAuthorization, RegistrationRequest, RevocableToken, TokenEndpoint, TokenResponse,
        register, revoke,
    },
    random,
    secret::Secret,
};
use muster_net::{AddressPolicy, HttpClient, HttpRequest, TrustStore};

use super::{
    LoginUi,
    callback_server::CallbackServer,
    token_store::{StoredToken, TokenStore, base_url},
};
use crate::{
    env_vars,
    remote::{error::RemoteError, target::Target},
};

/// The name shown on consent pages.
const CLIENT_NAME: &str = "muster";
/// The client id at issuers that do not support registration.
const DEFAULT_CLIENT_ID: &str = "muster-agent";
/// The scopes to request if the gateway names none.
const DEFAULT_SCOPES: &str = "openid profile email groups offline_access";
/// Allows private networks: gateways may be on the local network.
const POLICY: AddressPolicy = AddressPolicy::Private;
/// The timeout of a login that shows a page.
const TIMEOUT: Duration = Duration::from_secs(10 * 60);
/// The timeout of a login without a page.
const SILENT_TIMEOUT: Duration = Duration::from_secs(15);

/// Whether the issuer may show a login page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Prompting {
    /// It may.
    Page,
    /// It must not: it either has a session of the user or refuses (`prompt=none`).
    Silent,
}

/// Logs the user in at a gateway and stores the token. `challenge` is the `WWW-Authenticate` header of
/// the gateway.
pub async fn login(
    target: &Target,
    challenge: Option<&str>,
    prompting: Prompting,
    ui: &dyn LoginUi,
) -> Result<StoredToken, RemoteError> {
    let pending = Box::pin(PendingLogin::start(target, challenge, prompting)).await?;
    show(ui, pending.url(), prompting);
    let token = Box::pin(pending.finish()).await?;
    if prompting == Prompting::Page {
        ui.show("\n");
    }
    Ok(token)
}

/// A login that waits for the user.
#[derive(Debug)]
pub struct PendingLogin {
    target: Target,
    http: HttpClient,
    found: Discovered,
    client: ClientIdentity,
    callback: CallbackServer,
    authorization: PendingAuthorization,
    timeout: Duration,
}

impl PendingLogin {
    /// Discovers the issuer, opens the callback server and builds the authorization request.
    pub async fn start(
        target: &Target,
        challenge: Option<&str>,
        prompting: Prompting,
    ) -> Result<Self, RemoteError> {
        let failed =
            |reason: String| RemoteError::AuthFailed { endpoint: target.url.clone(), reason };
        let http = http_client();
        let found = discover(&http, target, challenge).await.map_err(failed)?;
        // Reserve the port before the client registers a redirect URI with it.
        let callback = CallbackServer::open().await.map_err(failed)?;
        let client = identify(&http, &found.issuer, &callback.url()).await.map_err(failed)?;
        let request = AuthorizationRequest {
            issuer: &found.issuer,
            client_id: &client.id,
            redirect_uri: &callback.url(),
            resource: &found.resource,
            scope: if found.scope.is_empty() { DEFAULT_SCOPES } else { &found.scope },
            prompt: (prompting == Prompting::Silent).then_some("none"),
        };
        let authorization = request.start().map_err(|err| failed(err.to_string()))?;
        let timeout = match prompting {
            Prompting::Page => TIMEOUT,
            Prompting::Silent => SILENT_TIMEOUT,
        };
        Ok(Self { target: target.clone(), http, found, client, callback, authorization, timeout })
    }

    /// The page where the user logs in.
    pub fn url(&self) -> &str {
        &self.authorization.url
    }

    /// Waits for the user, redeems the code and stores the token.
    pub async fn finish(self) -> Result<StoredToken, RemoteError> {
        let endpoint = self.target.url.clone();
        self.token().await.map_err(|reason| RemoteError::AuthFailed { endpoint, reason })
    }

    async fn token(self) -> Result<StoredToken, String> {
        let Self { target, http, found, client, callback, authorization, timeout } = self;
        let judge = |params: Option<&CallbackParams>| {
            authorization_code(params, &authorization, &found.issuer)
        };
        let code = callback.receive(timeout, judge).await?;
        let verifier = authorization.verifier.reveal();
        let fields = [
            ("grant_type", "authorization_code"),
            ("code", &code),
            ("redirect_uri", &callback.url()),
            ("code_verifier", verifier),
            ("resource", &found.resource),
        ];
        let endpoint =
            TokenEndpoint { url: &found.issuer.token_endpoint, client: &client, policy: POLICY };
        let response = endpoint.request(&http, &fields, &[&code, verifier]).await;
        let response = response.map_err(|err| err.to_string())?;
        let server_url = base_url(&target.url);
        let token = stored_token(response, server_url, &found.issuer.issuer, &client, None);
        store(&token)?;
        Ok(token)
    }
}

/// Refreshes a token without the user and stores the new one.
pub async fn refresh(old: &StoredToken) -> Result<StoredToken, String> {
    let refresh_token = old.refresh_token.as_ref().ok_or("no refresh token available")?.reveal();
    let http = http_client();
    let discovery = MetadataFetcher { http: &http, policy: POLICY };
    let issuer = discovery.issuer(&old.issuer_url).await.map_err(|err| err.to_string())?;
    let client = client_of(old);
    let fields = [("grant_type", "refresh_token"), ("refresh_token", refresh_token)];
    let endpoint = TokenEndpoint { url: &issuer.token_endpoint, client: &client, policy: POLICY };
    let response = endpoint.request(&http, &fields, &[refresh_token]).await;
    let response = response.map_err(|err| format!("token refresh failed: {err}"))?;
    let token = stored_token(response, &old.server_url, &old.issuer_url, &client, Some(old));
    store(&token)?;
    Ok(token)
}

/// Refreshes a stored token if it is about to expire. If that fails, returns the old one, which may still be accepted.
pub async fn fresh(token: StoredToken) -> StoredToken {
    if token.expires_soon()
        && token.can_refresh()
        && let Ok(refreshed) = refresh(&token).await
    {
        return refreshed;
    }
    token
}

/// Ends the login of a stored token at its gateway.
pub async fn end_login(token: &StoredToken) -> Result<(), String> {
    let revoked = match &token.refresh_token {
        Some(refresh_token) => RevocableToken::Refresh(refresh_token),
        None => RevocableToken::Access(&token.access_token),
    };
    let http = http_client();
    let discovery = MetadataFetcher { http: &http, policy: POLICY };
    let issuer = discovery.issuer(&token.issuer_url).await.map_err(|err| err.to_string())?;
    // An issuer without a revocation endpoint lets its tokens expire.
    let Some(endpoint) = issuer.revocation_endpoint else { return Ok(()) };
    revoke(&http, &endpoint, POLICY, &client_of(token), revoked).await
}

/// Ends the user's logins at all servers behind the gateway of a stored token, which must not have expired.
pub async fn end_server_logins(token: &StoredToken) -> Result<(), String> {
    let url = format!("{}/user-tokens", token.server_url.trim_end_matches('/'));
    let request = HttpRequest::get(url, POLICY).bearer(token.access_token.reveal());
    let request = request.with_body(Method::DELETE, "application/json", "");
    let response = http_client().send(request).await.map_err(|err| err.to_string())?;
    match response.status {
        status if status.is_success() => Ok(()),
        status => Err(format!("the gateway answered with status {}", status.as_u16())),
    }
}

pub(crate) fn http_client() -> HttpClient {
    HttpClient::new(Arc::new(TrustStore::system()))
}

async fn discover(
    http: &HttpClient,
    target: &Target,
    challenge: Option<&str>,
) -> Result<Discovered, String> {
    let challenge = BearerChallenge::parse(challenge.unwrap_or_default());
    let discovery = MetadataFetcher { http, policy: POLICY };
    discovery.discover(&target.url, &challenge, None).await.map_err(|err| match err {
        DiscoveryError::NoIssuer(reason) => format!(
            "server requires authentication but OAuth metadata could not be discovered: {reason}"
        ),
        DiscoveryError::Untrusted(reason) => reason,
    })
}

/// Returns the code of a callback for this request. The state is checked before anything else.
fn authorization_code(
    params: Option<&CallbackParams>,
    request: &PendingAuthorization,
    issuer: &IssuerMetadata,
) -> Result<String, String> {
    let params = params.ok_or("the callback repeats a parameter")?;
    if !params.state.as_deref().is_some_and(|state| random::same(state, &request.state)) {
        return Err("state mismatch - possible CSRF attack".to_owned());
    }
    let names_issuer = issuer.authorization_response_iss_parameter_supported;
    let code = params.authorization_code(&issuer.issuer, names_issuer);
    code.map(str::to_owned).map_err(|err| match err {
        CallbackError::Denied { description, .. } if !description.is_empty() => description,
        other => other.to_string(),
    })
}

/// Obtains the client's identity at an issuer: a new registration, else the configured or default client id.
async fn identify(
    http: &HttpClient,
    issuer: &IssuerMetadata,
    redirect_uri: &str,
) -> Result<ClientIdentity, String> {
    let configured = env_vars::get("MUSTER_OAUTH_CLIENT_ID").map(ClientIdentity::public);
    if let Some(configured) = configured {
        return Ok(configured);
    }
    let Some(endpoint) = &issuer.registration_endpoint else {
        return Ok(ClientIdentity::public(DEFAULT_CLIENT_ID.to_owned()));
    };
    let request = RegistrationRequest::new(CLIENT_NAME, redirect_uri);
    match register(http, POLICY, endpoint, &request).await {
        Ok((client, _)) => Ok(client),
        Err(err) => {
            Err(format!("{err}; register a client there and set MUSTER_OAUTH_CLIENT_ID to its id"))
        }
    }
}

/// The client that a token was issued to.
fn client_of(token: &StoredToken) -> ClientIdentity {
    let default = || DEFAULT_CLIENT_ID.to_owned();
    ClientIdentity {
        id: token.client_id.clone().unwrap_or_else(default),
        secret: token.client_secret.clone(),
        auth_method: token.client_auth_method.unwrap_or(ClientAuthMethod::Post),
    }
}

fn store(token: &StoredToken) -> Result<(), String> {
    let tokens = TokenStore::of_user().map_err(|err| err.to_string())?;
    tokens.store(token).map_err(|err| err.to_string())
}

/// Opens the browser, or shows the URL to open.
fn show(ui: &dyn LoginUi, url: &str, prompting: Prompting) {
    if prompting == Prompting::Silent {
        // If no browser opens, the silent login times out and a login with a page follows.
        drop(ui.open(url));
        return;
    }
    ui.show("Opening browser for authentication...");
    match ui.open(url) {
        Ok(()) => ui.show(" done\n"),
        Err(_) => {
            ui.show(&format!(" failed\nPlease open this URL in your browser:\n  {url}\n"));
        }
    }
    ui.show("Waiting for authentication to complete...\n");
}

/// The token to store. A refresh response may omit values that do not change: they are taken from `old`.
fn stored_token(
    response: TokenResponse,
    server_url: &str,
    issuer: &str,
    client: &ClientIdentity,
    old: Option<&StoredToken>,
) -> StoredToken {
    let now = Timestamp::now();
    let expiry = response.expires_in.and_then(|seconds| {
        Timestamp::from_second(now.as_second().checked_add(i64::try_from(seconds).ok()?)?).ok()
    });
    let kept = |new: Option<Secret>, old: Option<&Secret>| new.or_else(|| old.cloned());
    StoredToken {
        access_token: response.access_token,
        refresh_token: kept(response.refresh_token, old.and_then(|old| old.refresh_token.as_ref())),
        token_type: "Bearer".to_owned(),
        expiry,
        id_token: kept(response.id_token, old.and_then(|old| old.id_token.as_ref())),
        server_url: server_url.to_owned(),
        issuer_url: issuer.to_owned(),
        client_id: Some(client.id.clone()),
        client_secret: client.secret.clone(),
        client_auth_method: client.secret.as_ref().map(|_| client.auth_method),
        created_at: now,
    }
}
