//! The login flow at a server's issuer: from the URL that a user opens to the callback.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use muster_core::{
    backend::boxed,
    call::Owner,
    credentials::Principal,
    logins::{LoginError, LoginObserver, LoginSubject, ProtectedServer},
};
use serde::{Deserialize, Serialize};
use tokio::time::timeout;

use super::{OAuthClient, grant::Grant, scopes};
use crate::{
    access::TOKEN_ISSUER,
    oauth::{
        AuthorizationRequest, CallbackError, CallbackParams, ClientIdentity, Discovered,
        TokenEndpoint, TokenRequestError,
    },
    random::digest_of,
    secret::Secret,
    store::StoreError,
    text::printable,
};

/// How long a user may take to log in.
const FLOW_TTL: Duration = Duration::from_secs(10 * 60);
/// How long the callback page waits for the server to be connected.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(15);
const INCOMPLETE: &str = "Sign-in could not be completed";

/// A login that waits for its callback. It is kept in the storage, because the callback may reach another
/// gateway.
#[derive(Debug, Serialize, Deserialize)]
struct LoginFlow {
    owner: (bool, String),
    /// The user who gets the login, as the page names them.
    #[serde(default, rename = "whose")]
    user: Option<String>,
    server: String,
    issuer: String,
    #[serde(rename = "answers_with_issuer")]
    names_issuer: bool,
    token_endpoint: String,
    revocation_endpoint: Option<String>,
    identity: ClientIdentity,
    verifier: Secret,
    resource: String,
    scope: String,
    /// The issuer's page, if only the owner's browser may open the login link.
    #[serde(default)]
    bound_url: Option<String>,
    /// The issuer's page, if any browser may open the login link.
    #[serde(default)]
    unbound_url: Option<String>,
}

/// A login whose link leads through the gateway.
#[derive(Debug)]
pub(super) struct LinkedFlow {
    /// The id of the owner, if only their browser may open the link.
    pub(super) owner: Option<String>,
    /// The issuer's page.
    pub(super) url: String,
}

/// The request in this process that waits for a login.
#[derive(Debug)]
pub(super) struct LoginWaiter {
    person: LoginSubject,
    arrived: Arc<dyn LoginObserver>,
    /// When the login began, in seconds since 1970.
    began: u64,
}

/// The result of a login, as the callback page shows it.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum LoginResult {
    /// The user is logged in; `connect_error` says why the server is not connected.
    SignedIn {
        server: String,
        user: Option<String>,
        /// Whether the browser was checked to be the user's.
        is_bound: bool,
        connect_error: Option<String>,
    },
    /// The login failed: a title and a reason.
    Failed(&'static str, String),
}

impl OAuthClient {
    /// Starts a login, and returns the URL that the user opens.
    pub(super) async fn start(
        &self,
        person: &LoginSubject,
        site: &ProtectedServer,
        arrived: Arc<dyn LoginObserver>,
    ) -> Result<String, LoginError> {
        let is_bound = self.options.browser_logins.is_some() && person.principal.is_some();
        let is_token = |principal: &Arc<Principal>| *principal.issuer == *TOKEN_ISSUER;
        if is_bound && person.principal.as_ref().is_some_and(is_token) {
            let reason = "a static token cannot log in to servers: log in to the gateway as a user";
            return Err(LoginError::Refused(reason.to_owned()));
        }
        let discovered = self.discover(site).await?;
        self.remember_issuer(site, &discovered);
        let scope = self.requested_scope(person, site, &discovered).await;
        let Discovered { issuer, resource, .. } = discovered;
        let identity = self.identity(&issuer, &scope).await?;
        let request = AuthorizationRequest {
            issuer: &issuer,
            client_id: &identity.id,
            redirect_uri: &self.options.callback_url(),
            resource: &resource,
            scope: &scope,
            prompt: None,
        };
        let pending = request.start().map_err(|err| LoginError::Unavailable(err.to_string()))?;
        let flow = LoginFlow {
            owner: encode_owner(&person.owner),
            user: person.principal.as_deref().map(display_name),
            server: site.name.clone(),
            issuer: issuer.issuer,
            names_issuer: issuer.authorization_response_iss_parameter_supported,
            token_endpoint: issuer.token_endpoint,
            revocation_endpoint: issuer.revocation_endpoint,
            identity,
            verifier: pending.verifier,
            resource,
            scope,
            bound_url: is_bound.then(|| pending.url.clone()),
            unbound_url: (!is_bound && !self.options.redirects.is_empty())
                .then(|| pending.url.clone()),
        };
        let is_linked = flow.bound_url.is_some() || flow.unbound_url.is_some();
        let stored = self.vault.put(&flow_key(&pending.state), &flow, FLOW_TTL).await;
        stored.map_err(|error| LoginError::Unavailable(error.to_string()))?;
        let link = is_linked.then(|| self.link(&pending.state, None));
        let (person, began) = (person.clone(), self.clock.now());
        add_waiter(&mut self.waiters.lock(), pending.state, LoginWaiter { person, arrived, began });
        Ok(link.unwrap_or(pending.url))
    }

    /// The scopes of a login: what the server asks for, what it required beyond that, and offline access
    /// if the issuer supports it.
    async fn requested_scope(
        &self,
        person: &LoginSubject,
        site: &ProtectedServer,
        discovered: &Discovered,
    ) -> String {
        const OFFLINE: &str = "offline_access";
        let issuer = &discovered.issuer;
        let mut scope = discovered.scope.clone();
        if let Some(more) = self.step_up.wanted(&person.owner, &site.name) {
            let granted = self.entry(&person.owner, &issuer.issuer).await.get();
            let granted = granted.map(|grant| grant.scope).unwrap_or_default();
            scope = scopes::union(&scopes::union(&scope, &granted), &more);
        }
        match !scope.is_empty() && issuer.scopes_supported.iter().any(|known| known == OFFLINE) {
            true => scopes::union(&scope, OFFLINE),
            false => scope,
        }
    }

    /// Finds the login with a state, if its link leads through the gateway.
    pub(super) async fn linked_flow(&self, state: &str) -> Result<Option<LinkedFlow>, StoreError> {
        let flow: Option<LoginFlow> = self.vault.get(&flow_key(state)).await?;
        Ok(flow.and_then(|flow| match (flow.bound_url, flow.unbound_url) {
            (Some(url), _) => Some(LinkedFlow { owner: Some(flow.owner.1), url }),
            (None, url) => Some(LinkedFlow { owner: None, url: url? }),
        }))
    }

    /// Stores the page that the browser is redirected to after the login.
    pub(super) async fn set_redirect(&self, state: &str, url: &str) -> Result<(), StoreError> {
        self.vault.put(&redirect_key(state), &url, FLOW_TTL).await
    }

    /// Takes the page that the browser is redirected to after the login.
    pub(super) async fn take_redirect(&self, state: &str) -> Option<String> {
        // The redirect is optional: a storage error must not fail the login.
        self.vault.take(&redirect_key(state)).await.ok().flatten()
    }

    /// Completes a login with the parameters of its callback.
    pub(super) async fn finish(self: &Arc<Self>, params: CallbackParams) -> LoginResult {
        let (flow, waiter) = match self.take_flow(&params).await {
            Ok(found) => found,
            Err(failed) => return failed,
        };
        let code = params.authorization_code(&flow.issuer, flow.names_issuer);
        let owner = decode_owner(&flow.owner);
        if !matches!(code, Err(CallbackError::WrongIssuer | CallbackError::MissingIssuer)) {
            self.step_up.login_completed(&owner, &flow.server, self.clock.now());
        }
        let code = match code {
            Ok(code) => code,
            Err(error) => return callback_failed(error),
        };
        match self.redeem(&flow, code).await {
            Ok(grant) => {
                // Spawned, because the code is spent: a closed browser must not lose the tokens.
                let (this, owner) = (Arc::clone(self), owner.clone());
                drop(
                    self.tasks
                        .spawn(boxed(async move { this.add_grant(&owner, grant).await }))
                        .await,
                );
            }
            Err(error) => {
                if let TokenRequestError::Client(_) = error {
                    self.drop_registration(&flow.issuer).await;
                }
                return LoginResult::Failed(INCOMPLETE, LoginError::from(error).to_string());
            }
        }
        let LoginFlow { server, user, bound_url, .. } = flow;
        let is_bound = bound_url.is_some();
        let connect_error = match waiter {
            None => None,
            Some(LoginWaiter { person, arrived, .. }) => {
                match timeout(CONNECT_TIMEOUT, arrived.logged_in(person, server.clone())).await {
                    Ok(connected) => connected.err(),
                    Err(_) => Some("the server takes long to answer".to_owned()),
                }
            }
        };
        LoginResult::SignedIn { server, user, is_bound, connect_error }
    }

    /// Takes the flow of a callback out of the storage, so that a callback works only once.
    async fn take_flow(
        &self,
        params: &CallbackParams,
    ) -> Result<(LoginFlow, Option<LoginWaiter>), LoginResult> {
        let Some(state) = params.state.as_deref() else {
            let text = "The URL lacks the parameters that the provider adds.";
            return Err(LoginResult::Failed("Missing parameters", text.to_owned()));
        };
        let waiter = self.waiters.lock().remove(state);
        match self.vault.take(&flow_key(state)).await {
            Ok(Some(flow)) => Ok((flow, waiter)),
            Ok(None) => {
                let text =
                    "This sign-in has expired or was already used. Call core_auth_login again.";
                Err(LoginResult::Failed("Sign-in expired", text.to_owned()))
            }
            Err(error) => Err(LoginResult::Failed(INCOMPLETE, error.to_string())),
        }
    }

    async fn redeem(&self, flow: &LoginFlow, code: &str) -> Result<Grant, TokenRequestError> {
        let redirect = self.options.callback_url();
        let fields = [
            ("grant_type", "authorization_code"),
            ("code", code),
            ("redirect_uri", &redirect),
            ("code_verifier", flow.verifier.reveal()),
            ("resource", &flow.resource),
        ];
        let (url, client, policy) = (&flow.token_endpoint, &flow.identity, self.options.policy);
        let endpoint = TokenEndpoint { url, client, policy };
        let response =
            endpoint.request(&self.http, &fields, &[code, flow.verifier.reveal()]).await?;
        let mut grant = Grant {
            issuer: flow.issuer.clone(),
            token_endpoint: flow.token_endpoint.clone(),
            revocation_endpoint: flow.revocation_endpoint.clone(),
            identity: flow.identity.clone(),
            scope: flow.scope.clone(),
            refresh: None,
            superseded: Vec::new(),
            id: None,
            access: BTreeMap::new(),
        };
        grant.update(&flow.resource, response, self.clock.now());
        if let Some(token) = grant.access.get_mut(&flow.resource) {
            token.server = Some(flow.server.clone());
        }
        Ok(grant)
    }
}

/// Adds a waiter. If there are too many, evicts those whose logins have expired, or else the oldest.
fn add_waiter(waiters: &mut BTreeMap<String, LoginWaiter>, state: String, waiter: LoginWaiter) {
    if waiters.len() >= super::MAX_ENTRIES {
        let now = waiter.began;
        waiters.retain(|_, other| now.saturating_sub(other.began) < FLOW_TTL.as_secs());
    }
    if waiters.len() >= super::MAX_ENTRIES {
        let oldest = waiters.iter().min_by_key(|(_, other)| other.began);
        if let Some(oldest) = oldest.map(|(state, _)| state.clone()) {
            waiters.remove(&oldest);
        }
    }
    waiters.insert(state, waiter);
}

fn callback_failed(error: CallbackError) -> LoginResult {
    let (title, text) = match error {
        CallbackError::WrongIssuer => (
            INCOMPLETE,
            "The response came from another provider than the one that was asked.".to_owned(),
        ),
        CallbackError::MissingIssuer => {
            (INCOMPLETE, "The response does not say which provider it is from.".to_owned())
        }
        CallbackError::Denied { error, .. } => {
            ("Sign-in was denied", format!("The provider reported: {error}."))
        }
        CallbackError::MissingCode => {
            ("Missing parameters", "The provider sent no code.".to_owned())
        }
    };
    LoginResult::Failed(title, text)
}

/// The name by which a user recognizes their login.
fn display_name(principal: &Principal) -> String {
    let Principal { email, name, subject, .. } = principal;
    printable(email.as_ref().or(name.as_ref()).unwrap_or(subject))
}

fn flow_key(state: &str) -> String {
    format!("backend/flow/{}", digest_of(state))
}

fn redirect_key(state: &str) -> String {
    format!("backend/redirect/{}", digest_of(state))
}

fn encode_owner(owner: &Owner) -> (bool, String) {
    match owner {
        Owner::Subject(id) => (true, id.to_string()),
        Owner::Session(id) => (false, id.to_string()),
    }
}

fn decode_owner((is_subject, id): &(bool, String)) -> Owner {
    match is_subject {
        true => Owner::Subject(id.as_str().into()),
        false => Owner::Session(id.as_str().into()),
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeMap, sync::Arc};

    use muster_core::{
        backend::BoxFuture,
        call::Owner,
        logins::{LoginObserver, LoginSubject},
    };

    use super::{FLOW_TTL, LoginWaiter, add_waiter};
    use crate::client::MAX_ENTRIES;

    #[derive(Debug)]
    struct Nobody;

    impl LoginObserver for Nobody {
        fn logged_in(&self, _: LoginSubject, _: String) -> BoxFuture<'_, Result<(), String>> {
            Box::pin(std::future::ready(Ok(())))
        }
    }

    #[test]
    fn a_new_login_does_not_drop_those_in_progress() {
        let waiter = |began: u64| {
            let person = LoginSubject { owner: Owner::Session("s".into()), principal: None };
            LoginWaiter { person, arrived: Arc::new(Nobody), began }
        };
        let mut waiters = BTreeMap::new();
        for number in 0..=MAX_ENTRIES {
            let began = u64::from(number > 0);
            add_waiter(&mut waiters, format!("{number}"), waiter(began));
        }
        assert_eq!(waiters.len(), MAX_ENTRIES);
        assert!(!waiters.contains_key("0"), "the oldest made room");
        add_waiter(&mut waiters, "late".to_owned(), waiter(1 + FLOW_TTL.as_secs()));
        assert_eq!(waiters.len(), 1, "the others have expired");
    }
}
