//! Policy files as they apply to one caller.

use std::sync::Arc;

use expect_test::expect;
use muster_core::{
    call::{Call, CallError, Caller, Checking, Role},
    catalog::{
        BackendInfo, CatalogSnapshot, CatalogSource, Offer, ToolAudience, ToolEntry,
        family::ServerFamily, offer,
    },
    connect::ServerListing,
    credentials::Principal,
    json::raw,
    name::{BackendName, ToolName},
    policy::{Policy, toolset::Toolset},
};
use serde_json::json;

use super::check;
use crate::{policy::parse, toolset};

fn source(backend: &str, tags: &[&str], tools: Vec<ToolEntry>, resources: usize) -> CatalogSource {
    let about = BackendInfo {
        title: backend.into(),
        description: "".into(),
        category: None,
        tags: tags.iter().map(|tag| (*tag).to_owned()).collect(),
    };
    let listing = ServerListing {
        resources: vec![raw(&json!({"uri": format!("{backend}://r"), "name": "r"})); resources],
        ..ServerListing::default()
    };
    let backend = BackendName::new(backend);
    let offer = offer::offer(&listing, &backend, str::to_owned);
    CatalogSource::new(backend, about, Offer { tools, ..offer })
}

fn tools(backend: &str, names: &[&str]) -> Vec<ToolEntry> {
    let listed =
        names.iter().map(|name| raw(&json!({"name": name, "inputSchema": {"type": "object"}})));
    let listing = ServerListing { tools: listed.collect(), ..ServerListing::default() };
    let exposed = |local: &str| format!("x_{backend}_{local}");
    offer::offer(&listing, &BackendName::new(backend), exposed).tools
}

/// Servers `gh` and `other`, a CLI, a server with a resource only, and tools of the gateway.
fn catalog() -> CatalogSnapshot {
    let core = |(name, audience): &(&str, ToolAudience)| ToolEntry {
        name: ToolName::new(*name),
        local_name: (*name).into(),
        audience: *audience,
        ..tools("core", &["x"]).remove(0)
    };
    let ours =
        [("core_stats", ToolAudience::Everyone), ("core_server_create", ToolAudience::Operators)];
    let cli = ToolEntry {
        name: ToolName::new("cli_git_log"),
        params: Some(Arc::default()),
        definition: None,
        ..tools("cli/git", &["git_log"]).remove(0)
    };
    CatalogSnapshot::default().with_all([
        source("core", &[], ours.iter().map(core).collect(), 0),
        source("gh", &["code"], tools("gh", &["get_issue", "delete_repo"]), 1),
        // Its own name is the name under which agents see a tool of `gh`.
        source("other", &[], tools("other", &["x_gh_get_issue", "get_mail"]), 1),
        source("cli/git", &["code"], vec![cli], 0),
        source("docs", &[], Vec::new(), 1),
    ])
}

fn user(email: &str, groups: &[&str]) -> Caller {
    Caller::authenticated(Arc::new(Principal {
        id: "i|1".into(),
        issuer: "i".into(),
        subject: "1".into(),
        email: Some(email.into()),
        name: None,
        groups: groups.iter().map(|group| (*group).to_owned()).collect(),
        login: "l".into(),
        identity: None,
        client: None,
    }))
}

fn token(name: &str) -> Caller {
    Caller { token: Some(name.into()), ..Caller::local() }
}

fn operator() -> Caller {
    Caller { role: Role::Operator, ..Caller::local() }
}

fn bound_to(toolset: &str, caller: Caller) -> Caller {
    Caller { toolset: Some(toolset.into()), ..caller }
}

fn set(file: &str) -> Arc<Toolset> {
    Arc::new(toolset::parse(file, "x").unwrap().value.toolset)
}

/// The policy of a file for a caller, with some toolsets.
fn policy(file: &str, caller: &Caller) -> Policy {
    let mut policy = parse(file).unwrap().value;
    let sets = [
        ("code", set("tags: [code]")),
        ("reading", set("{servers: ['*'], effect: read}")),
        ("ours", set("tools: ['core_*', gh/get_*]")),
        ("all", set("tools: ['*']")),
    ];
    policy.toolsets =
        Arc::new(sets.into_iter().map(|(name, set)| (name.to_owned(), set)).collect());
    policy.narrowed(policy.access_of(caller), &catalog())
}

/// The tools that a caller sees, without the gateway's own.
#[track_caller]
fn sees(file: &str, caller: &Caller, expect: &[&str]) {
    let (policy, catalog) = (policy(file, caller), catalog());
    let shown = catalog.sorted().filter(|entry| policy.shows(entry));
    let shown: Vec<&str> = shown.map(|entry| entry.name.as_str()).collect();
    let theirs: Vec<&str> = shown.into_iter().filter(|name| !name.starts_with("core_")).collect();
    assert_eq!(theirs, expect, "{file}");
}

#[track_caller]
fn sees_servers(file: &str, caller: &Caller, expect: &[&str]) {
    let (policy, catalog) = (policy(file, caller), catalog());
    let shown = catalog.showing(|source| policy.shows_source(source));
    let names: Vec<&str> = shown.sources().map(|source| source.backend.as_str()).collect();
    assert_eq!(names, expect, "{file}");
}

#[test]
fn a_rule_names_the_server_and_the_tool() {
    let anyone = Caller::local();
    sees("tools: {x_gh_get_issue: {}}", &anyone, &["x_gh_get_issue"]);
    sees("tools: {gh/get_issue: {}}", &anyone, &["x_gh_get_issue"]);
    sees("tools: {gh/*: {}}", &anyone, &["x_gh_delete_repo", "x_gh_get_issue"]);
    sees("tools: {gh/get_*: {}}", &anyone, &["x_gh_get_issue"]);
    sees("tools: {other/x_gh_get_issue: {}}", &anyone, &["x_other_x_gh_get_issue"]);
    // A CLI's tool has one name in a config, which the author of the policy sees.
    sees("tools: {git_log: {}}", &anyone, &["cli_git_log"]);
    sees("tools: {cli/git/git_log: {}}", &anyone, &["cli_git_log"]);
    sees("tools: {get_issue: {}, get_mail: {}}", &anyone, &[]);
}

#[test]
fn limits_of_a_bare_name_still_hold() {
    let file =
        "default: enabled\ntools: {get_issue: {args: {n: {max: 1}}}, gh/*: {args: {m: {max: 1}}}}";
    let policy = parse(file).unwrap().value;
    let permit = |arguments| {
        let call = Call::new(ToolName::new("x_gh_get_issue"), raw(&arguments), Checking::Strict);
        policy.permit(&catalog(), &Caller::local(), call).map(drop)
    };
    for over in [json!({"n": 2}), json!({"m": 2})] {
        assert!(matches!(permit(over), Err(CallError::PolicyViolation { .. })));
    }
    permit(json!({"n": 1, "m": 1})).unwrap();
}

#[test]
fn entries_add_to_the_policy_for_everybody() {
    let file = "
tools: {x_other_get_mail: {}}
callers:
  - {users: ['*@A.example'], tools: {gh/get_issue: {}}}
  - {groups: [ops], default: enabled}
  - {tokens: [ci], effect: read}
  - {anonymous: true, toolset: code}
";
    let all = [
        "cli_git_log",
        "x_gh_delete_repo",
        "x_gh_get_issue",
        "x_other_get_mail",
        "x_other_x_gh_get_issue",
    ];
    sees(file, &user("eve@b.example", &[]), &["x_other_get_mail"]);
    sees(file, &user("Ada@a.example", &["dev"]), &["x_gh_get_issue", "x_other_get_mail"]);
    sees(file, &user("eve@b.example", &["ops"]), &all);
    sees(file, &token("other"), &["x_other_get_mail"]);
    let reading = ["cli_git_log", "x_gh_get_issue", "x_other_get_mail", "x_other_x_gh_get_issue"];
    sees(file, &token("ci"), &reading);
    let code = ["cli_git_log", "x_gh_delete_repo", "x_gh_get_issue", "x_other_get_mail"];
    sees(file, &Caller::local(), &code);
    // Background work is not an anonymous caller.
    let system = Caller { subject: "system".into(), ..Caller::local() };
    sees(file, &system, &["x_other_get_mail"]);
    sees_servers(file, &user("eve@b.example", &[]), &["core", "other"]);
    sees_servers(file, &user("ada@a.example", &[]), &["core", "gh", "other"]);
    sees_servers(
        file,
        &user("eve@b.example", &["ops"]),
        &["core", "gh", "other", "cli/git", "docs"],
    );
    sees_servers(file, &Caller::local(), &["core", "gh", "other", "cli/git"]);
}

#[test]
fn an_entry_names_the_clients_of_logins() {
    let file = "callers: [{clients: ['https://claude.ai/oauth/*', ci], tools: {gh/get_issue: {}}}]";
    let with = |client: &str| {
        let caller = user("ci", &["ci"]);
        let mut principal = Principal::clone(caller.principal.as_ref().unwrap());
        principal.client = Some(client.into());
        Caller::authenticated(Arc::new(principal))
    };
    for client in ["https://claude.ai/oauth/client.json", "ci"] {
        sees(file, &with(client), &["x_gh_get_issue"]);
    }
    for client in ["https://claude.ai.evil.example/x", "HTTPS://claude.ai/x", "CI", ""] {
        sees(file, &with(client), &[]);
    }
    // Neither a user, nor a group, nor a token of that name is the client.
    sees(file, &user("ci", &["ci"]), &[]);
    sees(file, &token("ci"), &[]);
    sees(file, &Caller::local(), &[]);
}

#[test]
fn the_last_matching_entry_with_a_rule_sets_the_limits() {
    let file = "
tools: {gh/get_issue: {args: {n: {max: 1}}}}
callers:
  - {groups: [a], tools: {x_gh_get_issue: {args: {n: {max: 10}}}}}
  - {groups: [b], tools: {gh/*: {args: {n: {max: 100}}}}}
  - {groups: [a, b], effect: read}
";
    let most = |groups: &[&str]| {
        let policy = policy(file, &user("e@x", groups));
        let allowed = [1, 10, 100].into_iter().filter(|n| {
            let arguments = raw(&json!({"n": n}));
            let call = Call::new(ToolName::new("x_gh_get_issue"), arguments, Checking::Strict);
            policy.permit(&catalog(), &user("e@x", groups), call).is_ok()
        });
        allowed.max()
    };
    assert_eq!(most(&[]), Some(1));
    assert_eq!(most(&["a"]), Some(10));
    assert_eq!(most(&["b"]), Some(100));
    assert_eq!(most(&["a", "b"]), Some(100));
}

#[test]
fn a_toolset_only_takes_away() {
    let open = "default: enabled";
    let code = ["cli_git_log", "x_gh_delete_repo", "x_gh_get_issue"];
    sees(open, &bound_to("code", Caller::local()), &code);
    sees("tools: {x_other_get_mail: {}}", &bound_to("code", Caller::local()), &[]);
    sees("tools: {gh/*: {}}", &bound_to("reading", Caller::local()), &["x_gh_get_issue"]);
    sees(open, &bound_to("ours", operator()), &["x_gh_get_issue"]);
    sees(open, &bound_to("missing", operator()), &[]);
    sees_servers(open, &bound_to("code", Caller::local()), &["core", "gh", "cli/git"]);
    sees_servers(open, &bound_to("missing", Caller::local()), &["core"]);
    assert_eq!(policy(open, &bound_to("missing", token("t"))).unknown_toolset(), Some("missing"));
}

#[test]
fn a_toolset_of_a_server_has_the_tools_of_its_family() {
    let family = || ServerFamily {
        name: "kubernetes".to_owned(),
        instance_arg: "cluster".to_owned(),
        prefix: "x".to_owned(),
    };
    let member = |name: &str| source(name, &[], tools(name, &["list"]), 0).in_family(family());
    let catalog = CatalogSnapshot::default().with_all([member("north"), member("south")]);
    let caller = bound_to("north", Caller::local());
    let mut policy = parse("default: enabled").unwrap().value;
    policy.toolsets = Arc::new([("north".to_owned(), set("servers: [north]"))].into());
    let policy = policy.narrowed(policy.access_of(&caller), &catalog);
    let permit = |catalog: &CatalogSnapshot, cluster: &str| {
        let arguments = raw(&json!({"cluster": cluster}));
        let call = Call::new(ToolName::new("x_kubernetes_list"), arguments, Checking::Strict);
        policy.permit(catalog, &caller, call)
    };
    let seen = catalog.showing(|source| policy.shows_source(source));
    let list = seen.get("x_kubernetes_list").filter(|entry| policy.shows(entry)).unwrap();
    assert_eq!(&*list.description, " (available on servers: north)");
    assert_eq!(permit(&seen, "north").unwrap().entry().backend.as_str(), "north");
    assert!(permit(&seen, "south").is_err());
    // Not even where the other server is in the catalog.
    assert!(permit(&catalog, "south").is_err());
}

/// The gateway's own tools that a caller sees.
fn core_tools(file: &str, caller: &Caller) -> Vec<String> {
    let (policy, catalog) = (policy(file, caller), catalog());
    let ours = catalog.sorted().filter(|entry| entry.audience.is_gateway() && policy.shows(entry));
    ours.map(|entry| entry.name.to_string()).collect()
}

#[test]
fn a_policy_never_locks_operators_out() {
    let both = ["core_server_create", "core_stats"];
    assert_eq!(core_tools("default: disabled", &operator()), both);
    assert_eq!(core_tools("tools: {core_stats: {args: {n: {max: 1}}}}", &operator()), both);
    let entry = "callers: [{groups: [ops], operator: true}]";
    assert_eq!(core_tools(entry, &user("e@x", &["ops"])), both);
    assert_eq!(core_tools(entry, &user("e@x", &["dev"])), [""; 0]);
    // The policy still governs the tools of servers.
    sees("default: disabled", &operator(), &[]);
    let call = Call::new(ToolName::new("core_stats"), raw(&json!({"n": 2})), Checking::Strict);
    let limited = policy("tools: {core_stats: {args: {n: {max: 1}}}}", &operator());
    limited.permit(&catalog(), &operator(), call).unwrap();
    // A toolset limits operators: a client that asks for one wants to see nothing else.
    assert_eq!(core_tools("default: enabled", &bound_to("all", operator())), [""; 0]);
    assert_eq!(core_tools("default: enabled", &bound_to("ours", operator())), both);
}

#[test]
fn operators_without_a_name_are_warned_about() {
    for (file, expected) in [
        ("callers: [{anonymous: true, operator: true}]", 1),
        ("callers: [{anonymous: true, toolset: code}, {users: [a], operator: true}]", 0),
    ] {
        let warnings = parse(file).unwrap().warnings;
        assert_eq!(warnings.len(), expected, "{warnings:?}");
        assert!(warnings.iter().all(|warning| warning.message.contains("everybody")));
    }
}

#[test]
fn agents_are_not_operators() {
    let stats = ["core_stats"];
    let both = ["core_server_create", "core_stats"];
    let anyone = Caller::local();
    for open in [
        "default: enabled",
        "tools: {core/*: {}}",
        "callers: [{anonymous: true, default: enabled}]",
    ] {
        assert_eq!(core_tools(open, &anyone), stats, "{open}");
    }
    assert_eq!(core_tools("default: enabled\ntools: {core_server_create: {}}", &anyone), both);
    let entry = "callers: [{tokens: [ci], tools: {core_server_create: {}}}]";
    assert_eq!(core_tools(entry, &token("ci")), ["core_server_create"]);
    assert_eq!(core_tools(entry, &token("other")), [""; 0]);
    // A toolset that an entry adds names groups of tools, too.
    assert_eq!(core_tools("callers: [{tokens: [ci], toolset: ours}]", &token("ci")), stats);
    assert_eq!(core_tools("default: enabled", &bound_to("ours", anyone)), stats);
}

#[test]
fn permission_is_decided_by_the_caller_that_calls() {
    let file = "callers: [{groups: [ops], tools: {gh/*: {}}}]";
    let theirs = policy(file, &user("o@x", &["ops"]));
    let call = || Call::new(ToolName::new("x_gh_get_issue"), raw(&json!({})), Checking::Strict);
    theirs.permit(&catalog(), &user("o@x", &["ops"]), call()).unwrap();
    let other = theirs.permit(&catalog(), &user("e@x", &[]), call());
    assert!(matches!(other, Err(CallError::UnknownTool { .. })));
}

#[test]
fn mistakes_in_entries() {
    check(
        "callers: [{tools: {a: {}}}, {user: [a], anonymous: true}, {users: ['[']}]",
        expect![[r#"
            1: callers → 0: the entry names no callers, so it has no effect
            1: callers → 2 → users → 0: `[` is not a pattern
        "#]],
    );
}
