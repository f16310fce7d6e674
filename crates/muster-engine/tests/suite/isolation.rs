//! No caller sees or calls another caller's connections, in any order of events.

use std::{sync::Arc, time::Duration};

use muster_core::{
    backend::ToolCaller as _,
    call::{Call, CallError, Caller, Checking, Outcome},
    client::{Continuation, NoClient},
    connect::ConnectionEvent,
    json::raw,
    name::ToolName,
    request::Change,
};
use muster_engine::{
    engine::{Engine, EngineOptions},
    store::{ConfigStore, Files},
};
use muster_exec::{environment::Environment, launcher::Launcher};
use muster_gateway::{
    dispatch::Dispatcher,
    surface::{Surface as _, SurfaceContext, ToolCall, meta::Meta},
};
use proptest::prelude::*;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::broadcast;

use crate::{
    people::{Guarded, someone},
    rig::operator,
};

const PEOPLE: [&str; 3] = ["alice", "bob", "carol"];
const SERVERS: [&str; 2] = ["one", "two"];

/// A random event.
#[derive(Debug, Clone)]
enum Deed {
    Login(usize, usize),
    Logout(usize, usize),
    LogoutEverywhere(usize),
    Revoke(usize, usize),
    Look(usize),
    Call(usize, usize, usize),
    Relist(usize),
    Crash(usize),
    Move(usize),
    Restart(usize),
}

fn deeds(people: usize) -> impl Strategy<Value = Vec<Deed>> {
    let (who, server) = (0..people, 0..SERVERS.len());
    let pair = (who.clone(), server.clone());
    let deed = prop_oneof![
        4 => pair.clone().prop_map(|(who, server)| Deed::Login(who, server)),
        2 => pair.clone().prop_map(|(who, server)| Deed::Logout(who, server)),
        1 => who.clone().prop_map(Deed::LogoutEverywhere),
        1 => pair.prop_map(|(who, server)| Deed::Revoke(who, server)),
        3 => who.clone().prop_map(Deed::Look),
        4 => (who.clone(), who, server.clone()).prop_map(|(a, b, s)| Deed::Call(a, b, s)),
        1 => server.clone().prop_map(Deed::Relist),
        1 => server.clone().prop_map(Deed::Crash),
        1 => server.clone().prop_map(Deed::Move),
        1 => server.prop_map(Deed::Restart),
    ];
    prop::collection::vec(deed, 1..24)
}

pub(crate) struct World {
    pub(crate) dir: TempDir,
    pub(crate) guarded: Guarded,
    engine: Engine,
    pub(crate) dispatcher: Arc<Dispatcher>,
    meta: Meta,
    changes: broadcast::Receiver<Change>,
    moved: usize,
}

impl World {
    pub(crate) async fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("mcpservers")).unwrap();
        for server in SERVERS {
            write(&dir, server, 0);
        }
        let guarded = Guarded::default();
        let store = ConfigStore::new(dir.path().to_owned());
        let files = store.load(&Files::default());
        let environment = Environment::new([("PATH".to_owned(), "/bin".to_owned())], "");
        let options = EngineOptions {
            logins: Some(Arc::new(guarded.clone())),
            ..EngineOptions::new(Arc::new(guarded.clone()), Launcher::new(), environment)
        };
        let engine = Engine::start(store, files, options);
        let dispatcher = Dispatcher::new(engine.state()).with_principals(engine.user_connections());
        let changes = engine.changes().subscribe();
        let (dispatcher, meta) = (Arc::new(dispatcher), Meta::default());
        let world = Self { dir, guarded, engine, dispatcher, meta, changes, moved: 0 };
        world.settled().await;
        world
    }

    /// Waits until every server has been tried.
    pub(crate) async fn settled(&self) {
        let mut views = self.engine.view();
        let tried = |known: &Arc<muster_engine::view::ServerEntry>| {
            known.status.needs_login && !known.status.condition.is_transitional()
        };
        let done = views.wait_for(|view| {
            view.servers.len() == SERVERS.len() && view.servers.values().all(tried)
        });
        drop(done.await.unwrap());
    }

    pub(crate) async fn meta(&self, who: &Caller, tool: &str, arguments: Value) -> String {
        let client = NoClient::shared();
        let (dispatcher, snapshot) = (&*self.dispatcher, &self.dispatcher.snapshot(who));
        let cx = SurfaceContext { dispatcher, snapshot, caller: who, client: &client };
        let call = ToolCall {
            name: tool.to_owned(),
            arguments: raw(&arguments),
            meta: None,
            continuation: Continuation::default(),
        };
        match self.meta.call(cx, call).await {
            Ok(Outcome::Raw(raw)) => raw.get().to_owned(),
            Ok(Outcome::Text { text, details, .. }) => format!("{text} {details:?}"),
            other => format!("{other:?}"),
        }
    }

    pub(crate) async fn call(
        &self,
        who: &Caller,
        tool: &str,
        args: Value,
    ) -> Result<Outcome, CallError> {
        let call = Call::new(ToolName::new(tool), raw(&args), Checking::Strict);
        self.dispatcher.call(who, &NoClient::shared(), call).await
    }

    /// Everything that a caller can see.
    async fn everything(&self, who: &Caller) -> String {
        let mut seen = String::new();
        for (tool, arguments) in [
            ("list_tools", json!({"limit": 1000})),
            ("filter_tools", json!({"query": "shared only mine"})),
            ("filter_tools", json!({"pattern": "x_*", "include_schema": true})),
            ("describe_tool", json!({"name": "x_one_shared"})),
            ("list_resources", json!({})),
            ("list_prompts", json!({})),
            ("call_tool", json!({"name": "core_mcpserver_list", "arguments": {"verbose": true}})),
            ("call_tool", json!({"name": "core_service_list", "arguments": {}})),
            ("call_tool", json!({"name": "core_events", "arguments": {}})),
            ("get_resource", json!({"uri": "auth://status"})),
            ("call_tool", json!({"name": "x_one_oly-bob", "arguments": {}})),
            ("call_tool", json!({"name": "x_two_shared", "arguments": {}})),
        ] {
            seen += &self.meta(who, tool, arguments).await;
        }
        seen
    }

    async fn act(&mut self, deed: &Deed) {
        let login = |server: &str| json!({"server": server});
        match deed {
            Deed::Login(who, server) => {
                self.guarded.admit(PEOPLE[*who], SERVERS[*server]);
                let (me, args) = (someone(PEOPLE[*who]), login(SERVERS[*server]));
                let said = self.call(&me, "core_auth_login", args).await;
                if let Ok(Outcome::Text { text, .. }) = said
                    && text.starts_with("Successfully connected")
                {
                    // A logged-in caller sees its own tools, or the rest would prove nothing.
                    let own = format!("x_{}_only-{}", SERVERS[*server], PEOPLE[*who]);
                    let listed = self.meta(&me, "filter_tools", json!({"pattern": "x_*"})).await;
                    assert!(listed.contains(&own), "{own}: {listed}");
                }
            }
            Deed::Logout(who, server) => {
                let args = login(SERVERS[*server]);
                drop(self.call(&someone(PEOPLE[*who]), "core_auth_logout", args).await);
            }
            Deed::LogoutEverywhere(who) => {
                let who = someone(PEOPLE[*who]);
                self.engine.user_connections().log_out_everywhere(&who).await;
                let listed = self.meta(&who, "filter_tools", json!({"pattern": "x_*"})).await;
                assert!(!listed.contains("only-"), "{listed}");
            }
            Deed::Revoke(who, server) => self.guarded.revoke(PEOPLE[*who], SERVERS[*server]),
            Deed::Look(who) => check(PEOPLE[*who], &self.everything(&someone(PEOPLE[*who])).await),
            Deed::Call(who, whose, server) => self.try_call(*who, *whose, *server).await,
            Deed::Relist(server) => {
                self.guarded.happen(SERVERS[*server], &ConnectionEvent::ListChanged);
            }
            Deed::Crash(server) => {
                let reason = "it is gone".to_owned();
                self.guarded.happen(SERVERS[*server], &ConnectionEvent::Closed { reason });
            }
            Deed::Move(server) => {
                self.moved += 1;
                write(&self.dir, SERVERS[*server], self.moved);
                drop(self.call(&operator(), "core_config_reload", json!({})).await);
                self.settled().await;
            }
            Deed::Restart(server) => {
                let args = json!({"name": SERVERS[*server]});
                drop(self.call(&operator(), "core_service_restart", args).await);
                self.settled().await;
            }
        }
    }

    async fn try_call(&self, who: usize, whose: usize, server: usize) {
        let (me, server) = (PEOPLE[who], SERVERS[server]);
        let own = format!("x_{server}_only-{}", PEOPLE[whose]);
        for tool in [own, format!("x_{server}_shared")] {
            match self.call(&someone(me), &tool, json!({})).await {
                Ok(Outcome::Text { text, .. }) => {
                    assert!(text.ends_with(&format!("for only-{me}")), "{me}: {text}");
                    assert!(self.guarded.is_admitted(me, server), "{me} is not logged in");
                }
                Ok(other) => panic!("{other:?}"),
                Err(error) => check(me, &error.to_string().replace(&tool, "")),
            }
        }
    }

    /// No caller is notified of another caller's changes.
    fn check_changes(&mut self, deed: &Deed) {
        let acting = match deed {
            Deed::Login(who, _) | Deed::Logout(who, _) | Deed::LogoutEverywhere(who) => {
                Some(PEOPLE[*who])
            }
            _ => None,
        };
        while let Ok(change) = self.changes.try_recv() {
            if let (Change::ForOwner { owner, .. }, Some(acting)) = (&change, acting) {
                // A call may have closed the caller's own connection.
                let mine = someone(acting).owner();
                assert!(*owner == mine || change.visible_to(&mine).is_none(), "{change:?}");
            }
        }
    }
}

fn write(dir: &TempDir, server: &str, moved: usize) {
    let path = dir.path().join(format!("mcpservers/{server}.yaml"));
    std::fs::write(path, format!("url: https://{server}/{moved}\n")).unwrap();
}

/// Nothing that a caller sees belongs to another.
#[track_caller]
fn check(me: &str, seen: &str) {
    for other in PEOPLE.iter().filter(|other| **other != me) {
        assert!(!seen.contains(&format!("only-{other}")), "{me} sees {other}: {seen}");
    }
}

async fn live(deeds: &[Deed]) {
    let mut world = World::new().await;
    for deed in deeds {
        world.act(deed).await;
        world.check_changes(deed);
        for who in PEOPLE {
            check(who, &world.everything(&someone(who)).await);
        }
        check("nobody", &world.everything(&Caller::local()).await);
    }
    tokio::time::timeout(Duration::from_secs(60), world.engine.shut_down()).await.unwrap();
}

fn run(deeds: &[Deed]) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .unwrap();
    runtime.block_on(live(deeds));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 10, ..ProptestConfig::default() })]

    #[test]
    fn two_people_see_only_what_is_theirs(deeds in deeds(2)) {
        run(&deeds);
    }

    #[test]
    fn three_people_see_only_what_is_theirs(deeds in deeds(3)) {
        run(&deeds);
    }
}

#[tokio::test(start_paused = true)]
async fn one_login_is_one_change_for_one_person() {
    let mut world = World::new().await;
    while world.changes.try_recv().is_ok() {}
    let alice = someone("alice");
    world.guarded.admit("alice", "one");
    let said = world.call(&alice, "core_auth_login", json!({"server": "one"})).await.unwrap();
    let Outcome::Text { text, failed: false, .. } = said else { panic!("{said:?}") };
    assert_eq!(
        text,
        "Successfully connected to 'one'!\n\nAvailable capabilities:\n- Tools: 2\n- Resources: 1\n- \
         Prompts: 1\n\nYou can now use the tools of this server."
    );
    let mut heard = Vec::new();
    while let Ok(change) = world.changes.try_recv() {
        heard.push(change);
    }
    let own = |change: Change| change.for_owner(alice.owner());
    assert_eq!(heard, [own(Change::Tools), own(Change::Resources), own(Change::Prompts)]);
    // A repeated login says so, and connects nothing twice.
    let again = world.call(&alice, "core_auth_login", json!({"server": "one"})).await.unwrap();
    let Outcome::Text { text, .. } = again else { panic!("{again:?}") };
    assert_eq!(text, "Server 'one' is already authenticated for this session.");
    assert_eq!(world.guarded.connected("one"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_token_that_is_refused_ends_what_is_shown() {
    let world = World::new().await;
    let alice = someone("alice");
    world.guarded.admit("alice", "one");
    drop(world.call(&alice, "core_auth_login", json!({"server": "one"})).await.unwrap());
    world.guarded.revoke("alice", "one");
    let error = world.call(&alice, "x_one_shared", json!({})).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "backend `one` is not available: authentication to one expired (status 401) - please \
         re-authenticate with core_auth_login and try again"
    );
    let error = world.call(&alice, "x_one_shared", json!({})).await.unwrap_err();
    assert!(matches!(error, CallError::UnknownTool { .. }), "{error}");
    let said = world.meta(&alice, "call_tool", json!({"name": "x_one_shared"})).await;
    assert!(said.contains("server not connected: one (status: auth_required)"), "{said}");
    let said = world.call(&alice, "core_auth_login", json!({"server": "one"})).await.unwrap();
    let Outcome::Text { text, details, .. } = said else { panic!("{said:?}") };
    assert_eq!(details.unwrap().get(), r#"{"authUrl":"https://issuer/?only-alice=one"}"#);
    assert!(text.lines().any(|line| line == "https://issuer/?only-alice=one"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_wants_more_takes_nothing_away() {
    let world = World::new().await;
    let alice = someone("alice");
    let login = async || match world
        .call(&alice, "core_auth_login", json!({"server": "one"}))
        .await
        .unwrap()
    {
        Outcome::Text { text, .. } => text.lines().next().unwrap().to_owned(),
        other => panic!("{other:?}"),
    };
    world.guarded.admit("alice", "one");
    assert_eq!(login().await, "Successfully connected to 'one'!");
    world.guarded.want("alice", "one", true);
    let error = world.call(&alice, "x_one_only-alice", json!({})).await.unwrap_err();
    assert_eq!(error.to_string(), "backend `one` is not available: it wants more");
    // Other tools keep working, and the user can grant more.
    world.call(&alice, "x_one_shared", json!({})).await.unwrap();
    assert_eq!(login().await, "Authentication Required");
    world.guarded.want("alice", "one", false);
    assert_eq!(login().await, "Server 'one' is already authenticated for this session.");
    world.call(&alice, "x_one_only-alice", json!({})).await.unwrap();
    assert_eq!(world.guarded.connected("one"), 1);
}

#[tokio::test(start_paused = true)]
async fn replies_of_login_and_logout() {
    let world = World::new().await;
    let bob = someone("bob");
    let say = async |tool: &str, args: Value| match world.call(&bob, tool, args).await.unwrap() {
        Outcome::Text { text, failed, .. } => format!("{}{text}", if failed { "E: " } else { "" }),
        other => panic!("{other:?}"),
    };
    let table = [
        (
            "core_auth_login",
            json!({}),
            "E: Error: 'server' argument is required and must be a string",
        ),
        ("core_auth_login", json!({"server": 1}), "E: Error: 'server' argument is required"),
        ("core_auth_login", json!({"server": "no"}), "E: Server 'no' not found. "),
        (
            "core_auth_login",
            json!({"server": "one"}),
            "Authentication Required\n\nServer: one\nStatus: ",
        ),
        (
            "core_auth_logout",
            json!({}),
            "E: Error: 'server' argument is required and must be a string",
        ),
        ("core_auth_logout", json!({"server": "no"}), "E: Server 'no' not found."),
        ("core_auth_logout", json!({"server": "one"}), "Successfully logged out from 'one'.\n"),
    ];
    for (tool, args, expect) in table {
        let said = say(tool, args.clone()).await;
        assert!(said.starts_with(expect), "{tool} {args}: {said}");
    }
    for _ in 0..10 {
        say("core_auth_login", json!({"server": "one"})).await;
    }
    let said = say("core_auth_login", json!({"server": "one"})).await;
    assert!(said.starts_with("E: Rate limit exceeded."), "{said}");
    tokio::time::advance(Duration::from_secs(61)).await;
    let said = say("core_auth_login", json!({"server": "one"})).await;
    assert!(said.starts_with("Authentication Required"), "{said}");
}
