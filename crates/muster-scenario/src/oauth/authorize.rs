//! The authorization endpoint: whether a client asks properly, and the code it is given.

use std::time::Duration;

use http::Request;
use serde_json::Value;

use super::{
    book::{Code, Person},
    config::{Clients, Feature},
    core::Core,
    reply::Refusal,
};
use crate::{http as web, instance::random_hex};

/// How long a code is good for.
const CODE_LIFETIME: Duration = Duration::from_secs(600);

/// What a client asks for.
#[derive(Debug, Default)]
pub(crate) struct Asked {
    response_type: String,
    client_id: String,
    pub(crate) redirect_uri: String,
    state: Option<String>,
    scope: String,
    challenge: Option<String>,
    method: Option<String>,
    nonce: Option<String>,
    resources: Vec<String>,
}

impl Asked {
    pub(crate) fn read(query: &str) -> Self {
        let mut asked = Self::default();
        for (key, value) in form_urlencoded::parse(query.as_bytes()) {
            let value = value.into_owned();
            match &*key {
                "response_type" => asked.response_type = value,
                "client_id" => asked.client_id = value,
                "redirect_uri" => asked.redirect_uri = value,
                "state" => asked.state = Some(value),
                "scope" => asked.scope = value,
                "code_challenge" => asked.challenge = Some(value),
                "code_challenge_method" => asked.method = Some(value),
                "nonce" => asked.nonce = Some(value),
                "resource" => asked.resources.push(value),
                _ => {}
            }
        }
        asked
    }

    /// Where the browser goes, with what is to be told there.
    fn back(&self, core: &Core, pairs: &[(&str, &str)]) -> String {
        let mut query = form_urlencoded::Serializer::new(String::new());
        query.extend_pairs(pairs);
        if let Some(state) = &self.state {
            query.append_pair("state", state);
        }
        query.append_pair("iss", core.issuer());
        let joint = if self.redirect_uri.contains('?') { '&' } else { '?' };
        format!("{}{joint}{}", self.redirect_uri, query.finish())
    }
}

/// Why there is no code.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Denied {
    /// The client is not to be trusted, so only the person in front of the browser is told.
    #[error("{0}")]
    Shown(Refusal),
    /// The client is told, at this address.
    #[error("{0}")]
    Told(Refusal, String),
}

impl Core {
    /// Judges what a client asks for, and lets `person` agree. Where the browser goes then.
    pub(crate) async fn authorize(&self, asked: &Asked, person: &Person) -> Result<String, Denied> {
        self.asked("authorize");
        let known = self.check_client(asked).await;
        self.refuse("authorize", known).map_err(Denied::Shown)?;
        let wish = self.refuse("authorize", self.check_wish(asked));
        wish.map_err(|refusal| {
            let pairs = [("error", &*refusal.error), ("error_description", &refusal.description)];
            let back = asked.back(self, &pairs);
            Denied::Told(refusal, back)
        })?;
        let grant = self.grant(&asked.client_id, person, &asked.scope, asked.resources.clone());
        let code = Code {
            grant,
            redirect_uri: asked.redirect_uri.clone(),
            challenge: asked.challenge.clone(),
            nonce: asked.nonce.clone(),
            expires: self.clock.now() + CODE_LIFETIME,
        };
        let value = format!("mock-code-{}{}", random_hex(), random_hex());
        self.write(|book| book.codes.insert(value.clone(), code));
        Ok(asked.back(self, &[("code", &value)]))
    }

    /// Whether the client may be sent anything at all.
    async fn check_client(&self, asked: &Asked) -> Result<(), Refusal> {
        let Asked { client_id, redirect_uri, .. } = asked;
        let wrong = |text: &str| Err(Refusal::new("invalid_request", text));
        if client_id.is_empty() {
            return wrong("client_id is missing");
        }
        let uri: Result<http::Uri, _> = redirect_uri.parse();
        match uri {
            Ok(uri) if uri.scheme().is_some() && !redirect_uri.contains('#') => {}
            Ok(_) | Err(_) => return wrong("redirect_uri is missing or no absolute address"),
        }
        if *client_id == self.config.client_id && self.config.clients != Clients::Any {
            return Ok(());
        }
        let stranger = || Refusal::new("invalid_client", format!("unknown client `{client_id}`"));
        let uris = match self.config.clients {
            Clients::Any => return Ok(()),
            Clients::Static => return Err(stranger()),
            Clients::Dynamic => {
                let client = self.look(|book| book.clients.get(client_id).cloned());
                client.ok_or_else(stranger)?.redirect_uris
            }
            Clients::Metadata => document_uris(client_id).await?,
        };
        match uris.contains(redirect_uri) {
            true => Ok(()),
            false => wrong("redirect_uri is not one of the client's"),
        }
    }

    fn check_wish(&self, asked: &Asked) -> Result<(), Refusal> {
        let wrong = |text: &str| Err(Refusal::new("invalid_request", text));
        if asked.response_type != "code" {
            return Err(Refusal::new("unsupported_response_type", "response_type must be `code`"));
        }
        if asked.state.as_deref().unwrap_or_default().is_empty() {
            return wrong("state is missing");
        }
        match (&asked.challenge, asked.method.as_deref()) {
            (Some(challenge), Some("S256")) if challenge.len() == 43 => {}
            (Some(_), Some("S256")) => return wrong("code_challenge is no SHA-256"),
            (Some(_), _) => return wrong("code_challenge_method must be `S256`"),
            (None, _) if self.config.has(Feature::PkceRequired) => {
                return wrong("code_challenge is missing");
            }
            (None, _) => {}
        }
        if self.config.has(Feature::BindResources) && asked.resources.is_empty() {
            return Err(Refusal::new("invalid_target", "resource is missing"));
        }
        Ok(())
    }
}

/// The addresses that a client's own document names. Only documents on this machine are read.
async fn document_uris(client_id: &str) -> Result<Vec<String>, Refusal> {
    let wrong = |text: String| Refusal::new("invalid_client", text);
    let uri: http::Uri =
        client_id.parse().map_err(|_| wrong(format!("unknown client `{client_id}`")))?;
    let (Some("localhost" | "127.0.0.1"), Some(port)) = (uri.host(), uri.port_u16()) else {
        return Err(wrong(format!("`{client_id}` is not on this machine")));
    };
    let unread = |why: String| wrong(format!("cannot read `{client_id}`: {why}"));
    let request = Request::get(uri.path()).header("accept", "application/json");
    let response = web::send(port, request, String::new()).await;
    let response = response.map_err(|err| unread(err.to_string()))?;
    if !response.status.is_success() {
        return Err(unread(format!("status {}", response.status)));
    }
    let text = response.text().await.map_err(|err| unread(err.to_string()))?;
    let document: Value = serde_json::from_str(&text).map_err(|err| unread(err.to_string()))?;
    if document.get("client_id").and_then(Value::as_str) != Some(client_id) {
        return Err(unread("its client_id is another one".to_owned()));
    }
    let uris = document.get("redirect_uris").and_then(Value::as_array).into_iter().flatten();
    Ok(uris.filter_map(|uri| uri.as_str().map(str::to_owned)).collect())
}
