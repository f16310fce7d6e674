//! The token endpoint: codes, refresh tokens and foreign tokens become tokens of this provider.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

use super::{
    book::{Bearer, Book, Kind},
    config::{Clients, Feature},
    core::{Core, Fresh, Minted},
    jwt,
    reply::Refusal,
};

/// The grant type of RFC 8693.
const EXCHANGE: &str = "urn:ietf:params:oauth:grant-type:token-exchange";
const ID_TOKEN: &str = "urn:ietf:params:oauth:token-type:id_token";
const ACCESS_TOKEN: &str = "urn:ietf:params:oauth:token-type:access_token";

/// The fields of a form.
#[derive(Debug, Clone)]
pub(crate) struct Form(Vec<(String, String)>);

impl Form {
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

    fn required(&self, name: &str) -> Result<&str, Refusal> {
        let missing = || Refusal::new("invalid_request", format!("{name} is missing"));
        self.get(name).ok_or_else(missing)
    }
}

fn ungranted(text: impl Into<String>) -> Refusal {
    Refusal::new("invalid_grant", text)
}

impl Core {
    /// Answers a request for tokens. `authorization` is the header of that name.
    pub(crate) fn token(&self, form: &Form, authorization: Option<&str>) -> Result<Value, Refusal> {
        self.refuse("token", self.judge(form, authorization))
    }

    fn judge(&self, form: &Form, authorization: Option<&str>) -> Result<Value, Refusal> {
        let kind = form.required("grant_type")?;
        let what = match kind {
            "authorization_code" => "token_code",
            "refresh_token" => "token_refresh",
            EXCHANGE => "token_exchange",
            _ => "token_other",
        };
        self.asked(what);
        if let Some(error) = self.look(|book| book.error.clone()) {
            return Err(Refusal::new(&error, "simulated"));
        }
        let client = self.client(form, authorization)?;
        match kind {
            "authorization_code" => self.by_code(form, client.as_deref()),
            "refresh_token" => self.by_refresh(form, client.as_deref()),
            EXCHANGE => self.by_exchange(form, client.as_deref()),
            other => Err(Refusal::new("unsupported_grant_type", format!("`{other}`"))),
        }
    }

    /// Who asks, once the secret is right. An exchange needs no client unless it names one.
    fn client(&self, form: &Form, authorization: Option<&str>) -> Result<Option<String>, Refusal> {
        let wrong = |text: &str| Err(Refusal::new("invalid_client", text));
        let basic = authorization.and_then(basic);
        if let (Some((id, _)), Some(other)) = (&basic, form.get("client_id"))
            && id != other
        {
            return wrong("two clients at once");
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
            let registered = self.look(|book| book.clients.get(&id).cloned());
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

    fn by_code(&self, form: &Form, client: Option<&str>) -> Result<Value, Refusal> {
        let value = form.required("code")?;
        let redirect_uri = form.required("redirect_uri")?;
        // Whatever comes of it, a code is good for one try.
        let code = self.write(|book| book.codes.remove(value)).flatten();
        let code = code.ok_or_else(|| ungranted("unknown code, or one that was used"))?;
        if code.expires <= self.clock.now() {
            return Err(ungranted("the code has expired"));
        }
        if client != Some(&code.grant.client) {
            return Err(ungranted("the code belongs to another client"));
        }
        if redirect_uri != code.redirect_uri {
            return Err(ungranted("redirect_uri is another one than before"));
        }
        match (&code.challenge, form.get("code_verifier")) {
            (None, None) => {}
            (Some(challenge), Some(verifier)) if jwt::challenge_of(verifier) == *challenge => {}
            (Some(_), Some(_)) => return Err(ungranted("code_verifier is wrong")),
            (Some(_), None) => return Err(ungranted("code_verifier is missing")),
            (None, Some(_)) => return Err(ungranted("code_verifier without a code_challenge")),
        }
        let mut grant = code.grant;
        grant.resources = narrowed(&grant.resources, form, self)?;
        Ok(answer(&self.issue(&grant, code.nonce.as_deref(), Fresh::Login)))
    }

    fn by_refresh(&self, form: &Form, client: Option<&str>) -> Result<Value, Refusal> {
        let value = form.required("refresh_token")?;
        let owner = self.look(|book| book.refreshes.get(value).map(|grant| grant.client.clone()));
        if owner.is_some() && owner.as_deref() != client {
            return Err(ungranted("the refresh token belongs to another client"));
        }
        let grant = self.write(|book: &mut Book| book.spend(value)).flatten();
        let mut grant =
            grant.ok_or_else(|| ungranted("unknown refresh token, or one that was used"))?;
        if let Some(scope) = form.get("scope") {
            let wishes: Vec<String> = scope.split_whitespace().map(str::to_owned).collect();
            if wishes.iter().any(|wish| !grant.scope.contains(wish)) {
                return Err(Refusal::new("invalid_scope", "more than was granted"));
            }
            grant.scope = wishes;
        }
        grant.resources = narrowed(&grant.resources, form, self)?;
        Ok(answer(&self.issue(&grant, None, Fresh::Refresh)))
    }

    /// A token of another provider for one of this one.
    fn by_exchange(&self, form: &Form, client: Option<&str>) -> Result<Value, Refusal> {
        let trusted = self.trusted.get().map(Vec::as_slice).unwrap_or_default();
        if trusted.is_empty() {
            return Err(Refusal::new("unsupported_grant_type", "no issuer is trusted here"));
        }
        let subject = form.required("subject_token")?;
        let kind = form.get("subject_token_type").unwrap_or(ID_TOKEN);
        let connector = form.get("connector_id").or_else(|| form.get("audience"));
        let connector = connector.unwrap_or_default();
        let other = trusted.iter().find(|trusted| trusted.connector == connector);
        let unknown = || Refusal::new("invalid_target", format!("unknown connector `{connector}`"));
        let other = other.ok_or_else(unknown)?;
        let issued = match kind {
            ID_TOKEN => {
                let claims = jwt::claims(subject).unwrap_or_default();
                if claims.get("iss").and_then(Value::as_str) != Some(other.core.issuer()) {
                    return Err(ungranted("the subject token is of another issuer"));
                }
                other.core.id_token(subject)
            }
            ACCESS_TOKEN => other.core.bearer(subject).filter(|bearer| bearer.kind == Kind::Access),
            other => return Err(Refusal::new("invalid_request", format!("`{other}`"))),
        };
        let Bearer { grant: theirs, .. } =
            issued.ok_or_else(|| ungranted("the subject token is unknown or has expired"))?;
        let client = client.unwrap_or(&self.config.client_id);
        let resources = form.all("resource").map(str::to_owned).collect();
        let scope = form.get("scope").unwrap_or_default();
        let grant = self.grant(client, &theirs.person, scope, resources);
        let minted = self.issue(&grant, None, Fresh::Login);
        let wanted = form.get("requested_token_type").unwrap_or(ACCESS_TOKEN);
        let (token, token_type) = match wanted {
            ACCESS_TOKEN => (minted.access, "Bearer"),
            ID_TOKEN => (minted.id, "Bearer"),
            other => return Err(Refusal::new("invalid_request", format!("`{other}`"))),
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

/// The resources of a token: those of this request, which must be among those of the login.
fn narrowed(granted: &[String], form: &Form, core: &Core) -> Result<Vec<String>, Refusal> {
    let wishes: Vec<String> = form.all("resource").map(str::to_owned).collect();
    if wishes.is_empty() || !core.config().has(Feature::BindResources) {
        return Ok(granted.to_vec());
    }
    match wishes.iter().all(|wish| granted.contains(wish)) {
        true => Ok(wishes),
        false => Err(Refusal::new("invalid_target", "a resource that was not granted")),
    }
}

fn answer(minted: &Minted) -> Value {
    json!({
        "access_token": minted.access,
        "token_type": "Bearer",
        "expires_in": minted.lifetime.as_secs(),
        "refresh_token": minted.refresh,
        "id_token": minted.id,
        "scope": minted.scope,
    })
}

/// Client and secret out of a header.
fn basic(header: &str) -> Option<(String, String)> {
    let (scheme, rest) = header.split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let text = String::from_utf8(STANDARD.decode(rest.trim()).ok()?).ok()?;
    let (id, secret) = text.split_once(':')?;
    // Both halves are written as in a form before they are joined.
    let plain = |text: &str| {
        let pair = format!("v={text}");
        Form::read(&pair).get("v").map(str::to_owned).unwrap_or_default()
    };
    Some((plain(id), plain(secret)))
}
