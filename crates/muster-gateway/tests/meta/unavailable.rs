//! Servers that are down: named in every list and search, with the tools they had.

use std::{collections::BTreeMap, sync::Arc};

use muster_core::{
    call::Caller,
    catalog::{BackendInfo, CatalogSource, Offer, ToolAudience, ToolEntry, family::ServerFamily},
    effect::Effect,
    name::BackendName,
    policy::{DefaultAccess, Policy, Rule},
    token_estimate,
};
use muster_gateway::{
    absent::Absent, condition::ServerCondition, surface::discovery::DiscoverySurface,
};
use serde_json::{Value, json};

use crate::gateway::{Gateway, plain, tool};

const START: &str = r#"{"type":"object","properties":{"name":{"type":"string"}}}"#;
const QUERY: &str = r#"{"name":"query","description":"Run a query on the database","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}"#;
const DROP: &str =
    r#"{"name":"drop","description":"Drop a table","inputSchema":{"type":"object"}}"#;
const READ: &str = r#"{"name":"read","description":"Read a file","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}"#;

/// A source with these tools.
fn source(server: &str, definitions: &[&str]) -> CatalogSource {
    let about = BackendInfo {
        title: Arc::from(server),
        description: Arc::from(""),
        category: None,
        tags: Arc::from([]),
    };
    let tools = definitions.iter().map(|definition| tool(server, definition)).collect();
    CatalogSource::new(BackendName::new(server), about, Offer { tools, ..Offer::default() })
}

fn absent(server: &str, condition: ServerCondition) -> Absent {
    Absent::new(BackendName::new(server), condition)
}

/// `files` is up; `sqlite` is lost.
fn gateway() -> Gateway {
    starting(ToolAudience::Callers)
}

/// The same; these callers may start servers.
fn starting(audience: ToolAudience) -> Gateway {
    let core = vec![ToolEntry {
        audience,
        ..plain("core", "core_service_start", "Start a service", START)
    }];
    let gateway = Gateway::new().with_tools("core", core, "{}").with_tools(
        "files",
        vec![tool("files", READ)],
        "{}",
    );
    let lost = Absent {
        error: Some("exit status 1:\ndatabase is locked".to_owned()),
        next_retry: Some("2026-01-01T00:00:09Z".to_owned()),
        last: Some(Arc::new(source("sqlite", &[QUERY, DROP]))),
        ..absent("sqlite", ServerCondition::Failed)
    };
    gateway.change(|state| {
        state.catalog = state.catalog.with(source("sqlite", &[]));
        state.absent = Arc::new([("x_sqlite_".to_owned(), lost)].into());
    });
    gateway
}

fn names(page: &Value) -> Vec<&str> {
    let tools = page["tools"].as_array().unwrap().iter();
    tools.map(|tool| tool["name"].as_str().unwrap()).collect()
}

#[test]
fn lists_and_searches_name_the_server_and_its_tools() {
    let gateway = gateway();
    let down = json!([{
        "server": "sqlite",
        "state": "failed",
        "reason": "exit status 1: database is locked",
        "hint": "it is tried again at 2026-01-01T00:00:09Z; to try now: core_service_start {\"name\": \"sqlite\"}",
    }]);
    let listed = gateway.json("list_tools", "{}");
    assert_eq!(listed["unavailable"], down);
    assert_eq!(
        names(&listed),
        ["x_files_read", "x_sqlite_drop", "x_sqlite_query", "core_service_start"]
    );
    assert_eq!(listed["tools"][0]["unavailable"], Value::Null);
    assert_eq!(listed["tools"][1]["unavailable"], "failed: exit status 1: database is locked");

    let found = gateway.json("filter_tools", r#"{"query":"query a database"}"#);
    assert_eq!(found["unavailable"], down);
    assert_eq!(found["tools"][0]["name"], "x_sqlite_query");
    assert_eq!(found["tools"][0]["unavailable"], "failed: exit status 1: database is locked");
    let by_server = gateway.json("filter_tools", r#"{"server":"sqlite"}"#);
    assert_eq!(names(&by_server), ["x_sqlite_drop", "x_sqlite_query"]);

    let nothing = gateway.json("filter_tools", r#"{"query":"order a pizza"}"#);
    let note = nothing["note"].as_str().unwrap();
    assert!(note.ends_with("; a server that is unavailable may have it"), "{note}");

    let described = gateway.json("describe_tool", r#"{"name":"x_sqlite_query"}"#);
    assert_eq!(described["unavailable"], "failed: exit status 1: database is locked");
    let several = gateway.json("describe_tool", r#"{"names":["x_sqlite_query","x_nope"]}"#);
    assert_eq!(several["not_found"], json!(["x_nope"]));
    assert_eq!(several["unavailable"], down);
}

#[test]
fn a_product_of_an_unavailable_server_is_not_called_absent() {
    let gateway = gateway();
    gateway.change(|state| {
        let mut absent = BTreeMap::clone(&state.absent);
        for server in ["jira-cloud", "microsoft_teams"] {
            let start = format!("x_{server}_");
            absent.insert(start, self::absent(server, ServerCondition::AuthRequired));
        }
        state.absent = Arc::new(absent);
    });
    let found = |query: &str| {
        let found = gateway.json("filter_tools", &json!({"query": query}).to_string());
        let tools = found["tools"].as_array().unwrap().len();
        let [verdict, note] =
            ["verdict", "note"].map(|key| found[key].as_str().unwrap().to_owned());
        (verdict, found["absent_products"].clone(), note, tools)
    };
    for (query, verdict, absent, note, tools) in [
        (
            "drop an issue in Jira",
            "unsure",
            Value::Null,
            "`jira-cloud` may have it, but is unavailable; no tool clearly matches; the nearest are listed",
            1,
        ),
        (
            "send invitations in Microsoft Teams",
            "unsure",
            Value::Null,
            "`microsoft_teams` may have it, but is unavailable; nothing matches; try fewer",
            0,
        ),
        (
            "drop an issue in Jira and a page in Notion",
            "unsure",
            json!(["Notion"]),
            "`jira-cloud` may have it, but is unavailable; nothing here is Notion; no tool mentions",
            1,
        ),
        (
            "drop a page in Notion",
            "no_such_tool",
            json!(["Notion"]),
            "nothing here is Notion; no tool mentions",
            1,
        ),
    ] {
        let found = found(query);
        assert_eq!((&*found.0, &found.1, found.3), (verdict, &absent, tools), "{query}");
        assert!(found.2.starts_with(note), "{query}: {}", found.2);
    }
}

#[test]
fn climax_search_has_the_tools_of_a_lost_server() {
    let gateway = gateway();
    let search = |arguments: &str| -> Value {
        let surface = DiscoverySurface::default();
        serde_json::from_str(&gateway.text_of(&surface, "climax_search", arguments)).unwrap()
    };
    for arguments in [r#"{"query":"database"}"#, r#"{"query":"database","max_tokens":500}"#] {
        let found = search(arguments);
        assert_eq!(found["results"][0]["tool_name"], "x_sqlite_query", "{found}");
        let why = "failed: exit status 1: database is locked";
        assert_eq!(found["results"][0]["unavailable"], why);
    }
    let up = search(r#"{"query":"read a file"}"#);
    assert_eq!(up["results"][0]["tool_name"], "x_files_read");
    assert_eq!(up["results"][0].get("unavailable"), None);
}

#[test]
fn a_tool_of_a_server_that_starts_is_not_called_unknown() {
    let gateway = gateway();
    gateway.change(|state| {
        let slow = absent("slow", ServerCondition::Starting);
        state.absent = Arc::new([("x_slow_".to_owned(), slow)].into());
    });
    let said = gateway.text("describe_tool", r#"{"name":"x_slow_query"}"#);
    assert!(said.starts_with("!server not connected: slow (status: starting)\n"), "{said}");
    assert!(said.contains("it is still starting"), "{said}");
}

#[test]
fn a_call_says_why_and_what_to_do() {
    let gateway = gateway();
    let why = "server not connected: sqlite (status: failed)\nreason: exit status 1: database is locked\nhint: it \
               is tried again at 2026-01-01T00:00:09Z; to try now: core_service_start {\"name\": \"sqlite\"}";
    assert_eq!(
        gateway.inner(r#"{"name":"x_sqlite_query","arguments":{}}"#),
        format!("!Tool execution failed: {why}")
    );
    assert_eq!(
        gateway.text("describe_tool", r#"{"name":"x_sqlite_other"}"#),
        format!("!Tool not found: x_sqlite_other\n{why}")
    );
    let other = gateway.inner(r#"{"name":"order_pizza","arguments":{}}"#);
    assert!(other.ends_with("\nhint: these servers are unavailable: sqlite"), "{other}");
    assert!(gateway.heard().is_empty());
}

#[test]
fn a_server_without_a_listing_is_named_too() {
    let gateway = gateway();
    gateway.change(|state| {
        let all = [
            ("x_hub_".to_owned(), absent("hub", ServerCondition::AuthRequired)),
            ("x_old_".to_owned(), absent("old", ServerCondition::Stopped)),
        ];
        state.absent = Arc::new(all.into());
    });
    let listed = gateway.json("list_tools", "{}");
    assert_eq!(
        listed["unavailable"],
        json!([
            {"server": "hub", "state": "auth_required", "hint": "log in with core_auth_login {\"server\": \"hub\"}"},
            {"server": "old", "state": "stopped", "hint": "to start it: core_service_start {\"name\": \"old\"}"},
        ])
    );
    let stopped = gateway.inner(r#"{"name":"x_old_thing","arguments":{}}"#);
    assert!(
        stopped.starts_with("!Tool execution failed: tool not found: x_old_thing"),
        "{stopped}"
    );
}

#[test]
fn a_policy_hides_lost_tools_and_servers() {
    let rule = Rule::default;
    let only = |rules: &[&str]| Policy {
        default: DefaultAccess::Disabled,
        rules: rules.iter().map(|key| ((*key).to_owned(), rule())).collect(),
        ..Policy::default()
    };
    let files = gateway().with_policy(only(&["files/read"]));
    for (tool, arguments) in [
        ("list_tools", "{}"),
        ("filter_tools", r#"{"query":"query the database"}"#),
        ("describe_tool", r#"{"name":"x_nope"}"#),
        ("call_tool", r#"{"name":"x_nope","arguments":{}}"#),
    ] {
        let said = files.text(tool, arguments);
        assert!(!said.contains("sqlite"), "{tool}: {said}");
    }
    let query =
        starting(ToolAudience::Operators).with_policy(only(&["files/read", "sqlite/query"]));
    assert_eq!(names(&query.json("list_tools", "{}")), ["x_files_read", "x_sqlite_query"]);
    let said = query.text("call_tool", r#"{"name":"x_sqlite_query","arguments":{}}"#);
    assert!(said.contains("an operator runs `muster start service sqlite`"), "{said}");
    let reading =
        gateway().with_policy(Policy { max_effect: Some(Effect::Read), ..Policy::default() });
    assert!(!reading.text("list_tools", "{}").contains("x_sqlite_drop"));
}

#[test]
fn a_toolset_hides_lost_servers() {
    let gateway = gateway();
    let caller = Caller { toolset: Some("unknown".into()), ..Caller::local() };
    let state = gateway.dispatcher.snapshot(&caller);
    assert!(state.absent.is_empty());
}

#[test]
fn many_servers_stay_within_the_budget() {
    let gateway = gateway();
    gateway.change(|state| {
        let many = (0..40).map(|n| {
            let error = Some("cannot connect ".repeat(40));
            let server = format!("server-number-{n:02}");
            (format!("x_{server}_"), Absent { error, ..absent(&server, ServerCondition::Failed) })
        });
        state.absent = Arc::new(many.collect());
    });
    for (tool, arguments) in
        [("filter_tools", json!({"query": "read a file"})), ("list_tools", json!({}))]
    {
        for max_tokens in [300, 500, 1_200, 3_000] {
            let mut arguments = arguments.clone();
            arguments["max_tokens"] = json!(max_tokens);
            let text = gateway.text(tool, &arguments.to_string());
            assert!(token_estimate::estimate(&text) <= max_tokens, "{text}");
            let reply: Value = serde_json::from_str(&text).unwrap();
            assert_eq!(names(&reply)[0], "x_files_read", "{text}");
            assert_eq!(reply["unavailable_total"], 40);
        }
    }
}

#[test]
fn servers_that_require_a_login_are_listed_with_the_tool_for_it() {
    let login = plain("core", "core_auth_login", "Log in", START);
    let gateway = gateway().with_tools("logins", vec![login], "{}");
    gateway.change(|state| {
        let hub = absent("hub", ServerCondition::AuthRequired);
        let uses_sso = true;
        let sso = Absent { uses_sso, ..absent("sso", ServerCondition::AuthRequired) };
        state.absent = Arc::new([("x_hub_".to_owned(), hub), ("x_sso_".to_owned(), sso)].into());
    });
    let listed = gateway.json("list_tools", "{}");
    let hub = json!({"name": "hub", "status": "auth_required", "auth_tool": "core_auth_login"});
    assert_eq!(listed["servers_requiring_auth"], json!([hub]));
    // A login at the server itself does not help where single sign-on is used.
    let others = listed["unavailable"].as_array().unwrap();
    assert_eq!(others.iter().map(|other| &other["server"]).collect::<Vec<_>>(), ["sso"]);
}

#[test]
fn members_of_a_family_that_are_absent_say_what_to_do() {
    let login = plain("core", "core_auth_login", "Log in", START);
    let start = plain("core", "core_service_start", "Start a service", START);
    let gateway = Gateway::new().with_tools("core", vec![login, start], "{}");
    let member = |server: &str| {
        let family = ServerFamily {
            name: "store".to_owned(),
            instance_arg: "place".to_owned(),
            prefix: "x".to_owned(),
        };
        source(server, &[READ]).in_family(family)
    };
    let family_prefix = Some("x_store_".to_owned());
    let vault = Absent { family_prefix, ..absent("vault", ServerCondition::AuthRequired) };
    gateway.change(|state| {
        state.absent = Arc::new([("x_vault_".to_owned(), vault.clone())].into());
    });
    let login = r#"hint: log in with core_auth_login {"server": "vault"}"#;
    let call = r#"{"name":"x_store_read","arguments":{"place":"vault"}}"#;
    let alone = gateway.text("call_tool", call);
    assert!(alone.contains("tool not found: x_store_read"), "{alone}");
    assert!(alone.contains(&login.replace('"', r#"\""#)), "{alone}");
    gateway.change(|state| state.catalog = state.catalog.with(member("shelf")));
    let beside = gateway.text("call_tool", call);
    for expect in [
        r#"tool x_store_read is not available on server \"vault\" (available: shelf)"#,
        "failed to connect to server vault: user not authenticated to server vault",
        &login.replace('"', r#"\""#),
    ] {
        assert!(beside.contains(expect), "{expect}: {beside}");
    }
}
