//! One login from start to end: authorization code with PKCE, and renewal.

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use muster_auth::random;
use muster_net::{AddressPolicy, HttpClient, HttpRequest, TrustStore};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    LoginUi,
    callback_server::{CallbackParams, CallbackServer},
    discovery::{self, Issuer, Place},
    token_store::{StoredToken, TokenStore, base_url},
};
use crate::remote::{error::RemoteError, target::Target};

/// Who we are where clients describe themselves by a document.
const CLIENT_ID: &str = "https://giantswarm.github.io/muster/muster-agent.json";
/// How long a user may take.
const PATIENCE: Duration = Duration::from_secs(10 * 60);
/// How long an issuer may take that shows no page.
const SILENT_PATIENCE: Duration = Duration::from_secs(15);

/// Whether the issuer may show a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Prompting {
    /// It may.
    Page,
    /// It must not: either it still knows the user, or it refuses.
    Silent,
}

/// Whom a token is made for.
#[derive(Clone)]
struct Client {
    id: String,
    secret: Option<String>,
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client").field("id", &self.id).finish_non_exhaustive()
    }
}

/// Logs the user in at a gateway and keeps the token. `challenge` is what the gateway sent with its
/// refusal.
pub async fn login(
    target: &Target,
    challenge: Option<&str>,
    prompting: Prompting,
    ui: &dyn LoginUi,
) -> Result<StoredToken, RemoteError> {
    let begun = Box::pin(PendingLogin::new(target, challenge, prompting)).await?;
    show(ui, begun.url(), prompting);
    let token = Box::pin(begun.finish()).await?;
    if prompting == Prompting::Page {
        ui.show("\n");
    }
    Ok(token)
}

/// A login that waits for the user.
#[derive(Debug)]
pub struct PendingLogin {
    target: Target,
    dialer: HttpClient,
    place: Place,
    client: Client,
    callback: CallbackServer,
    asked: Asked,
    patience: Duration,
}

impl PendingLogin {
    /// Finds out where the user logs in, and opens the page on this machine that they come back to.
    pub async fn new(
        target: &Target,
        challenge: Option<&str>,
        prompting: Prompting,
    ) -> Result<Self, RemoteError> {
        let failed =
            |reason: String| RemoteError::AuthFailed { endpoint: target.url.clone(), reason };
        let dialer = dialer();
        let place = discovery::find(&dialer, &target.url, challenge).await.map_err(failed)?;
        // The port is taken before anybody is asked anything.
        let callback = CallbackServer::open().await.map_err(failed)?;
        let client = client(&dialer, &place.issuer, &callback.url()).await.map_err(failed)?;
        let asked = Asked::new(&place, &client, &callback.url(), prompting).map_err(failed)?;
        let patience = if prompting == Prompting::Silent { SILENT_PATIENCE } else { PATIENCE };
        Ok(Self { target: target.clone(), dialer, place, client, callback, asked, patience })
    }

    /// The page where the user logs in.
    pub fn url(&self) -> &str {
        &self.asked.url
    }

    /// Waits for the user, and keeps the token.
    pub async fn finish(self) -> Result<StoredToken, RemoteError> {
        let endpoint = self.target.url.clone();
        self.token().await.map_err(|reason| RemoteError::AuthFailed { endpoint, reason })
    }

    async fn token(self) -> Result<StoredToken, String> {
        let Self { target, dialer, place, client, callback, asked, patience } = self;
        let visit = callback.visit(patience, |visit| asked.judge(visit, &place.issuer)).await;
        let code = visit?.code.unwrap_or_default();
        let redirect = callback.url();
        let mut form = vec![
            ("grant_type", "authorization_code"),
            ("code", &code),
            ("redirect_uri", &redirect),
            ("client_id", &client.id),
            ("code_verifier", &asked.verifier),
            ("resource", &place.resource),
        ];
        if let Some(secret) = &client.secret {
            form.push(("client_secret", secret));
        }
        let given = exchange(&dialer, &place.issuer, &form).await?;
        let token = given.into_token(&target, &place.issuer.issuer, &client, None);
        keep(&token)?;
        Ok(token)
    }
}

/// Makes a new token of an old one, without the user, and keeps it.
pub async fn refresh(target: &Target, old: &StoredToken) -> Result<StoredToken, String> {
    let refresh = old.refresh_token.as_ref().ok_or("no refresh token available")?;
    let dialer = dialer();
    let issuer = discovery::issuer_at(&dialer, &old.issuer_url).await?;
    let client = Client {
        id: old.client_id.clone().unwrap_or_else(|| CLIENT_ID.to_owned()),
        secret: old.client_secret.as_ref().map(|secret| secret.reveal().clone()),
    };
    let mut form = vec![
        ("grant_type", "refresh_token"),
        ("refresh_token", refresh.reveal()),
        ("client_id", &client.id),
    ];
    if let Some(secret) = &client.secret {
        form.push(("client_secret", secret));
    }
    let given = exchange(&dialer, &issuer, &form).await;
    let given = given.map_err(|reason| format!("token refresh failed: {reason}"))?;
    let token = given.into_token(target, &old.issuer_url, &client, Some(old));
    keep(&token)?;
    Ok(token)
}

fn dialer() -> HttpClient {
    HttpClient::new(Arc::new(TrustStore::system()))
}

fn keep(token: &StoredToken) -> Result<(), String> {
    let tokens = TokenStore::of_user().map_err(|err| err.to_string())?;
    tokens.store(token).map_err(|err| err.to_string())
}

/// Opens the browser, or says what to open.
fn show(ui: &dyn LoginUi, url: &str, prompting: Prompting) {
    if prompting == Prompting::Silent {
        // Without a browser nothing comes back, and a page is shown next.
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

/// What was asked of the issuer, to be held against what comes back.
struct Asked {
    url: String,
    state: String,
    verifier: String,
}

impl std::fmt::Debug for Asked {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Asked")
    }
}

impl Asked {
    fn new(
        place: &Place,
        client: &Client,
        redirect: &str,
        prompting: Prompting,
    ) -> Result<Self, String> {
        let random = || random::token().map_err(|err| err.to_string());
        let (state, verifier) = (random()?, random()?);
        let challenge = random::digest_of(&verifier);
        let endpoint = &place.issuer.authorization_endpoint;
        // The browser goes there, and must not be sent anywhere else than to a page.
        AddressPolicy::Private.parse(endpoint).map_err(|err| err.to_string())?;
        let mut query = form_urlencoded::Serializer::new(String::new());
        query.extend_pairs([
            ("response_type", "code"),
            ("client_id", &client.id),
            ("redirect_uri", redirect),
            ("scope", &place.scope),
            ("state", &state),
            ("code_challenge", &challenge),
            ("code_challenge_method", "S256"),
            ("resource", &place.resource),
        ]);
        if prompting == Prompting::Silent {
            query.append_pair("prompt", "none");
        }
        let mark = if endpoint.contains('?') { '&' } else { '?' };
        Ok(Self { url: format!("{endpoint}{mark}{}", query.finish()), state, verifier })
    }

    /// Whether what came back is the answer to what was asked.
    fn judge(&self, visit: &CallbackParams, issuer: &Issuer) -> Result<(), String> {
        let fits = visit.state.as_deref().is_some_and(|state| random::same(state, &self.state));
        if !fits {
            return Err("state mismatch - possible CSRF attack".to_owned());
        }
        let named = visit.issuer.as_deref();
        let must = issuer.authorization_response_iss_parameter_supported;
        if named.map_or(must, |named| named != issuer.issuer) {
            return Err(
                "the answer comes from another issuer than the one that was asked".to_owned()
            );
        }
        if let Some(error) = &visit.error {
            return Err(error.clone());
        }
        if visit.code.is_none() {
            return Err("the answer holds no code".to_owned());
        }
        Ok(())
    }
}

/// Who we are at an issuer: as it registers us, or by a document where it reads such. The document comes
/// second because the issuer may have no way to it, and says so only to the browser.
async fn client(dialer: &HttpClient, issuer: &Issuer, redirect: &str) -> Result<Client, String> {
    let known = Client { id: CLIENT_ID.to_owned(), secret: None };
    let Some(url) = &issuer.registration_endpoint else { return Ok(known) };
    match register(dialer, url, redirect).await {
        Err(_) if issuer.client_id_metadata_document_supported => Ok(known),
        registered => registered,
    }
}

async fn register(dialer: &HttpClient, url: &str, redirect: &str) -> Result<Client, String> {
    let wish = json!({
        "client_name": "muster",
        "redirect_uris": [redirect],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": "none",
    });
    let ask = HttpRequest::post(url, AddressPolicy::Private, "application/json", wish.to_string());
    let answer = dialer.send(ask).await.map_err(|err| err.to_string())?;
    let given: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
    let text = |key: &str| given.get(key).and_then(Value::as_str).map(str::to_owned);
    match text("client_id") {
        Some(id) if answer.status.is_success() => Ok(Client { id, secret: text("client_secret") }),
        _ => Err(refusal("registration failed", answer.status.as_u16(), &given)),
    }
}

#[derive(Debug, Deserialize)]
struct Given {
    access_token: String,
    #[serde(default)]
    refresh_token: Option<String>,
    #[serde(default)]
    id_token: Option<String>,
    #[serde(default)]
    expires_in: Option<u32>,
}

async fn exchange(
    dialer: &HttpClient,
    issuer: &Issuer,
    form: &[(&str, &str)],
) -> Result<Given, String> {
    let ask = HttpRequest::form(&issuer.token_endpoint, AddressPolicy::Private, form);
    let answer = dialer.send(ask).await.map_err(|err| err.to_string())?;
    if !answer.status.is_success() {
        let said: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
        return Err(refusal("token request refused", answer.status.as_u16(), &said));
    }
    // What cannot be read may hold a token, so it is not shown.
    serde_json::from_slice(&answer.body).map_err(|_| "the answer holds no token".to_owned())
}

/// What an issuer says about its refusal.
fn refusal(what: &str, status: u16, said: &Value) -> String {
    let text = |key: &str| said.get(key).and_then(Value::as_str);
    match (text("error"), text("error_description")) {
        (Some(error), Some(more)) => format!("{what}: {error}: {more}"),
        (Some(error), None) => format!("{what}: {error}"),
        (None, _) => format!("{what} (status {status})"),
    }
}

impl Given {
    /// A renewal may leave out what stays as it is.
    fn into_token(
        self,
        target: &Target,
        issuer: &str,
        client: &Client,
        old: Option<&StoredToken>,
    ) -> StoredToken {
        let now = Timestamp::now();
        let until =
            |seconds: u32| Timestamp::from_second(now.as_second() + i64::from(seconds)).ok();
        let refresh = self.refresh_token.map(Into::into);
        let id = self.id_token.map(Into::into);
        StoredToken {
            access_token: self.access_token.into(),
            refresh_token: refresh.or_else(|| old.and_then(|old| old.refresh_token.clone())),
            token_type: "Bearer".to_owned(),
            expiry: self.expires_in.and_then(until),
            id_token: id.or_else(|| old.and_then(|old| old.id_token.clone())),
            server_url: base_url(&target.url).to_owned(),
            issuer_url: issuer.to_owned(),
            client_id: Some(client.id.clone()),
            client_secret: client.secret.clone().map(Into::into),
            created_at: now,
        }
    }
}
