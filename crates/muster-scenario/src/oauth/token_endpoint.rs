//! The token endpoint: authorization codes, refresh tokens and token exchange.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

use super::{
    config::{Clients, Feature},
    jwt,
    provider_state::{IssuedBy, ProviderState, TokenSet},
    records::{IssuedToken, ProviderRecords, TokenKind},
    responses::OAuthError,
};

/// The grant type of RFC 8693.
const EXCHANGE: &str = "urn:ietf:params:oauth:grant-type:token-exchange";
const ID_TOKEN: &str = "urn:ietf:params:oauth:token-type:id_token";
const ACCESS_TOKEN: &str = "urn:ietf:params:oauth:token-type:access_token";

/// The fields of a URL-encoded form.
#[derive(Debug, Clone)]
pub(crate) struct FormFields(Vec<(String, String)>);

impl FormFields {
    pub(crate) fn read(text: &str) -> Self {
        let pairs = form_urlencoded::parse(text.as_bytes());
        Self(pairs.map(|(key, value)| (key.into_owned(), value.into_owned())).collect())
    }

    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        let found = self.0.iter().find(|(key, value)| key == name && !value.is_empty());
        found.map(|(_, value)| value.as_str())
    }

    fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        let found = self.0.iter().filter(move |(key, value)| key == name && !value.is_empty());
        found.map(|(_, value)| value.as_str())
    }

    fn required(&self, name: &str) -> Result<&str, OAuthError> {
        let missing = || OAuthError::new("invalid_request", format!("{name} is missing"));
        self.get(name).ok_or_else(missing)
    }
}

fn invalid_grant(text: impl Into<String>) -> OAuthError {
    OAuthError::new("invalid_grant", text)
}

impl ProviderState {
    /// Handles a token request. `authorization` is the header of that name.
    pub(crate) fn token(
        &self,
        form: &FormFields,
        authorization: Option<&str>,
    ) -> Result<Value, OAuthError> {
        self.record_rejection("token", self.handle_token_request(form, authorization))
    }

    fn handle_token_request(
        &self,
        form: &FormFields,
        authorization: Option<&str>,
    ) -> Result<Value, OAuthError> {
        let kind = form.required("grant_type")?;
        let what = match kind {
            "authorization_code" => "token_code",
            "refresh_token" => "token_refresh",
            EXCHANGE => "token_exchange",
            _ => "token_other",
        };
        self.count_request(what);
        if let Some(error) = self.read(|records| records.error.clone()) {
            return Err(OAuthError::new(&error, "simulated"));
        }
        let client = self.client(form, authorization)?;
        match kind {
            "authorization_code" => self.redeem_code(form, client.as_deref()),
            "refresh_token" => self.refresh(form, client.as_deref()),
            EXCHANGE => self.exchange(form, client.as_deref()),
            other => Err(OAuthError::new("unsupported_grant_type", format!("`{other}`"))),
        }
    }

    /// Authenticates the client. An exchange needs none unless it names one.
    fn client(
        &self,
        form: &FormFields,
        authorization: Option<&str>,
    ) -> Result<Option<String>, OAuthError> {
        let wrong = |text: &str| Err(OAuthError::new("invalid_client", text));
        let basic = authorization.and_then(basic);
        if let (Some((id, _)), Some(other)) = (&basic, form.get("client_id"))
            && id != other
        {
            return wrong("two different client ids");
        }
        let (id, secret) = match basic {
            Some((id, secret)) => (Some(id), Some(secret)),
            None => (
                form.get("client_id").map(str::to_owned),
                form.get("client_secret").map(str::to_owned),
            ),
        };
        let Some(id) = id else { return Ok(None) };
        let wanted = if id == self.config.client_id {
            self.config.client_secret.clone()
        } else {
            let registered = self.read(|records| records.clients.get(&id).cloned());
            match (registered, self.config.clients) {
                (Some(client), _) => client.secret,
                (None, Clients::Any | Clients::Metadata) => None,
                (None, Clients::Dynamic | Clients::Static) => return wrong("unknown client"),
            }
        };
        match wanted.is_none_or(|wanted| secret.as_deref() == Some(&wanted)) {
            true => Ok(Some(id)),
            false => wrong("wrong client secret"),
        }
    }

    fn redeem_code(&self, form: &FormFields, client: Option<&str>) -> Result<Value, OAuthError> {
        let value = form.required("code")?;
        let redirect_uri = form.required("redirect_uri")?;
        // A code can be used once, even if the request fails.
        let code = self.update(|records| records.codes.remove(value)).flatten();
        let code = code.ok_or_else(|| invalid_grant("unknown or used code"))?;
        if code.expires <= self.clock.now() {
            return Err(invalid_grant("the code has expired"));
        }
        if client != Some(&code.grant.client) {
            return Err(invalid_grant("the code belongs to another client"));
        }
        if redirect_uri != code.redirect_uri {
            return Err(invalid_grant("redirect_uri differs from the authorization request"));
        }
        match (&code.challenge, form.get("code_verifier")) {
            (None, None) => {}
            (Some(challenge), Some(verifier)) if jwt::challenge_of(verifier) == *challenge => {}
            (Some(_), Some(_)) => return Err(invalid_grant("code_verifier is wrong")),
            (Some(_), None) => return Err(invalid_grant("code_verifier is missing")),
            (None, Some(_)) => return Err(invalid_grant("code_verifier without a code_challenge")),
        }
        let mut grant = code.grant;
        grant.resources = narrowed(&grant.resources, form, self)?;
        Ok(answer(&self.issue(&grant, code.nonce.as_deref(), IssuedBy::Login)))
    }

    fn refresh(&self, form: &FormFields, client: Option<&str>) -> Result<Value, OAuthError> {
        let value = form.required("refresh_token")?;
        let owner =
            self.read(|records| records.refreshes.get(value).map(|grant| grant.client.clone()));
        if owner.is_some() && owner.as_deref() != client {
            return Err(invalid_grant("the refresh token belongs to another client"));
        }
        let grant = self
            .update(|records: &mut ProviderRecords| records.redeem_refresh_token(value))
            .flatten();
        let mut grant = grant.ok_or_else(|| invalid_grant("unknown or used refresh token"))?;
        if let Some(scope) = form.get("scope") {
            let requested: Vec<String> = scope.split_whitespace().map(str::to_owned).collect();
            if requested.iter().any(|scope| !grant.scope.contains(scope)) {
                return Err(OAuthError::new("invalid_scope", "a scope was not granted"));
            }
            grant.scope = requested;
        }
        grant.resources = narrowed(&grant.resources, form, self)?;
        Ok(answer(&self.issue(&grant, None, IssuedBy::Refresh)))
    }

    /// Exchanges a token of another provider (RFC 8693).
    fn exchange(&self, form: &FormFields, client: Option<&str>) -> Result<Value, OAuthError> {
        let trusted = self.trusted.get().map(Vec::as_slice).unwrap_or_default();
        if trusted.is_empty() {
            return Err(OAuthError::new(
                "unsupported_grant_type",
                "token exchange is disabled: no trusted issuers",
            ));
        }
        let subject = form.required("subject_token")?;
        let kind = form.get("subject_token_type").unwrap_or(ID_TOKEN);
        let connector = form.get("connector_id").or_else(|| form.get("audience"));
        let connector = connector.unwrap_or_default();
        let other = trusted.iter().find(|trusted| trusted.connector == connector);
        let unknown =
            || OAuthError::new("invalid_target", format!("unknown connector `{connector}`"));
        let other = other.ok_or_else(unknown)?;
        let issued = match kind {
            ID_TOKEN => {
                let claims = jwt::claims(subject).unwrap_or_default();
                if claims.get("iss").and_then(Value::as_str) != Some(other.state.issuer()) {
                    return Err(invalid_grant("the subject token has another issuer"));
                }
                other.state.id_token(subject)
            }
            ACCESS_TOKEN => {
                other.state.bearer(subject).filter(|bearer| bearer.kind == TokenKind::Access)
            }
            other => return Err(OAuthError::new("invalid_request", format!("`{other}`"))),
        };
        let IssuedToken { grant: theirs, .. } =
            issued.ok_or_else(|| invalid_grant("the subject token is unknown or has expired"))?;
        let client = client.unwrap_or(&self.config.client_id);
        let resources = form.all("resource").map(str::to_owned).collect();
        let scope = form.get("scope").unwrap_or_default();
        let grant = self.grant(client, &theirs.identity, scope, resources);
        let minted = self.issue(&grant, None, IssuedBy::Login);
        let wanted = form.get("requested_token_type").unwrap_or(ACCESS_TOKEN);
        let (token, token_type) = match wanted {
            ACCESS_TOKEN => (minted.access, "Bearer"),
            ID_TOKEN => (minted.id, "Bearer"),
            other => return Err(OAuthError::new("invalid_request", format!("`{other}`"))),
        };
        Ok(json!({
            "access_token": token,
            "issued_token_type": wanted,
            "token_type": token_type,
            "expires_in": minted.lifetime.as_secs(),
            "scope": minted.scope,
        }))
    }
}

/// The resources of a token: those requested, which must be a subset of those granted at login.
fn narrowed(
    granted: &[String],
    form: &FormFields,
    state: &ProviderState,
) -> Result<Vec<String>, OAuthError> {
    let requested: Vec<String> = form.all("resource").map(str::to_owned).collect();
    if requested.is_empty() || !state.config().has(Feature::BindResources) {
        return Ok(granted.to_vec());
    }
    match requested.iter().all(|scope| granted.contains(scope)) {
        true => Ok(requested),
        false => Err(OAuthError::new("invalid_target", "a resource was not granted")),
    }
}

fn answer(minted: &TokenSet) -> Value {
    json!({
        "access_token": minted.access,
        "token_type": "Bearer",
        "expires_in": minted.lifetime.as_secs(),
        "refresh_token": minted.refresh,
        "id_token": minted.id,
        "scope": minted.scope,
    })
}

/// The client id and secret of a Basic `Authorization` header.
fn basic(header: &str) -> Option<(String, String)> {
    let (scheme, rest) = header.split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let text = String::from_utf8(STANDARD.decode(rest.trim()).ok()?).ok()?;
    let (id, secret) = text.split_once(':')?;
    // Both parts are form-encoded (RFC 6749, section 2.3.1).
    let plain = |text: &str| {
        let pair = format!("v={text}");
        FormFields::read(&pair).get("v").map(str::to_owned).unwrap_or_default()
    };
    Some((plain(id), plain(secret)))
}
