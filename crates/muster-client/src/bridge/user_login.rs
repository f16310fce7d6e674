//! The login of a client behind the bridge: what is stored, what can be renewed, and the page that
//! a person is shown when neither helps.

use std::{convert::Infallible, time::Duration};

use muster_core::backend::BoxFuture;
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
        server_logins::{self, ServerLogin},
        token_store::{StoredToken, TokenStore},
    },
    remote::{Auth, Remote, error::RemoteError, target::Target},
};

/// How often it is looked whether another program has logged in.
const LOOK: Duration = Duration::from_millis(500);

/// The user's login at one gateway.
pub struct UserLogin {
    target: Target,
    mode: AuthMode,
    token: watch::Sender<Option<String>>,
    wanted: watch::Sender<Wanted>,
    /// How often a token was taken that a person had to log in for.
    accepted: watch::Sender<u64>,
    page: Mutex<Option<Page>>,
}

/// What is known of the login that is wanted.
#[derive(Debug, Clone, Default)]
struct Wanted {
    challenge: Option<String>,
    /// There was a token, and it is good no longer.
    expired: bool,
}

/// A page that waits for the user.
struct Page {
    url: String,
    waiting: JoinSet<()>,
}

/// A login that has begun.
#[derive(Debug)]
pub enum Started {
    /// Just now; the page is there.
    Now(String),
    /// The page was shown before.
    Before(String),
}

impl std::fmt::Debug for UserLogin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("UserLogin").field("target", &self.target).finish_non_exhaustive()
    }
}

impl UserLogin {
    /// The login that is stored, if there is one.
    pub async fn stored_auth(target: &Target, mode: AuthMode) -> Self {
        let token = match mode {
            AuthMode::None => None,
            AuthMode::Auto | AuthMode::Prompt => token(target).await,
        };
        Self {
            target: target.clone(),
            mode,
            token: watch::Sender::new(token),
            wanted: watch::Sender::default(),
            accepted: watch::Sender::default(),
            page: Mutex::new(None),
        }
    }

    /// Opens the page where the user logs in, unless it is open. The token is used as soon as it is
    /// there.
    pub async fn start(&self) -> Result<Started, String> {
        let mut page = self.page.lock().await;
        if let Some(Page { url, waiting }) = &mut *page {
            while waiting.try_join_next().is_some() {}
            if !waiting.is_empty() {
                return Ok(Started::Before(url.clone()));
            }
        }
        let challenge = self.wanted.borrow().challenge.clone();
        let begun = PendingLogin::new(&self.target, challenge.as_deref(), Prompting::Page).await;
        let begun = begun.map_err(|err| err.to_string())?;
        let url = begun.url().to_owned();
        if let Err(err) = browser::open(&url) {
            tracing::warn!("the browser could not be opened: {err}");
        }
        let token = self.token.clone();
        let mut waiting = JoinSet::new();
        waiting.spawn(async move {
            match begun.finish().await {
                Ok(made) => drop(token.send_replace(Some(shown(&made)))),
                Err(err) => tracing::warn!("{err}"),
            }
        });
        *page = Some(Page { url: url.clone(), waiting });
        Ok(Started::Now(url))
    }

    /// Whether there was a token that is good no longer.
    pub fn is_expired(&self) -> bool {
        self.wanted.borrow().expired
    }

    /// Counts how often a login was taken.
    pub fn accepted(&self) -> watch::Receiver<u64> {
        self.accepted.subscribe()
    }

    /// After each login, takes the user to the servers behind the gateway that want one of their own.
    pub async fn visit_servers(&self) -> Infallible {
        let mut accepted = self.accepted.subscribe();
        // The sender is here.
        while accepted.changed().await.is_ok() {
            if let Err(err) = self.visit().await {
                tracing::warn!("the servers behind the gateway: {err}");
            }
        }
        std::future::pending().await
    }

    async fn visit(&self) -> Result<(), RemoteError> {
        let token = self.token.borrow().clone();
        let auth = token.map_or(Auth::None, Auth::Bearer);
        let remote = Remote::connect(&self.target, &auth).await?;
        let say = |text: &str| tracing::info!("{text}");
        let waiting =
            server_logins::list(&remote).await?.into_iter().filter(ServerLogin::needs_login);
        for server in waiting.filter(|server| server.sso().is_none()) {
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
            return TokenRenewal::Unavailable(format!("the gateway wants a login; {hint}"));
        }
        self.wanted.send_replace(Wanted {
            challenge: challenge.map(str::to_owned),
            expired: refused.is_some(),
        });
        // Another program may have logged in meanwhile.
        let found = token(&self.target).await.filter(|found| Some(found.as_str()) != refused);
        let found = match found {
            Some(found) => Some(found),
            None => self.made_anew(refused).await,
        };
        match found {
            Some(found) => {
                self.token.send_replace(Some(found));
                TokenRenewal::Renewed
            }
            None => TokenRenewal::LoginRequired,
        }
    }

    /// A token made of the one that the gateway takes no longer, which is forgotten.
    async fn made_anew(&self, refused: Option<&str>) -> Option<String> {
        let refused = refused?;
        let tokens = TokenStore::of_user().ok()?;
        let old = tokens.load(&self.target.url).filter(|old| shown(old) == refused)?;
        if old.can_refresh()
            && let Ok(made) = flow::refresh(&self.target, &old).await
        {
            return Some(shown(&made));
        }
        drop(tokens.remove(&self.target.url));
        None
    }

    async fn wait(&self, refused: Option<&str>) {
        let mut token = self.token.subscribe();
        let fits = |token: &str| Some(token) != refused;
        loop {
            if token.borrow_and_update().as_deref().is_some_and(fits) {
                return;
            }
            let stored =
                TokenStore::of_user().ok().and_then(|tokens| tokens.load(&self.target.url));
            if let Some(stored) = stored.filter(|stored| stored.is_valid() && fits(&shown(stored)))
            {
                self.token.send_replace(Some(shown(&stored)));
                return;
            }
            tokio::select! {
                // The sender is here.
                _ = token.changed() => (),
                () = sleep(LOOK) => (),
            }
        }
    }
}

/// A token as a gateway is shown it.
fn shown(token: &StoredToken) -> String {
    token.access_token.reveal().clone()
}

async fn token(target: &Target) -> Option<String> {
    match login::stored_auth(target).await {
        Auth::Bearer(token) => Some(token),
        Auth::None => None,
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
