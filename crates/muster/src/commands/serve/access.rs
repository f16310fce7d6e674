//! Who is admitted to the gateway: the settings, and what flags and the environment say over them.

use std::{path::Path, sync::Arc};

use muster_auth::{
    access::{
        AccessControl, AccessOptions, RemoteCallers,
        operator_file::OperatorFile,
        tokens::{StaticTokens, TokenFile},
    },
    clock::Clock,
    principal_list::PrincipalList,
    server::AuthServer,
};
use muster_client::{env_vars, user_dirs};
use muster_config::settings::{Access, AccessMode};
use muster_core::call::Caller;
use tokio::net::TcpListener;

use crate::error::CommandError;

const VARIABLE: &str = "MUSTER_ACCESS";

/// The rules of admission of one gateway.
pub(super) struct AccessRules {
    pub(super) mode: AccessMode,
    remote: RemoteCallers,
    tokens: StaticTokens,
    operators: PrincipalList,
}

impl AccessRules {
    /// The rules of a configuration directory. The environment and flags override its settings.
    pub(super) fn load(
        said: &Access,
        insecure_bind: bool,
        config: &Path,
    ) -> Result<Self, CommandError> {
        let mode = match env_vars::get(VARIABLE) {
            None => said.mode,
            Some(name) => AccessMode::named(&name).ok_or_else(|| {
                CommandError::new(format!("{VARIABLE} is `{name}`, which is not an access mode"))
                    .hint("set it to `private` or `open`, or unset it")
            })?,
        };
        let insists = said.insecure_bind || insecure_bind;
        Ok(Self {
            mode,
            remote: if insists { RemoteCallers::Anonymous } else { RemoteCallers::NeedToken },
            tokens: StaticTokens::new(TokenFile::of(config, Clock::system())),
            operators: PrincipalList {
                users: said.operators.users.clone(),
                groups: said.operators.groups.clone(),
                domains: Vec::new(),
            },
        })
    }

    /// Refuses addresses that other machines reach, unless callers have to prove who they are.
    pub(super) fn check_bind(
        &self,
        listeners: &[TcpListener],
        logins: Option<&AuthServer>,
    ) -> Result<(), CommandError> {
        let is_protected =
            logins.is_some() || self.remote == RemoteCallers::Anonymous || !self.tokens.is_empty();
        if is_protected {
            return Ok(());
        }
        let addresses = listeners.iter().filter_map(|listener| listener.local_addr().ok());
        let exposed =
            addresses.into_iter().find(|address| !address.ip().to_canonical().is_loopback());
        let Some(address) = exposed else { return Ok(()) };
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
    pub(super) fn operator_file(&self, listeners: &[TcpListener]) -> Option<OperatorFile> {
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

    /// What admits requests over HTTP.
    pub(super) fn guard(
        self,
        logins: Option<&AuthServer>,
        operator: Option<&OperatorFile>,
    ) -> Arc<AccessControl> {
        let Self { mode, remote, tokens, operators } = self;
        let options = AccessOptions { mode, logins: logins.cloned(), operators, remote, tokens };
        Arc::new(AccessControl::new(options, operator))
    }

    /// One line about who is admitted, for the operator.
    pub(super) fn summary(&self, listeners: &[TcpListener], logins: Option<&AuthServer>) -> String {
        let is_local = |listener: &TcpListener| {
            listener.local_addr().is_ok_and(|address| address.ip().to_canonical().is_loopback())
        };
        let tokens = if self.tokens.is_empty() { "" } else { ", or a token" };
        let callers = match (logins, listeners.iter().all(is_local), self.remote) {
            (Some(_), _, _) => format!("users who log in{tokens}"),
            (None, true, _) if self.mode == AccessMode::Open => {
                "every process on this machine, also to change the gateway (open)".to_owned()
            }
            (None, true, _) => format!("processes of this user on this machine{tokens}"),
            (None, false, RemoteCallers::NeedToken) => {
                "processes of this user on this machine, and callers with a token".to_owned()
            }
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

/// The caller on standard input: an agent that the user started.
pub(super) fn pipe(mode: AccessMode) -> Caller {
    Caller { role: AccessControl::default_role(mode), ..Caller::local() }
}
