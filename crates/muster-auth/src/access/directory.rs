//! The directory of those who may use the gateway, behind the port that core tools use.

use std::sync::{Arc, OnceLock};

use muster_config::settings::AccessMode;
use muster_core::{
    backend::BoxFuture,
    call::{Caller, Role},
    caller_directory::{
        BrowserSession, CallerDirectory, CallerQuery, DirectoryError, SeenLogin, TokenDescription,
        TokenDraft,
    },
    credentials::{Admission, BearerToken, Principal},
};

use super::{
    AccessControl,
    browser_sessions::BrowserSessions,
    of_token,
    recent_logins::RecentLogins,
    tokens::{TokenFile, TokenFileError},
};
use crate::{principal_list::SharedPrincipalList, server::AuthServer};

/// Who may use the gateway: its tokens, its logins and the browsers of its operators.
#[derive(Debug)]
pub struct AccessDirectory {
    /// Whether callers are checked.
    pub mode: AccessMode,
    /// The users who may change the gateway after a login.
    pub operators: SharedPrincipalList,
    /// The static tokens.
    pub tokens: TokenFile,
    /// Logins, if the gateway requires them.
    pub logins: Option<AuthServer>,
    /// The logins that requests came from.
    pub recent: RecentLogins,
    /// The sessions of browsers, as soon as there is a console.
    pub browsers: OnceLock<Arc<BrowserSessions>>,
}

impl AccessDirectory {
    /// The principal of a user by an email address or a subject, at the provider of logins.
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
                of_token(token)
            }
            (None, true) => {
                let user = query.user.as_deref().unwrap_or("somebody");
                let principal = Arc::new(self.principal(user, query));
                let is_listed = self.operators.now().contains(&principal);
                let role = if is_listed { Role::Operator } else { self.default_role() };
                Admission { role, ..Admission::of(principal) }
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

    fn create_token(&self, draft: &TokenDraft) -> Result<BearerToken, DirectoryError> {
        let token = self.tokens.create(draft)?;
        Ok(BearerToken::new(token.reveal().as_str()))
    }

    fn revoke_token(&self, name: &str) -> Result<(), DirectoryError> {
        match self.tokens.revoke(name)? {
            true => Ok(()),
            false => Err(no_token(name)),
        }
    }

    fn logins(&self) -> Vec<SeenLogin> {
        self.recent.list()
    }

    fn browsers(&self) -> Vec<BrowserSession> {
        self.browsers.get().map(|sessions| sessions.list()).unwrap_or_default()
    }

    fn end_session<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<(), DirectoryError>> {
        Box::pin(async move {
            if self.browsers.get().is_some_and(|sessions| sessions.end_by_id(id)) {
                return Ok(());
            }
            let Some(login) = self.recent.login(id) else {
                let text = format!("there is no session `{id}`");
                return Err(DirectoryError::NotFound(text));
            };
            let Some(logins) = &self.logins else {
                let text = "this gateway issues no logins".to_owned();
                return Err(DirectoryError::Failed(text));
            };
            match logins.end_login(&login).await {
                Ok(true) => {
                    self.recent.forget(id);
                    Ok(())
                }
                Ok(false) => {
                    let text = "the gateway did not issue the token of this login: its issuer has to revoke it";
                    Err(DirectoryError::Failed(text.to_owned()))
                }
                Err(error) => Err(DirectoryError::Failed(error.to_string())),
            }
        })
    }
}

impl AccessDirectory {
    const fn default_role(&self) -> Role {
        AccessControl::default_role(self.mode)
    }
}

fn no_token(name: &str) -> DirectoryError {
    DirectoryError::NotFound(format!("there is no token named `{name}`"))
}
