//! The state that the steps of one scenario share: the instance, its users, and earlier results.

use std::{collections::BTreeMap, time::Duration};

use serde_json::{Map, Value};
use tokio::time::Instant;

use crate::{
    client::{CALL_TIMEOUT, Client, ClientError, ClientTarget, NotificationStream},
    instance::{Instance, InstanceError, StopMode},
    oauth::records::UserIdentity,
};

/// The user that exists from the start.
pub(crate) const DEFAULT_USER: &str = "default";

/// What muster issued to a client of its own.
#[derive(Debug)]
pub(crate) struct MusterLogin {
    /// The registered client.
    pub(crate) client: String,
    pub(crate) access: String,
    pub(crate) refresh: Option<String>,
}

/// The state that the steps of one scenario share.
#[derive(Debug)]
pub(crate) struct ScenarioContext {
    pub(crate) instance: Instance,
    users: BTreeMap<String, Client>,
    /// Identities of users that differ from the default.
    identities: BTreeMap<String, UserIdentity>,
    current: String,
    /// The latest login at muster itself, which users that are created later share.
    pub(crate) login: Option<MusterLogin>,
    /// The identity of the latest login, if it differs from the default.
    login_identity: Option<UserIdentity>,
    /// Minted tokens, by name.
    pub(crate) tokens: BTreeMap<String, String>,
    /// Results of passed steps, by step id.
    pub(crate) variables: Map<String, Value>,
    listening: NotificationStream,
    deadline: Instant,
}

impl ScenarioContext {
    pub(crate) fn new(
        instance: Instance,
        client: Client,
        listening: NotificationStream,
        deadline: Instant,
    ) -> Self {
        let users = BTreeMap::from([(DEFAULT_USER.to_owned(), client)]);
        let current = DEFAULT_USER.to_owned();
        let identities = BTreeMap::new();
        let (tokens, variables) = (BTreeMap::new(), Map::new());
        Self {
            instance,
            users,
            identities,
            current,
            login: None,
            login_identity: None,
            tokens,
            variables,
            listening,
            deadline,
        }
    }

    /// The session of the current user.
    pub(crate) fn client(&self) -> Result<&Client, ClientError> {
        self.user(&self.current).ok_or_else(|| {
            ClientError::Transport(format!("user '{}' is not connected", self.current))
        })
    }

    pub(crate) fn user(&self, name: &str) -> Option<&Client> {
        self.users.get(name)
    }

    pub(crate) fn current(&self) -> &str {
        &self.current
    }

    pub(crate) fn user_names(&self) -> Vec<&str> {
        self.users.keys().map(String::as_str).collect()
    }

    /// Switches the current user; returns whether the user exists.
    pub(crate) fn switch(&mut self, name: &str) -> bool {
        let known = self.users.contains_key(name);
        if known {
            name.clone_into(&mut self.current);
        }
        known
    }

    /// Creates a user with a session of their own.
    pub(crate) async fn create_user(
        &mut self,
        name: &str,
        identity: Option<UserIdentity>,
    ) -> Result<&ClientTarget, ClientError> {
        let mut target = self.instance.target(self.listening);
        if let (Some(identity), Some(idp)) = (&identity, self.instance.providers().muster()) {
            target.bearer = Some(idp.state().mint(identity, "").access);
        } else if let Some(login) = &self.login {
            target.bearer = Some(login.access.clone());
        }
        let identity = identity.or_else(|| self.login_identity.clone());
        let client = Client::connect(target).await?;
        self.identities.extend(identity.map(|identity| (name.to_owned(), identity)));
        let client = self.users.entry(name.to_owned()).or_insert(client);
        Ok(client.target())
    }

    /// The identity of the current user.
    pub(crate) fn identity(&self) -> UserIdentity {
        self.identities.get(&self.current).cloned().unwrap_or_default()
    }

    /// Changes the identity of the current user, and of users that are created later.
    pub(crate) fn set_identity(&mut self, identity: UserIdentity) {
        self.identities.insert(self.current.clone(), identity.clone());
        self.login_identity = Some(identity);
    }

    /// Reconnects the current user with the token of a login.
    pub(crate) async fn log_in(&mut self, login: MusterLogin) -> Result<(), ClientError> {
        self.reconnect(login.access.clone()).await?;
        self.login = Some(login);
        Ok(())
    }

    /// Reconnects the current user in the same session with another token.
    pub(crate) async fn reconnect(&mut self, bearer: String) -> Result<(), ClientError> {
        let target = ClientTarget { bearer: Some(bearer), ..self.client()?.target().clone() };
        let client = Client::connect(target).await?;
        if let Some(old) = self.users.insert(self.current.clone(), client) {
            old.close().await;
        }
        Ok(())
    }

    /// Restarts the instance and reconnects every user.
    pub(crate) async fn restart(&mut self, how: StopMode) -> Result<(), InstanceError> {
        let users = std::mem::take(&mut self.users);
        let mut targets: Vec<(String, ClientTarget)> =
            users.into_iter().map(|(name, client)| (name, client.target().clone())).collect();
        targets.sort_by_key(|(name, _)| name != DEFAULT_USER);
        let mut targets = targets.into_iter();
        if let Some((name, target)) = targets.next() {
            let client = self.instance.restart(how, &target).await?;
            self.users.insert(name, client);
        }
        for (name, target) in targets {
            let target = ClientTarget { port: self.instance.port(), ..target };
            let client = Client::connect(target).await.map_err(InstanceError::Unresponsive)?;
            self.users.insert(name, client);
        }
        Ok(())
    }

    /// The timeout of a call, capped by the time left for the scenario.
    pub(crate) fn limit(&self, step: Option<Duration>) -> Duration {
        let left = self.deadline.saturating_duration_since(Instant::now());
        step.unwrap_or(CALL_TIMEOUT).min(left)
    }
}
