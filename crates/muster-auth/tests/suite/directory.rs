//! The directory of callers: who is logged in, and who would be admitted.

use std::sync::{Arc, OnceLock};

use http::HeaderMap;
use muster_auth::{
    access::{
        AccessControl, AccessOptions, RemoteCallers,
        directory::AccessDirectory,
        recent_logins::RecentLogins,
        tokens::{StaticTokens, TokenFile},
    },
    clock::Clock,
    principal_list::{PrincipalList, SharedPrincipalList},
};
use muster_config::settings::AccessMode;
use muster_core::{
    call::Role,
    caller_directory::{CallerDirectory as _, CallerQuery, DirectoryError, SeenLogin, TokenDraft},
    credentials::{Admission, Authenticator as _},
    shared::{ReplicaLink, SharedState},
};
use muster_shared::{MemoryShared, Replica as ReplicaLease};
use serde_json::Value;
use tempfile::TempDir;

use super::world::{World, peer};

/// A replica of the gateway: it has seen the logins of its own requests.
struct Replica {
    access: AccessControl,
    directory: AccessDirectory,
    tokens: TokenFile,
    _folder: TempDir,
}

impl Replica {
    fn new(world: &World) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let tokens = TokenFile::of(folder.path(), Clock::system());
        let recent = RecentLogins::default();
        let (mode, operators) = (AccessMode::Private, SharedPrincipalList::default());
        let options = AccessOptions {
            mode,
            logins: Some(world.server.clone()),
            operators: operators.clone(),
            remote: RemoteCallers::NeedToken,
            tokens: StaticTokens::new(tokens.clone()),
            recent: recent.clone(),
        };
        let directory = AccessDirectory {
            mode,
            operators,
            tokens: tokens.clone(),
            clock: Clock::system(),
            logins: Some(world.server.clone()),
            recent,
            browsers: OnceLock::new(),
        };
        Self { access: AccessControl::new(options, None), directory, tokens, _folder: folder }
    }

    /// The same replica, which shares the logins that it sees.
    fn shared_in(self, state: &Arc<dyn SharedState>) -> Self {
        let lease: Arc<dyn ReplicaLink> = ReplicaLease::new(Arc::clone(state)).unwrap();
        self.directory.recent.share(lease);
        self
    }

    /// Sends a request with the access token of a login, and returns the id of its session.
    async fn request(&self, tokens: &Value) -> String {
        self.admit(tokens).await;
        self.sessions().await.first().unwrap().clone()
    }

    async fn admit(&self, tokens: &Value) -> Admission {
        let mut headers = HeaderMap::new();
        let bearer = format!("Bearer {}", tokens["access_token"].as_str().unwrap());
        headers.insert("authorization", bearer.parse().unwrap());
        self.access.authenticate(&headers, &peer()).await.unwrap()
    }

    /// Waits until this replica lists so many requests.
    async fn lists(&self, requests: u64) -> Vec<SeenLogin> {
        loop {
            let logins = self.directory.logins().await.unwrap();
            if logins.iter().map(|login| login.requests).sum::<u64>() == requests {
                return logins;
            }
            tokio::task::yield_now().await;
        }
    }

    async fn sessions(&self) -> Vec<String> {
        let logins = self.directory.logins().await.unwrap();
        logins.into_iter().map(|login| login.id).collect()
    }

    /// The text of the error for a caller who would not be admitted.
    fn refusal(&self, query: &CallerQuery) -> Option<String> {
        self.directory.caller(query).err().map(|error| error.to_string())
    }
}

#[tokio::test]
async fn any_replica_ends_a_login() {
    let mut world = World::new().await;
    let (one, other) = (Replica::new(&world), Replica::new(&world));
    let tokens = world.login().await.unwrap();
    let id = one.request(&tokens).await;
    assert_eq!(other.sessions().await, Vec::<String>::new(), "it has not seen the login");
    let unknown = other.directory.end_session("unknown").await;
    assert!(matches!(unknown, Err(DirectoryError::NotFound(_))), "{unknown:?}");
    other.directory.end_session(&id).await.unwrap();
    assert!(world.authenticate(tokens["access_token"].as_str().unwrap()).await.is_err());
    assert_eq!(one.sessions().await, Vec::<String>::new(), "it has ended");
    let again = one.directory.end_session(&id).await;
    assert!(matches!(again, Err(DirectoryError::NotFound(_))), "{again:?}");
}

#[tokio::test]
async fn every_replica_lists_the_logins_of_all() {
    let mut world = World::new().await;
    let state: Arc<dyn SharedState> = Arc::new(MemoryShared::new(Clock::system()));
    let one = Replica::new(&world).shared_in(&state);
    let other = Replica::new(&world).shared_in(&state);
    let (first, second) = (world.login().await.unwrap(), world.login().await.unwrap());
    let id = one.request(&first).await;
    other.admit(&second).await;
    other.admit(&first).await;
    other.admit(&first).await;
    let working = async {
        // Both have seen the first login, and one the second.
        let logins = one.lists(4).await;
        assert_eq!(logins.len(), 2, "{logins:?}");
        let seen = logins.iter().find(|login| login.id == id).unwrap();
        assert_eq!(seen.requests, 3);
        assert_eq!(other.lists(4).await.len(), 2);
        // One that has seen neither.
        let third = Replica::new(&world).shared_in(&state);
        third.directory.end_session(&id).await.unwrap();
        assert_eq!(one.lists(1).await, third.lists(1).await, "the other one has ended");
        let again = third.directory.end_session(&id).await;
        assert!(
            matches!(&again, Err(DirectoryError::NotFound(text)) if text.ends_with("has ended already")),
            "{again:?}"
        );
    };
    let (one_tells, other_tells) = (one.directory.recent.clone(), other.directory.recent.clone());
    tokio::select! {
        () = working => (),
        never = one_tells.publish() => match never {},
        never = other_tells.publish() => match never {},
    }
}

#[tokio::test]
async fn work_goes_on_for_a_login_until_it_ends() {
    let mut world = World::new().await;
    let replica = Replica::new(&world);
    let tokens = world.login().await.unwrap();
    let caller = replica.admit(&tokens).await.caller(None);
    let login = replica.directory.login_of(&caller).unwrap();
    let other = Replica::new(&world);
    let goes_on = async |toolset| other.directory.logged_in(&login, toolset).await.unwrap();
    let found = goes_on(None).await.unwrap();
    assert_eq!((&found.subject, found.role), (&caller.subject, Role::Agent));
    assert_eq!(replica.directory.login_of(&found).as_ref(), Some(&login));
    assert_eq!(goes_on(Some("read")).await.unwrap().toolset.as_deref(), Some("read"));
    other.directory.end_session(&login.session).await.unwrap();
    assert!(goes_on(None).await.is_none(), "it has ended");
}

#[tokio::test]
async fn work_ends_with_the_permission_of_its_user() {
    let mut world = World::new().await;
    let replica = Replica::new(&world);
    let tokens = world.login().await.unwrap();
    let caller = replica.admit(&tokens).await.caller(None);
    let login = replica.directory.login_of(&caller).unwrap();
    let nobody =
        PrincipalList { users: vec!["nobody@example.com".to_owned()], ..PrincipalList::default() };
    world.server.allowed_users().replace(nobody);
    assert!(replica.directory.logged_in(&login, None).await.unwrap().is_none());
}

#[tokio::test]
async fn a_login_that_its_user_ended_is_gone() {
    let mut world = World::new().await;
    let replica = Replica::new(&world);
    let tokens = world.login().await.unwrap();
    let id = replica.request(&tokens).await;
    let token = tokens["refresh_token"].as_str().unwrap();
    let fields = [("token", token), ("client_id", world.client.as_str())];
    assert_eq!(world.form("/oauth/revoke", &fields).await.status(), 200);
    let ended = replica.directory.end_session(&id).await;
    let expected = format!("session `{id}` has ended already");
    assert!(matches!(ended, Err(DirectoryError::NotFound(text)) if text == expected));
    assert_eq!(replica.sessions().await, Vec::<String>::new());
}

#[tokio::test]
async fn a_question_about_a_caller_who_is_not_admitted_is_refused() {
    let allowed =
        PrincipalList { users: vec!["ann@example.com".to_owned()], ..PrincipalList::default() };
    let world = World::with(|config| config.allowed = allowed.into()).await;
    let replica = Replica::new(&world);
    for (name, lifetime) in [("old", Some(0)), ("ci", None)] {
        let draft = TokenDraft { name: name.to_owned(), lifetime, ..TokenDraft::default() };
        replica.tokens.create(&draft).unwrap();
    }
    let token = |name: &str| CallerQuery { token: Some(name.into()), ..CallerQuery::default() };
    let user = |name: &str| CallerQuery { user: Some(name.into()), ..CallerQuery::default() };
    for (query, expected) in [
        (token("ci"), None),
        (token("old"), Some("has expired")),
        (user("ann@example.com"), None),
        (user("eve@example.com"), Some("may not use this gateway")),
        (CallerQuery::default(), Some("without a login or a token")),
        (CallerQuery { operator: true, ..CallerQuery::default() }, None),
    ] {
        let refusal = replica.refusal(&query);
        assert_eq!(refusal.is_some(), expected.is_some(), "{query:?}: {refusal:?}");
        let refusal = refusal.unwrap_or_default();
        assert!(refusal.contains(expected.unwrap_or_default()), "{query:?}: {refusal}");
    }
}
