//! The rules of admission over HTTP: the settings, overridden by flags and the environment.

use std::{
    convert::Infallible,
    net::SocketAddr,
    path::Path,
    sync::{Arc, OnceLock},
};

use muster_auth::{
    access::{
        AccessControl, AccessOptions, RemoteCallers,
        directory::AccessDirectory,
        operator_file::OperatorFile,
        recent_logins::RecentLogins,
        tokens::{StaticTokens, TokenFile},
    },
    clock::Clock,
    principal_list::{PrincipalList, SharedPrincipalList},
    server::AuthServer,
};
use muster_client::{env_vars, user_dirs};
use muster_config::settings::{Access, AccessMode, Operators, Settings};
use muster_core::call::Caller;
use muster_engine::view::View;
use tokio::{net::TcpListener, sync::watch};

use crate::error::CommandError;

const VARIABLE: &str = "MUSTER_ACCESS";

/// The rules of admission of one gateway.
pub(crate) struct AccessRules {
    pub(crate) mode: AccessMode,
    remote: RemoteCallers,
    tokens: StaticTokens,
    operators: SharedPrincipalList,
    recent: RecentLogins,
}

impl AccessRules {
    /// Loads the rules of a configuration directory. The environment and flags override its settings.
    pub(crate) fn load(
        said: &Access,
        insecure_bind: bool,
        config: &Path,
    ) -> Result<Self, CommandError> {
        let mode = match env_vars::get(VARIABLE) {
            None => said.mode,
            Some(name) => AccessMode::named(&name).ok_or_else(|| {
                CommandError::new(format!("{VARIABLE} is `{name}`, which is not an access mode"))
                    .hint("set it to `private`, `token` or `open`, or unset it")
            })?,
        };
        let insists = said.insecure_bind || insecure_bind;
        Ok(Self {
            mode,
            remote: if insists { RemoteCallers::Anonymous } else { RemoteCallers::NeedToken },
            tokens: StaticTokens::new(TokenFile::of(config, Clock::system())),
            operators: operators(said).into(),
            recent: RecentLogins::default(),
        })
    }

    /// Refuses to listen on addresses that other machines can reach, unless callers must authenticate or anonymous
    /// callers are allowed explicitly.
    pub(crate) fn check_bind(
        &self,
        listeners: &[TcpListener],
        logins: Option<&AuthServer>,
    ) -> Result<(), CommandError> {
        let is_protected =
            logins.is_some() || self.remote == RemoteCallers::Anonymous || !self.tokens.is_empty();
        if is_protected {
            return Ok(());
        }
        let Some(address) = exposed(listeners) else { return Ok(()) };
        Err(CommandError::new(format!(
            "refusing to listen on {address}: other machines could reach this gateway, and it requires neither logins \
             nor tokens"
        ))
        .hint("set `aggregator.host: localhost` in config.yaml")
        .hint("or require logins (`aggregator.oauth.server`), or create a token with `muster token create NAME`")
        .hint("or let anyone who reaches the address call tools: --insecure-bind, or `access.insecureBind: true`"))
    }

    /// Publishes the operator file, unless every caller is an operator anyway. If that fails, the user's commands
    /// cannot change the gateway, and its configuration directory has to be edited instead.
    pub(crate) fn operator_file(&self, listeners: &[TcpListener]) -> Option<OperatorFile> {
        if self.mode == AccessMode::Open {
            return None;
        }
        let addresses =
            listeners.iter().filter_map(|listener| listener.local_addr().ok()).collect();
        let state = match user_dirs::state() {
            Ok(state) => state,
            Err(err) => {
                tracing::warn!("commands cannot change this gateway: {err}");
                return None;
            }
        };
        OperatorFile::publish(&state, addresses)
            .inspect_err(|err| {
                let state = state.display();
                tracing::warn!(
                    "commands cannot change this gateway: cannot write to {state}: {err}"
                );
            })
            .ok()
    }

    /// Creates the guard of HTTP requests, and the lists of users that it checks.
    pub(crate) fn guard(
        self,
        logins: Option<&AuthServer>,
        operator: Option<&OperatorFile>,
    ) -> (Arc<AccessControl>, UserLists) {
        let Self { mode, remote, tokens, operators, recent } = self;
        let lists = UserLists {
            operators: operators.clone(),
            allowed: logins.map(AuthServer::allowed_users),
        };
        let logins = logins.cloned();
        let options = AccessOptions { mode, logins, operators, remote, tokens, recent };
        (Arc::new(AccessControl::new(options, operator)), lists)
    }

    /// The directory of callers, which operators manage.
    pub(crate) fn directory(
        &self,
        config: &Path,
        logins: Option<&AuthServer>,
    ) -> Arc<AccessDirectory> {
        Arc::new(AccessDirectory {
            mode: self.mode,
            operators: self.operators.clone(),
            tokens: TokenFile::of(config, Clock::system()),
            clock: Clock::system(),
            logins: logins.cloned(),
            recent: self.recent.clone(),
            browsers: OnceLock::new(),
        })
    }

    /// Describes who is admitted, in one line for the operator.
    pub(crate) fn summary(&self, listeners: &[TcpListener], logins: Option<&AuthServer>) -> String {
        let tokens = if self.tokens.is_empty() { "" } else { ", or a token" };
        let own = match self.mode {
            AccessMode::Token => "the user's own clients on this machine, by a token",
            AccessMode::Private | AccessMode::Open => "processes of this user on this machine",
        };
        let callers = match (logins, exposed(listeners).is_none(), self.remote) {
            (Some(_), _, _) => format!("users who log in{tokens}"),
            (None, true, _) if self.mode == AccessMode::Open => {
                "every process on this machine, also to change the gateway (open)".to_owned()
            }
            (None, true, _) => format!("{own}{tokens}"),
            (None, false, RemoteCallers::NeedToken) => format!("{own}, and callers with a token"),
            (None, false, RemoteCallers::Anonymous) => {
                "ANYONE who reaches this address, without a login (insecureBind)".to_owned()
            }
        };
        let open = match (logins, self.mode) {
            (Some(_), AccessMode::Open) => "; all of them may change the gateway (open)",
            _ => "",
        };
        format!("{callers}{open}")
    }
}

/// The users who may change the gateway after a login.
fn operators(access: &Access) -> PrincipalList {
    let Operators { users, groups } = access.operators.clone();
    PrincipalList { users, groups, domains: Vec::new() }
}

/// The users who may log in.
pub(crate) fn allowed(access: &Access) -> PrincipalList {
    PrincipalList {
        users: access.allowed_users.clone(),
        groups: access.allowed_groups.clone(),
        domains: access.allowed_domains.clone(),
    }
}

/// The lists of users in `config.yaml`, which are updated when the file changes.
pub(crate) struct UserLists {
    operators: SharedPrincipalList,
    /// `None` if the gateway has no logins.
    allowed: Option<SharedPrincipalList>,
}

impl UserLists {
    /// Replaces the lists whenever the settings change.
    pub(crate) async fn follow(self, mut view: watch::Receiver<Arc<View>>) -> Infallible {
        // An error means that the sender was dropped, which happens during shutdown.
        while view.changed().await.is_ok() {
            let settings = Arc::clone(&view.borrow_and_update().settings);
            // Ignore empty settings: an editor may remove or truncate the file for a moment, and that must not admit
            // anybody.
            if *settings == Settings::default() {
                continue;
            }
            let mut has_changed = self.operators.replace(operators(&settings.access));
            if let Some(list) = &self.allowed {
                has_changed |= list.replace(allowed(&settings.access));
            }
            if has_changed {
                tracing::info!("the lists of users and operators in config.yaml have changed");
            }
        }
        std::future::pending().await
    }
}

/// Finds an address that other machines can reach.
pub(crate) fn exposed(listeners: &[TcpListener]) -> Option<SocketAddr> {
    let mut addresses = listeners.iter().filter_map(|listener| listener.local_addr().ok());
    addresses.find(|address| !address.ip().to_canonical().is_loopback())
}

/// The caller on standard input, which is an agent that the user started.
pub(crate) fn pipe(mode: AccessMode) -> Caller {
    Caller { role: AccessControl::default_role(mode), ..Caller::local() }
}
