//! Who is admitted to a server over HTTP: the settings, and what flags and the environment say over them.

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
    /// The rules of a configuration directory. The environment and flags override its settings.
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

    /// Refuses addresses that other machines reach, unless callers have to prove who they are.
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

    /// The operator file, unless everybody is an operator. Without one, only the configuration directory changes the
    /// gateway.
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

    /// The guard of requests over HTTP, and the lists of users that it reads.
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

    /// Who may use the gateway, for its operators.
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

    /// One line about who is admitted, for the operator.
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

/// The lists of users in `config.yaml`, which change with the file.
pub(crate) struct UserLists {
    operators: SharedPrincipalList,
    /// None if there are no logins.
    allowed: Option<SharedPrincipalList>,
}

impl UserLists {
    /// Replaces the lists whenever the settings change.
    pub(crate) async fn follow(self, mut view: watch::Receiver<Arc<View>>) -> Infallible {
        // The sender is gone during the shutdown.
        while view.changed().await.is_ok() {
            let settings = Arc::clone(&view.borrow_and_update().settings);
            // An editor may remove or empty the file for a moment, and that must let nobody in.
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

/// An address that other machines reach, if there is one.
pub(crate) fn exposed(listeners: &[TcpListener]) -> Option<SocketAddr> {
    let mut addresses = listeners.iter().filter_map(|listener| listener.local_addr().ok());
    addresses.find(|address| !address.ip().to_canonical().is_loopback())
}

/// The caller on standard input: an agent that the user started.
pub(crate) fn pipe(mode: AccessMode) -> Caller {
    Caller { role: AccessControl::default_role(mode), ..Caller::local() }
}
