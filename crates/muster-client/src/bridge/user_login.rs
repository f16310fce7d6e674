//! The user's login at the gateway behind the bridge: the stored token, its refresh, and the browser
//! login when neither is possible.

use std::{convert::Infallible, time::Duration};

use muster_api::auth::ServerAuthStatus;
use muster_core::backend::{BoxFuture, boxed};
use muster_exec::browser;
use muster_mcp_client::bridge::{LoginProvider, TokenRenewal};
use tokio::{
    sync::{Mutex, watch},
    task::JoinSet,
    time::sleep,
};

use crate::{
    login::{
        self, AuthMode,
        flow::{self, PendingLogin, Prompting},
        server_logins,
        token_store::{StoredToken, TokenStore},
    },
    remote::{Credentials, Remote, error::RemoteError, target::Target},
};

/// The polling interval for tokens that another process stores.
const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// The user's login at one gateway.
pub struct UserLogin {
    target: Target,
    mode: AuthMode,
    token: watch::Sender<Option<String>>,
    required: watch::Sender<LoginRequired>,
    /// The number of interactive logins that the gateway accepted.
    accepted: watch::Sender<u64>,
    page: Mutex<Option<LoginPage>>,
}

/// The login that the gateway requires.
#[derive(Debug, Clone, Default)]
struct LoginRequired {
    challenge: Option<String>,
    /// Whether there was a token that is no longer accepted.
    expired: bool,
}

/// A login page that waits for the user.
struct LoginPage {
    url: String,
    waiting: JoinSet<()>,
}

/// A started login, with the URL of its page.
#[derive(Debug)]
pub enum LoginStart {
    /// The login page was just opened.
    New(String),
    /// The login page was opened before and the login is still in progress.
    InProgress(String),
}

impl std::fmt::Debug for UserLogin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("UserLogin").field("target", &self.target).finish_non_exhaustive()
    }
}

impl UserLogin {
    /// Loads the stored token, if there is one.
    pub async fn load(target: &Target, mode: AuthMode) -> Self {
        let token = match mode {
            AuthMode::None => None,
            AuthMode::Auto | AuthMode::Prompt => token(target).await,
        };
        Self {
            target: target.clone(),
            mode,
            token: watch::Sender::new(token),
            required: watch::Sender::default(),
            accepted: watch::Sender::default(),
            page: Mutex::new(None),
        }
    }

    /// Opens the login page, unless a login is in progress. The token is used as soon as the user has logged in.
    pub async fn start(&self) -> Result<LoginStart, String> {
        let mut page = self.page.lock().await;
        if let Some(LoginPage { url, waiting }) = &mut *page {
            while waiting.try_join_next().is_some() {}
            if !waiting.is_empty() {
                return Ok(LoginStart::InProgress(url.clone()));
            }
        }
        let challenge = self.required.borrow().challenge.clone();
        let pending =
            PendingLogin::start(&self.target, challenge.as_deref(), Prompting::Page).await;
        let pending = pending.map_err(|err| err.to_string())?;
        let url = pending.url().to_owned();
        if let Err(err) = browser::open(&url) {
            tracing::warn!("cannot open the browser: {err}");
        }
        let token = self.token.clone();
        let mut waiting = JoinSet::new();
        waiting.spawn(boxed(async move {
            match pending.finish().await {
                Ok(new) => drop(token.send_replace(Some(access_token(&new)))),
                Err(err) => tracing::warn!("{err}"),
            }
        }));
        *page = Some(LoginPage { url: url.clone(), waiting });
        Ok(LoginStart::New(url))
    }

    /// Whether there was a token that is no longer accepted.
    pub fn is_expired(&self) -> bool {
        self.required.borrow().expired
    }

    /// Counts the accepted interactive logins.
    pub fn accepted(&self) -> watch::Receiver<u64> {
        self.accepted.subscribe()
    }

    /// After each login, starts the logins at the servers behind the gateway. Never returns.
    pub async fn log_in_at_servers(&self) -> Infallible {
        let mut accepted = self.accepted.subscribe();
        // Never fails, because `self` holds the sender.
        while accepted.changed().await.is_ok() {
            if let Err(err) = self.log_in_once().await {
                tracing::warn!("cannot log in at the servers behind the gateway: {err}");
            }
        }
        std::future::pending().await
    }

    async fn log_in_once(&self) -> Result<(), RemoteError> {
        let token = self.token.borrow().clone();
        let auth = token.map_or(Credentials::None, Credentials::Bearer);
        let remote = Remote::connect(&self.target, &auth).await?;
        let say = |text: &str| tracing::info!("{text}");
        let servers =
            server_logins::list(&remote).await?.into_iter().filter(ServerAuthStatus::needs_login);
        for server in servers.filter(|server| server.sso().is_none()) {
            if let Err(err) = server_logins::log_in(&remote, &server, &say).await {
                tracing::warn!("{}: {err}", server.name);
            }
        }
        remote.close().await;
        Ok(())
    }

    async fn try_renewal(&self, refused: Option<&str>, challenge: Option<&str>) -> TokenRenewal {
        if self.mode == AuthMode::None {
            let hint = format!("run `muster auth login --endpoint {}`", self.target.url);
            return TokenRenewal::Unavailable(format!("the gateway requires a login; {hint}"));
        }
        self.required.send_replace(LoginRequired {
            challenge: challenge.map(str::to_owned),
            expired: refused.is_some(),
        });
        // Another process may have logged in meanwhile.
        let found = token(&self.target).await.filter(|found| Some(found.as_str()) != refused);
        let found = match found {
            Some(found) => Some(found),
            None => self.refreshed(refused, challenge).await,
        };
        match found {
            Some(found) => {
                self.token.send_replace(Some(found));
                TokenRenewal::Renewed
            }
            None => TokenRenewal::LoginRequired,
        }
    }

    /// Refreshes the token that the gateway refused. Deletes a token that the gateway calls invalid and that cannot be
    /// refreshed.
    async fn refreshed(&self, refused: Option<&str>, challenge: Option<&str>) -> Option<String> {
        let refused = refused?;
        let tokens = TokenStore::of_user().ok()?;
        let old = tokens.load(&self.target.url).filter(|old| access_token(old) == refused)?;
        if old.can_refresh()
            && let Ok(new) = flow::refresh(&old).await
        {
            return Some(access_token(&new));
        }
        login::forget_refused(&self.target, challenge);
        None
    }

    async fn wait(&self, refused: Option<&str>) {
        let mut token = self.token.subscribe();
        let is_new = |token: &str| Some(token) != refused;
        loop {
            if token.borrow_and_update().as_deref().is_some_and(is_new) {
                return;
            }
            let stored =
                TokenStore::of_user().ok().and_then(|tokens| tokens.load(&self.target.url));
            if let Some(stored) =
                stored.filter(|stored| stored.is_valid() && is_new(&access_token(stored)))
            {
                self.token.send_replace(Some(access_token(&stored)));
                return;
            }
            tokio::select! {
                // Never fails, because `self` holds the sender.
                _ = token.changed() => (),
                () = sleep(POLL_INTERVAL) => (),
            }
        }
    }
}

fn access_token(token: &StoredToken) -> String {
    token.access_token.reveal().clone()
}

async fn token(target: &Target) -> Option<String> {
    match login::stored_auth(target).await {
        Credentials::Bearer(token) => Some(token),
        Credentials::None => None,
    }
}

impl LoginProvider for UserLogin {
    fn token(&self) -> Option<String> {
        self.token.borrow().clone()
    }

    fn renew<'a>(
        &'a self,
        refused: Option<&'a str>,
        challenge: Option<&'a str>,
    ) -> BoxFuture<'a, TokenRenewal> {
        Box::pin(self.try_renewal(refused, challenge))
    }

    fn changed<'a>(&'a self, refused: Option<&'a str>) -> BoxFuture<'a, ()> {
        Box::pin(self.wait(refused))
    }

    fn accepted(&self) {
        self.accepted.send_modify(|count| *count += 1);
    }
}
