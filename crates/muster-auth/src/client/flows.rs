//! Logins under way: from the address that a person opens to the moment they come back.

use std::{sync::Arc, time::Duration};

use muster_core::{
    call::Owner,
    credentials::Principal,
    logins::{LoginError, LoginObserver, LoginSubject, ProtectedServer},
};
use serde::{Deserialize, Serialize};
use tokio::time::timeout;

use super::{
    Client,
    discovery::Found,
    given::Grant,
    grants::{Counter, Denied},
    identity::Identity,
    places,
};
use crate::{
    random::{self, digest_of},
    secret::Secret,
};

/// How long a person may take.
const KEEP: Duration = Duration::from_secs(10 * 60);
/// How long whoever comes back waits for the server to be connected.
const ARRIVAL: Duration = Duration::from_secs(15);

/// What is remembered of a login until the person comes back. Another gateway may be the one they come
/// back to.
#[derive(Debug, Serialize, Deserialize)]
struct Flow {
    owner: (bool, String),
    /// Whose login it becomes, in words, if that is known.
    #[serde(default)]
    whose: Option<String>,
    server: String,
    issuer: String,
    answers_with_issuer: bool,
    token_endpoint: String,
    revocation_endpoint: Option<String>,
    identity: Identity,
    verifier: Secret,
    resource: String,
    scope: String,
}

/// Who waits for a login in this process.
#[derive(Debug)]
pub(super) struct Waiting {
    person: LoginSubject,
    arrived: Arc<dyn LoginObserver>,
}

/// What a person comes back with.
#[derive(Debug, Default)]
pub(super) struct Return {
    pub(super) state: Option<String>,
    pub(super) code: Option<String>,
    pub(super) error: Option<String>,
    pub(super) issuer: Option<String>,
}

/// How it went.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// They are logged in to a server, which is connected, or why not; and whose login that is now.
    In { server: String, whose: Option<String>, trouble: Option<String> },
    /// They are not, for a reason that can be shown.
    Not(&'static str, String),
}

impl Client {
    /// The address that a person opens to log in.
    pub(super) async fn start(
        &self,
        person: &LoginSubject,
        site: &ProtectedServer,
        arrived: Arc<dyn LoginObserver>,
    ) -> Result<String, LoginError> {
        let found = self.discover(site).await?;
        self.note_site(site, &found);
        let scope = self.wanted_scope(person, site, &found).await;
        let identity = self.identity(&found.issuer, &scope).await?;
        let random = |_| LoginError::Unavailable("the system has no randomness to give".to_owned());
        let (state, verifier) =
            (random::token().map_err(random)?, random::token().map_err(random)?);
        let redirect = self.options.callback_url();
        let url = address(
            &found,
            &[
                ("response_type", "code"),
                ("client_id", &identity.id),
                ("redirect_uri", &redirect),
                ("state", &state),
                ("code_challenge", &digest_of(&verifier)),
                ("code_challenge_method", "S256"),
                ("resource", &found.resource),
                ("scope", &scope),
            ],
        );
        let flow = Flow {
            owner: written(&person.owner),
            whose: person.principal.as_deref().map(named),
            server: site.name.clone(),
            issuer: found.issuer.issuer,
            answers_with_issuer: found.issuer.authorization_response_iss_parameter_supported,
            token_endpoint: found.issuer.token_endpoint,
            revocation_endpoint: found.issuer.revocation_endpoint,
            identity,
            verifier: Secret::new(verifier),
            resource: found.resource,
            scope,
        };
        let stored = self.vault.put(&name(&state), &flow, KEEP).await;
        stored.map_err(|error| LoginError::Unavailable(error.to_string()))?;
        let waiting = Waiting { person: person.clone(), arrived };
        self.wait(state, waiting);
        Ok(url)
    }

    /// What is asked for: what the server wants, what it wanted in vain, and that the login lasts, if
    /// the issuer knows such a thing.
    async fn wanted_scope(
        &self,
        person: &LoginSubject,
        site: &ProtectedServer,
        found: &Found,
    ) -> String {
        let mut scope = found.scope.clone();
        if let Some(more) = self.steps.wanted(&person.owner, &site.name) {
            let granted = self.slot(&person.owner, &found.issuer.issuer).await.get();
            let granted = granted.map(|grant| grant.scope).unwrap_or_default();
            scope = places::union(&places::union(&scope, &granted), &more);
        }
        let lasting = "offline_access";
        let knows = found.issuer.scopes_supported.iter().any(|known| known == lasting);
        match knows && !scope.is_empty() {
            true => places::union(&scope, lasting),
            false => scope,
        }
    }

    /// Someone comes back.
    pub(super) async fn finish(self: &Arc<Self>, back: Return) -> Ending {
        let (flow, waiting) = match self.recall(&back).await {
            Ok(recalled) => recalled,
            Err(ending) => return ending,
        };
        // Before anything else is believed: who sent them.
        if let Err(ending) = check_issuer(&flow, back.issuer.as_deref()) {
            return ending;
        }
        let owner = read(&flow.owner);
        self.steps.asked(&owner, &flow.server, self.clock.now());
        if let Some(error) = &back.error {
            let error = super::discovery::clean(error);
            return Ending::Not("Sign-in was denied", format!("The provider said: {error}."));
        }
        let Some(code) = back.code else {
            return Ending::Not("Missing parameters", "The provider sent no code.".to_owned());
        };
        match self.redeem(&flow, &code).await {
            Ok(grant) => self.keep(&owner, grant).await,
            Err(denied) => {
                if let Denied::Client(_) = denied {
                    self.unregistered(&flow.issuer).await;
                }
                let reason = LoginError::from(denied).to_string();
                return Ending::Not("Sign-in could not be completed", reason);
            }
        }
        let Flow { server, whose, .. } = flow;
        let trouble = match waiting {
            None => None,
            Some(Waiting { person, arrived }) => {
                let arriving = arrived.logged_in(person, server.clone());
                match timeout(ARRIVAL, arriving).await {
                    Ok(connected) => connected.err(),
                    Err(_) => Some("the server takes long to answer".to_owned()),
                }
            }
        };
        Ending::In { server, whose, trouble }
    }

    /// What was remembered of a login. It is forgotten by that: nobody comes back twice.
    async fn recall(&self, back: &Return) -> Result<(Flow, Option<Waiting>), Ending> {
        let missing = || {
            Ending::Not(
                "Missing parameters",
                "The address lacks what the provider adds.".to_owned(),
            )
        };
        let state = back.state.as_deref().ok_or_else(missing)?;
        let waiting = self.waiting.lock().remove(state);
        let over = || {
            let text = "This sign-in has expired or was already used. Call core_auth_login again.";
            Ending::Not("Sign-in expired", text.to_owned())
        };
        match self.vault.take(&name(state)).await {
            Ok(flow) => Ok((flow.ok_or_else(over)?, waiting)),
            Err(error) => Err(Ending::Not("Sign-in could not be completed", error.to_string())),
        }
    }

    async fn redeem(&self, flow: &Flow, code: &str) -> Result<Grant, Denied> {
        let redirect = self.options.callback_url();
        let fields = [
            ("grant_type", "authorization_code"),
            ("code", code),
            ("redirect_uri", &redirect),
            ("code_verifier", flow.verifier.reveal()),
            ("resource", &flow.resource),
        ];
        let counter = Counter { endpoint: &flow.token_endpoint, identity: &flow.identity };
        let tokens = self.grant(counter, &fields, &[code, flow.verifier.reveal()]).await?;
        let mut grant = Grant {
            issuer: flow.issuer.clone(),
            token_endpoint: flow.token_endpoint.clone(),
            revocation_endpoint: flow.revocation_endpoint.clone(),
            identity: flow.identity.clone(),
            scope: flow.scope.clone(),
            refresh: None,
            past: Vec::new(),
            id: None,
            access: std::collections::BTreeMap::new(),
        };
        grant.take(&flow.resource, tokens, self.clock.now());
        Ok(grant)
    }

    fn wait(&self, state: String, waiting: Waiting) {
        let mut all = self.waiting.lock();
        if all.len() >= super::MOST {
            all.clear();
        }
        all.insert(state, waiting);
    }
}

/// A code of another issuer is not redeemed (RFC 9207), and its errors are not shown.
fn check_issuer(flow: &Flow, issuer: Option<&str>) -> Result<(), Ending> {
    let wrong = |text: &str| Err(Ending::Not("Sign-in could not be completed", text.to_owned()));
    match issuer {
        Some(issuer) if issuer == flow.issuer => Ok(()),
        Some(_) => wrong("The answer came from another provider than the one that was asked."),
        None if flow.answers_with_issuer => {
            wrong("The answer does not say which provider it is from.")
        }
        None => Ok(()),
    }
}

/// The address with the parameters that say something.
fn address(found: &Found, parameters: &[(&str, &str)]) -> String {
    let endpoint = &found.issuer.authorization_endpoint;
    let mut query = form_urlencoded::Serializer::new(String::new());
    query.extend_pairs(parameters.iter().filter(|(_, value)| !value.is_empty()));
    let joint = if endpoint.contains('?') { '&' } else { '?' };
    format!("{endpoint}{joint}{}", query.finish())
}

/// What someone is called, so that people tell them from others.
fn named(principal: &Principal) -> String {
    let Principal { email, name, subject, .. } = principal;
    super::discovery::clean(email.as_ref().or(name.as_ref()).unwrap_or(subject))
}

fn name(state: &str) -> String {
    format!("backend/flow/{}", digest_of(state))
}

fn written(owner: &Owner) -> (bool, String) {
    match owner {
        Owner::Subject(id) => (true, id.to_string()),
        Owner::Session(id) => (false, id.to_string()),
    }
}

fn read((is_subject, id): &(bool, String)) -> Owner {
    match is_subject {
        true => Owner::Subject(id.as_str().into()),
        false => Owner::Session(id.as_str().into()),
    }
}
