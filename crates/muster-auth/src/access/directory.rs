//! The caller directory: tokens, logins and browser sessions, behind the port that core tools use.

use std::{
    collections::BTreeMap,
    sync::{Arc, OnceLock},
};

use muster_config::settings::AccessMode;
use muster_core::{
    backend::BoxFuture,
    call::{Caller, Role},
    caller_directory::{
        BrowserSession, CallerDirectory, CallerQuery, DirectoryError, DirectoryFuture,
        LoginReference, SeenLogin, TokenDescription, TokenDraft,
    },
    credentials::{Admission, BearerToken, Principal},
    join::join_all,
};

use super::{
    AccessControl,
    browser_sessions::BrowserSessions,
    of_token,
    recent_logins::{RecentLogins, add, login_session_id},
    tokens::{TokenFile, TokenFileError},
};
use crate::{
    clock::Clock, principal_list::SharedPrincipalList, server::AuthServer, store::StoreError,
};

/// The callers that may use the gateway: its tokens, its logins and the browser sessions of its operators.
#[derive(Debug)]
pub struct AccessDirectory {
    /// Whether callers are checked.
    pub mode: AccessMode,
    /// The users who may change the gateway after a login.
    pub operators: SharedPrincipalList,
    /// The static tokens.
    pub tokens: TokenFile,
    /// The clock that decides whether a token has expired.
    pub clock: Clock,
    /// Logins, if the gateway requires them.
    pub logins: Option<AuthServer>,
    /// The logins that requests came from.
    pub recent: RecentLogins,
    /// The sessions of browsers, set once there is a console.
    pub browsers: OnceLock<Arc<BrowserSessions>>,
}

impl AccessDirectory {
    /// The principal of a user, named by an email address or a subject at the identity provider.
    fn principal(&self, user: &str, query: &CallerQuery) -> Principal {
        let provider = self.logins.as_ref().map(AuthServer::issuer).unwrap_or_default();
        let (issuer, subject) = user.split_once('|').unwrap_or((provider, user));
        Principal {
            id: Principal::id_of(issuer, subject),
            issuer: issuer.into(),
            subject: subject.into(),
            email: subject.contains('@').then(|| subject.into()),
            name: None,
            groups: query.groups.clone().into(),
            login: "".into(),
            identity: None,
            client: query.client.as_deref().map(Into::into),
        }
    }
}

impl From<TokenFileError> for DirectoryError {
    fn from(error: TokenFileError) -> Self {
        Self::Failed(error.to_string())
    }
}

impl CallerDirectory for AccessDirectory {
    fn caller(&self, query: &CallerQuery) -> Result<Caller, DirectoryError> {
        let has_login = query.user.is_some() || !query.groups.is_empty() || query.client.is_some();
        let mut admission = match (&query.token, has_login) {
            (Some(_), true) => {
                let text = "a caller has a token or a login, not both";
                return Err(DirectoryError::Failed(text.to_owned()));
            }
            (Some(name), false) => {
                let tokens = self.tokens.load()?;
                let Some(token) = tokens.iter().find(|token| token.name == *name) else {
                    return Err(no_token(name));
                };
                if token.is_expired(self.clock.now()) {
                    let text = format!("the token `{name}` has expired: its callers are refused");
                    return Err(DirectoryError::Failed(text));
                }
                of_token(token)
            }
            (None, true) => {
                let user = query.user.as_deref().unwrap_or("somebody");
                let principal = Arc::new(self.principal(user, query));
                // A query by groups or a client alone stands for any user who has them.
                let is_refused =
                    |logins: &AuthServer| query.user.is_some() && !logins.allows(&principal);
                if self.logins.as_ref().is_some_and(is_refused) {
                    let text = format!(
                        "by this name and these groups `{user}` may not use this gateway: `access.allowedUsers`, \
                         `access.allowedGroups` and `access.allowedDomains` in config.yaml do not include them; name \
                         their email address and their groups if those decide"
                    );
                    return Err(DirectoryError::Failed(text));
                }
                let is_listed = self.operators.now().contains(&principal);
                let role = if is_listed { Role::Operator } else { self.default_role() };
                Admission { role, ..Admission::of(principal) }
            }
            // An operator needs no login: the operator token replaces it.
            (None, false) if self.logins.is_some() && !query.operator => {
                let text = "this gateway refuses callers without a login or a token: name a user or a token";
                return Err(DirectoryError::Failed(text.to_owned()));
            }
            (None, false) => Admission { role: self.default_role(), ..Admission::default() },
        };
        if query.operator {
            admission.role = Role::Operator;
        }
        let limited = admission.limited_to(query.toolset.as_deref()).map_err(|mismatch| {
            DirectoryError::Failed(format!(
                "the token is bound to the toolset `{}`",
                mismatch.bound
            ))
        })?;
        Ok(limited.caller(None))
    }

    fn tokens(&self) -> Result<Vec<TokenDescription>, DirectoryError> {
        Ok(self.tokens.described()?)
    }

    fn create_token(&self, draft: TokenDraft) -> DirectoryFuture<'_, BearerToken> {
        let tokens = self.tokens.clone();
        Box::pin(async move {
            let token = blocking(move || tokens.create(&draft)).await?;
            Ok(BearerToken::new(token.reveal().as_str()))
        })
    }

    fn revoke_token<'a>(&'a self, name: &'a str) -> DirectoryFuture<'a, ()> {
        let (tokens, named) = (self.tokens.clone(), name.to_owned());
        Box::pin(async move {
            match blocking(move || tokens.revoke(&named)).await? {
                true => Ok(()),
                false => Err(no_token(name)),
            }
        })
    }

    fn login_of(&self, caller: &Caller) -> Option<LoginReference> {
        let principal = caller.principal.as_ref().filter(|_| caller.token.is_none())?;
        let client = principal.client.as_ref()?.to_string();
        Some(LoginReference { session: login_session_id(&principal.login), client })
    }

    fn logged_in<'a>(
        &'a self,
        login: &'a LoginReference,
        toolset: Option<&'a str>,
    ) -> DirectoryFuture<'a, Option<Caller>> {
        Box::pin(async move {
            let Some(logins) = &self.logins else { return Ok(None) };
            let LoginReference { session, client } = login;
            let Some(principal) = logins.principal_of_session(session, client).await? else {
                return Ok(None);
            };
            let is_operator =
                self.mode == AccessMode::Open || self.operators.now().contains(&principal);
            let role = if is_operator { Role::Operator } else { Role::Agent };
            let admission = Admission { role, ..Admission::of(Arc::new(principal)) };
            // A login is not bound to a toolset.
            Ok(admission.limited_to(toolset).ok().map(|admission| admission.caller(None)))
        })
    }

    fn logins(&self) -> DirectoryFuture<'_, Vec<SeenLogin>> {
        Box::pin(async move {
            let own: BTreeMap<String, Arc<str>> =
                self.recent.list().into_iter().map(|(login, seen)| (seen.id, login)).collect();
            let seen = self.seen_by_all().await?;
            let present = seen.iter().map(|seen| {
                let login = own.get(&seen.id).map(|login| &**login);
                Box::pin(self.is_present(login, seen)) as BoxFuture<'_, Result<bool, StoreError>>
            });
            let mut listed = Vec::new();
            for (seen, present) in seen.iter().zip(join_all(present.collect()).await) {
                match present? {
                    true => listed.push(seen.clone()),
                    false => self.recent.forget(&seen.id),
                }
            }
            listed.sort_by_key(|seen| std::cmp::Reverse(seen.last_seen));
            Ok(listed)
        })
    }

    fn browsers(&self) -> DirectoryFuture<'_, Vec<BrowserSession>> {
        Box::pin(async move {
            match self.browsers.get() {
                Some(sessions) => Ok(sessions.list().await?),
                None => Ok(Vec::new()),
            }
        })
    }

    fn end_session<'a>(&'a self, id: &'a str) -> DirectoryFuture<'a, ()> {
        Box::pin(async move {
            if let Some(sessions) = self.browsers.get()
                && sessions.end_by_id(id).await?
            {
                return Ok(());
            }
            let seen = self.recent.login(id);
            let is_ours = seen.as_ref().is_none_or(|(_, seen)| has_record(seen));
            let login = match (seen, &self.logins) {
                (Some((login, _)), _) => Some(login.to_string()),
                // Another replica may have seen it.
                (None, Some(logins)) => logins.login_of_session(id).await?,
                (None, None) => None,
            };
            let Some(login) = login else {
                return Err(match self.recent.of_others().await?.get(id) {
                    Some(seen) if has_record(seen) => has_ended_already(id),
                    Some(_) => not_issued_here(),
                    None => no_session(id),
                });
            };
            let Some(logins) = &self.logins else {
                let text = "this gateway issues no logins".to_owned();
                return Err(DirectoryError::Failed(text));
            };
            let has_ended = logins.end_login(&login).await?;
            if has_ended || is_ours {
                self.recent.forget(id);
            }
            match (has_ended, is_ours) {
                (true, _) => Ok(()),
                (false, true) => Err(has_ended_already(id)),
                (false, false) => Err(not_issued_here()),
            }
        })
    }
}

impl AccessDirectory {
    /// The logins that any replica has seen, merged by their session ids.
    async fn seen_by_all(&self) -> Result<Vec<SeenLogin>, StoreError> {
        let mut seen = self.recent.of_others().await?;
        for (_, own) in self.recent.list() {
            add(&mut seen, own);
        }
        Ok(seen.into_values().collect())
    }

    /// Whether a login is still active, as far as the gateway can tell. `login` is the id of its record, known only if
    /// this replica has seen the login.
    async fn is_present(&self, login: Option<&str>, seen: &SeenLogin) -> Result<bool, StoreError> {
        match (&self.logins, login) {
            (Some(logins), Some(login)) if has_record(seen) => logins.has_login(login).await,
            (Some(logins), None) if has_record(seen) => {
                match logins.login_of_session(&seen.id).await? {
                    Some(login) => logins.has_login(&login).await,
                    None => Ok(false),
                }
            }
            (Some(_) | None, _) => Ok(true),
        }
    }

    const fn default_role(&self) -> Role {
        AccessControl::default_role(self.mode)
    }
}

/// Whether the gateway issued the token of a login and has a record of it. Logins by tokens of other issuers have no
/// client.
const fn has_record(seen: &SeenLogin) -> bool {
    seen.client.is_some()
}

/// Runs blocking file operations on a thread that serves no requests.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, TokenFileError> + Send + 'static,
) -> Result<T, DirectoryError> {
    let done = tokio::task::spawn_blocking(work).await;
    Ok(done.map_err(|error| DirectoryError::Failed(error.to_string()))??)
}

fn has_ended_already(id: &str) -> DirectoryError {
    DirectoryError::NotFound(format!("session `{id}` has ended already"))
}

fn not_issued_here() -> DirectoryError {
    let text = "the gateway did not issue the token of this login: its issuer has to revoke it";
    DirectoryError::Failed(text.to_owned())
}

fn no_session(id: &str) -> DirectoryError {
    DirectoryError::NotFound(format!("there is no session `{id}`"))
}

fn no_token(name: &str) -> DirectoryError {
    DirectoryError::NotFound(format!("there is no token named `{name}`"))
}
