//! Logins for a client behind the bridge.

use muster_core::backend::BoxFuture;
use muster_exec::browser;
use muster_mcp::client::bridge::Login;
use tokio::sync::watch;

use crate::{
    login::{
        self, AuthMode,
        flow::{self, Prompting, Screen},
        tokens::Tokens,
    },
    remote::{Auth, target::Target},
};

/// The user's login at one gateway.
pub(crate) struct UserLogin {
    target: Target,
    mode: AuthMode,
    token: watch::Sender<Option<String>>,
}

impl std::fmt::Debug for UserLogin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("UserLogin").field("target", &self.target).finish_non_exhaustive()
    }
}

impl UserLogin {
    /// The login that is remembered, if there is one. A gateway on this machine is asked without.
    pub(crate) async fn remembered(target: &Target, mode: AuthMode) -> Self {
        let token = match mode {
            AuthMode::None => None,
            AuthMode::Auto | AuthMode::Prompt => token(target).await,
        };
        Self { target: target.clone(), mode, token: watch::Sender::new(token) }
    }

    async fn renew(&self, refused: Option<&str>, challenge: Option<&str>) -> Result<(), String> {
        let hint = format!("run `muster auth login --endpoint {}`", self.target.url);
        if self.mode == AuthMode::None {
            return Err(format!("the gateway wants a login; {hint}"));
        }
        // Another program may have logged in meanwhile.
        let found = token(&self.target).await.filter(|found| Some(found.as_str()) != refused);
        let token = match found {
            Some(found) => found,
            None => {
                if refused.is_some() {
                    drop(Tokens::of_user().and_then(|tokens| tokens.remove(&self.target.url)));
                }
                let say = |text: &str| tracing::warn!("{}", text.trim());
                let screen = Screen { open: &browser::open, say: &say };
                let made = flow::login(&self.target, challenge, Prompting::Page, &screen).await;
                let made = made.map_err(|err| format!("{err}; {hint}"))?;
                match login::bearer(&made) {
                    Auth::Bearer(token) => token,
                    Auth::None => return Err(hint),
                }
            }
        };
        self.token.send_replace(Some(token));
        Ok(())
    }
}

async fn token(target: &Target) -> Option<String> {
    match login::remembered(target).await {
        Auth::Bearer(token) => Some(token),
        Auth::None => None,
    }
}

impl Login for UserLogin {
    fn token(&self) -> Option<String> {
        self.token.borrow().clone()
    }

    fn log_in<'a>(
        &'a self,
        refused: Option<&'a str>,
        challenge: Option<&'a str>,
    ) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(self.renew(refused, challenge))
    }
}
