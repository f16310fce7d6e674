//! What the steps of one scenario act on: an instance, its users, and what earlier steps have found.

use std::{collections::BTreeMap, time::Duration};

use serde_json::{Map, Value};
use tokio::time::Instant;

use crate::{
    client::{CALL_LIMIT, Client, Failure, Listening, Target},
    instance::{Instance, NotStarted, Stop},
    oauth::book::Person,
};

/// The user that is there from the beginning.
pub(crate) const DEFAULT_USER: &str = "default";

/// What the steps of one scenario act on.
#[derive(Debug)]
pub(crate) struct Subject {
    pub(crate) instance: Instance,
    users: BTreeMap<String, Client>,
    /// Who the users are, where they are somebody else than everybody.
    people: BTreeMap<String, Person>,
    current: String,
    /// Results of the steps that passed, by their ids.
    pub(crate) variables: Map<String, Value>,
    listening: Listening,
    deadline: Instant,
}

impl Subject {
    pub(crate) fn new(
        instance: Instance,
        client: Client,
        listening: Listening,
        deadline: Instant,
    ) -> Self {
        let users = BTreeMap::from([(DEFAULT_USER.to_owned(), client)]);
        let current = DEFAULT_USER.to_owned();
        let people = BTreeMap::new();
        Self { instance, users, people, current, variables: Map::new(), listening, deadline }
    }

    /// The session of the current user.
    pub(crate) fn client(&self) -> Result<&Client, Failure> {
        self.user(&self.current)
            .ok_or_else(|| Failure::Broken(format!("user '{}' is not connected", self.current)))
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

    /// Makes another user the current one. Whether there is such a user.
    pub(crate) fn switch(&mut self, name: &str) -> bool {
        let known = self.users.contains_key(name);
        if known {
            name.clone_into(&mut self.current);
        }
        known
    }

    /// Opens a session for a new user.
    pub(crate) async fn create_user(
        &mut self,
        name: &str,
        person: Option<Person>,
    ) -> Result<&Target, Failure> {
        let mut target = self.instance.target(self.listening);
        if let (Some(person), Some(idp)) = (&person, self.instance.providers().muster()) {
            target.bearer = Some(idp.core().mint(person, "").access);
        }
        let client = Client::connect(target).await?;
        self.people.extend(person.map(|person| (name.to_owned(), person)));
        let client = self.users.entry(name.to_owned()).or_insert(client);
        Ok(client.target())
    }

    /// Who the current user is.
    pub(crate) fn person(&self) -> Person {
        self.people.get(&self.current).cloned().unwrap_or_default()
    }

    /// Connects the current user again, in the same session, with another token.
    pub(crate) async fn reconnect(&mut self, bearer: String) -> Result<(), Failure> {
        let target = Target { bearer: Some(bearer), ..self.client()?.target().clone() };
        let client = Client::connect(target).await?;
        if let Some(old) = self.users.insert(self.current.clone(), client) {
            old.close().await;
        }
        Ok(())
    }

    /// Starts the instance anew and connects every user again, each as before.
    pub(crate) async fn restart(&mut self, how: Stop) -> Result<(), NotStarted> {
        let users = std::mem::take(&mut self.users);
        let mut targets: Vec<(String, Target)> =
            users.into_iter().map(|(name, client)| (name, client.target().clone())).collect();
        targets.sort_by_key(|(name, _)| name != DEFAULT_USER);
        let mut targets = targets.into_iter();
        if let Some((name, target)) = targets.next() {
            let client = self.instance.restart(how, &target).await?;
            self.users.insert(name, client);
        }
        for (name, target) in targets {
            let target = Target { port: self.instance.port(), ..target };
            let client = Client::connect(target).await.map_err(NotStarted::Mute)?;
            self.users.insert(name, client);
        }
        Ok(())
    }

    /// How long a call may take: what the step says, and no longer than the scenario.
    pub(crate) fn limit(&self, step: Option<Duration>) -> Duration {
        let left = self.deadline.saturating_duration_since(Instant::now());
        step.unwrap_or(CALL_LIMIT).min(left)
    }
}
