//! The meta-tools about tools: shapes, order, texts.

use std::collections::BTreeSet;

use muster_core::{
    call::{Caller, Outcome, Role},
    catalog::ToolEntry,
    client::NoClient,
    effect::Effect,
    name::{BackendName, ToolName},
    policy::{DefaultAccess as ByDefault, Policy, Rule},
};
use muster_gateway::{dispatch::GatewaySnapshot, surface::Surface as _};
use serde_json::{Value, json};

use crate::gateway::{Gateway, plain, tool, tool_call};

const CORE_SCHEMA: &str = r#"{"type":"object","properties":{"name":{"type":"string"}}}"#;
const READ: &str = r#"{"name":"read","title":"Read","description":"Read a file.\nAll of it.","inputSchema":{"type":"object","properties":{"path":{"type":"string"}},"required":["path"]},"outputSchema":{"type":"object"},"annotations":{"readOnlyHint":true},"vendor":12345678901234567890}"#;
const WRITE: &str =
    r#"{"name":"write","description":"Write a file","inputSchema":{"type":"object"}}"#;
const ISSUE: &str =
    r#"{"name":"create_issue","description":"Create an issue","inputSchema":{"type":"object"}}"#;

fn gateway() -> Gateway {
    let core = vec![
        plain("core", "core_service_list", "List services\nwith their states", CORE_SCHEMA),
        plain("core", "core_config_get", "Show the configuration", CORE_SCHEMA),
    ];
    Gateway::new()
        .with_tools("hub", vec![tool("hub", ISSUE)], "{}")
        .with_tools("core", core, "{}")
        .with_tools("files", vec![tool("files", WRITE), tool("files", READ)], "{}")
}

#[test]
fn native_tools_are_the_meta_tools() {
    let gateway = gateway();
    let names: Vec<String> = gateway
        .meta
        .tools(&GatewaySnapshot::default())
        .iter()
        .map(|tool| {
            serde_json::from_str::<Value>(tool.get()).unwrap()["name"].as_str().unwrap().to_owned()
        })
        .collect();
    assert_eq!(
        names,
        [
            "list_tools",
            "describe_tool",
            "list_core_tools",
            "filter_tools",
            "call_tool",
            "call_tools",
            "run_steps",
            "list_resources",
            "describe_resource",
            "get_resource",
            "list_prompts",
            "describe_prompt",
            "get_prompt",
            "get_output"
        ]
    );
    assert!(!gateway.meta.lists_catalog(&GatewaySnapshot::default()));
}

#[test]
fn other_names_are_not_tools() {
    let fault = |name| gateway().send(tool_call(name, "{}")).unwrap_err().to_string();
    assert_eq!(fault("nope"), "tool 'nope' not found: tool not found");
    assert_eq!(
        fault("x_files_read"),
        "tool 'x_files_read' not found: tool not found; call it with `call_tool`"
    );
}

#[track_caller]
fn check(tool: &str, arguments: &str, expect: &str) {
    assert_eq!(gateway().text(tool, arguments), expect, "{tool} {arguments}");
}

#[test]
fn list_tools() {
    check(
        "list_tools",
        "{}",
        r#"{"tools":[{"name":"x_files_read","description":"Read a file.","args":"path","effect":"read"},{"name":"x_files_write","description":"Write a file","effect":"write"},{"name":"x_hub_create_issue","description":"Create an issue","effect":"write"},{"name":"core_config_get","description":"Show the configuration","args":"name?","effect":"read"},{"name":"core_service_list","description":"List services","args":"name?","effect":"read"}],"total":5,"truncated":false}"#,
    );
    check(
        "list_tools",
        r#"{"limit":1,"offset":"1"}"#,
        r#"{"tools":[{"name":"x_files_write","description":"Write a file","effect":"write"}],"total":5,"truncated":true,"next_offset":2,"note":"1 of 5 tools; for the next ones pass offset=2, or find one with filter_tools"}"#,
    );
    check("list_tools", r#"{"offset":9}"#, r#"{"tools":[],"total":5,"truncated":false}"#);
    check("list_tools", r#"{"limit":0}"#, "!limit must be at least 1");
    check("list_tools", r#"{"limit":"many"}"#, "!limit must be a number");
    check("list_tools", r#"{"limit":[5]}"#, "!limit must be a number");
    check("list_tools", r#"{"offset":-1}"#, "!offset must be at least 0");
    check("list_tools", r#"{"offset":true}"#, "!offset must be a number");
    let empty = Gateway::new().text("list_tools", "{}");
    assert_eq!(empty, r#"{"tools":[],"total":0,"truncated":false}"#);
}

#[test]
fn describe_tool() {
    check(
        "describe_tool",
        r#"{"name":"core_config_get"}"#,
        r#"{"name":"core_config_get","description":"Show the configuration","inputSchema":{"type":"object","properties":{"name":{"type":"string"}}},"effect":"read"}"#,
    );
    let read = READ.replace(r#""name":"read""#, r#""name":"x_files_read""#);
    let read = read.replace("12345678901234567890}", r#"12345678901234567890,"effect":"read"}"#);
    check("describe_tool", r#"{"name":"x_files_read"}"#, &read);
    check("describe_tool", r#"{"tool_name":"x_files_read"}"#, &read);
    check("describe_tool", "{}", "!name argument is required");
    check("describe_tool", r#"{"name":""}"#, "!name argument is required");
    check("describe_tool", r#"{"name":5}"#, "!name argument is required");
    check(
        "describe_tool",
        r#"{"name":"x_files_raed"}"#,
        "!Tool not found: x_files_raed\nhint: nearest names: x_files_read",
    );
    check(
        "describe_tool",
        r#"{"name":"weather"}"#,
        "!Tool not found: weather\nhint: find its name with filter_tools",
    );
    check(
        "describe_tool",
        r#"{"name":"call_tool"}"#,
        "!Tool not found: call_tool\nhint: `call_tool` is not behind call_tool: call it directly",
    );
}

#[test]
fn list_core_tools() {
    check(
        "list_core_tools",
        "{}",
        r#"{"total_tools":5,"total":2,"filtered_count":2,"truncated":false,"tools":[{"name":"core_config_get","summary":"Show the configuration","args":"name?","effect":"read"},{"name":"core_service_list","summary":"List services","args":"name?","effect":"read"}],"note":"for full descriptions and the inputSchema of each pass include_schema=true"}"#,
    );
    check(
        "list_core_tools",
        r#"{"include_schema":true}"#,
        &format!(
            r#"{{"total_tools":5,"total":2,"filtered_count":2,"truncated":false,"tools":[{{"name":"core_config_get","description":"Show the configuration","inputSchema":{CORE_SCHEMA},"server":"core","effect":"read"}},{{"name":"core_service_list","description":"List services\nwith their states","inputSchema":{CORE_SCHEMA},"server":"core","effect":"read"}}]}}"#
        ),
    );
    check(
        "list_core_tools",
        r#"{"include_schema":false,"offset":1}"#,
        r#"{"total_tools":5,"total":2,"filtered_count":1,"truncated":false,"tools":[{"name":"core_service_list","description":"List services\nwith their states","effect":"read"}]}"#,
    );
}

#[test]
fn filter_tools_by_pattern() {
    check(
        "filter_tools",
        r#"{"pattern":"X_*_W*"}"#,
        r#"{"total_tools":5,"total":1,"filtered_count":1,"truncated":false,"tools":[{"name":"x_files_write","summary":"Write a file","effect":"write"}]}"#,
    );
    let names = |arguments: &str| -> String {
        let found = gateway().json("filter_tools", arguments);
        let names = found["tools"].as_array().unwrap().iter();
        names.map(|tool| tool["name"].as_str().unwrap()).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(names(r#"{"pattern":"x_*"}"#), "x_files_read x_files_write x_hub_create_issue");
    assert_eq!(names(r#"{"pattern":"X_*","case_sensitive":true}"#), "");
    assert_eq!(names(r#"{"description_filter":"A FILE"}"#), "x_files_read x_files_write");
    assert_eq!(names(r#"{"description_filter":"A FILE","case_sensitive":true}"#), "");
    assert_eq!(names(r#"{"description_filter":"all of it"}"#), "x_files_read");
    assert_eq!(names(r#"{"pattern":"*read","description_filter":"write"}"#), "");
    assert_eq!(
        names(r#"{"pattern":"*","limit":2,"offset":1}"#),
        "x_files_write x_hub_create_issue"
    );
    assert_eq!(names("{}").split(' ').count(), 5);
    check(
        "filter_tools",
        r#"{"pattern":"[a"}"#,
        r#"!Invalid pattern "[a": syntax error in pattern"#,
    );
    check("filter_tools", r#"{"limit":0}"#, "!limit must be at least 1");
    assert_eq!(Gateway::new().text("filter_tools", "{}"), "No tools available to filter");
}

#[test]
fn filter_tools_says_what_to_do_next() {
    let note = |arguments: &str| gateway().json("filter_tools", arguments)["note"].clone();
    assert_eq!(
        note(r#"{"pattern":"*","limit":2}"#),
        "2 of 5 matches; for the next ones pass offset=2"
    );
    assert_eq!(
        note(r#"{"pattern":"issue"}"#),
        "nothing matches; a pattern has to fit the whole name; try *issue*"
    );
    assert_eq!(
        note(r#"{"query":"weather"}"#),
        "nothing matches; try fewer or other words, or see list_tools"
    );
}

#[test]
fn filter_tools_by_query() {
    let found = gateway().json("filter_tools", r#"{"query":"read a file","include_schema":true}"#);
    assert_eq!((&found["verdict"], &found["note"]), (&json!("found"), &Value::Null));
    let first = &found["tools"][0];
    assert_eq!(first["name"], "x_files_read");
    assert_eq!(first["description"], "Read a file.\nAll of it.");
    assert_eq!(first["inputSchema"]["required"], json!(["path"]));
    let words: Vec<&Value> =
        found["tools"].as_array().unwrap().iter().map(|t| &t["match"]).collect();
    assert_eq!(words, ["strong", "weak"]);
    assert!(first["score"].as_f64().unwrap() > found["tools"][1]["score"].as_f64().unwrap());
    let both = gateway().json("filter_tools", r#"{"query":"file","pattern":"*write"}"#);
    assert_eq!(
        (both["total"].as_u64(), &both["tools"][0]["name"]),
        (Some(1), &json!("x_files_write"))
    );
}

#[test]
fn doubt_is_said_in_words() {
    // Among very few tools, a word that none of them has outweighs all others.
    let sheep = (0..20).map(|n| plain("farm", &format!("sheep_{n}"), "Counts sheep", CORE_SCHEMA));
    let gateway = gateway().with_tools("farm", sheep.collect(), "{}");
    let found = |query: &str| {
        let found = gateway.json("filter_tools", &json!({"query": query}).to_string());
        let terms = found["unmatched_terms"].as_array().cloned().unwrap_or_default();
        let terms: Vec<&str> = terms.iter().filter_map(Value::as_str).collect();
        let note = found["note"].as_str().unwrap_or_default();
        let said = found["tools"][0]["match"].as_str().unwrap_or_default();
        format!("{} {said} {terms:?} {note}", found["verdict"].as_str().unwrap())
    };
    assert_eq!(found("write a file"), r#"found strong [] "#);
    assert_eq!(
        found("write an email"),
        r#"unsure weak ["email"] no tool clearly matches; the nearest are listed; no tool mentions `email`"#
    );
    assert_eq!(
        found("create a calendar issue"),
        r#"found possible ["calendar"] no tool mentions `calendar`"#
    );
    assert_eq!(
        found("order pizza"),
        r#"no_such_tool  ["order", "pizza"] nothing matches; try fewer or other words, or see list_tools"#
    );
    let page = gateway.json("filter_tools", r#"{"query":"read a file", "limit": 1}"#);
    assert_eq!(page["note"], "1 of 2 ranked tools; for the next ones pass offset=1");
}

#[test]
fn core_tools_are_found_only_where_they_are_asked_for() {
    let core =
        vec![plain("core", "core_service_list", "List services with their states", CORE_SCHEMA)];
    let list = r#"{"name":"overview","description":"List services of the cluster","inputSchema":{"type":"object"}}"#;
    let gateway = Gateway::new().with_tools("core", core, "{}").with_tools(
        "kube",
        vec![tool("kube", list)],
        "{}",
    );
    let first = |query: &str| {
        let found = gateway.json("filter_tools", &json!({"query": query}).to_string());
        found["tools"][0]["name"].as_str().unwrap().to_owned()
    };
    assert_eq!(first("list services"), "x_kube_overview");
    assert_eq!(first("core_service_list"), "core_service_list", "it is named");
    for (query, total) in
        [("core services", 2), ("services of muster", 2), ("services of the gateway", 1)]
    {
        let asked = gateway.json("filter_tools", &json!({"query": query}).to_string());
        assert_eq!(asked["total"], total, "{query}: {asked}");
    }
    // By itself, `core` is a word like others.
    for query in ["core vitals of services", "the core of the services", "services at the core"] {
        let asked = gateway.json("filter_tools", &json!({"query": query}).to_string());
        assert_eq!(asked["total"], 1, "{query}: {asked}");
    }
    for query in ["core", "core tools", "the core service list"] {
        let asked = gateway.json("filter_tools", &json!({"query": query}).to_string());
        assert!(asked.to_string().contains("core_service_list"), "{query}: {asked}");
    }
    let operator = Caller { role: Role::Operator, ..Caller::local() };
    let call = tool_call("filter_tools", r#"{"query":"list services"}"#);
    let reply = gateway.send_as(&operator, &NoClient::shared(), call);
    let Ok(Outcome::Text { text, .. }) = reply else { panic!("{reply:?}") };
    assert!(text.contains(r#""total":2"#), "{text}");
    // Not even where nothing else is found.
    let found = gateway.json("filter_tools", r#"{"query":"states"}"#);
    assert_eq!(found["total"], 0, "{found}");
    let found = gateway.json("filter_tools", r#"{"query":"states of services"}"#);
    assert_eq!(found["total"], 1, "{found}");
    assert_eq!(first("states of services"), "x_kube_overview");
}

#[test]
fn operators_find_core_tools_among_many_others_if_they_are_meant() {
    let plain = |name, about| plain("core", name, about, CORE_SCHEMA);
    let core = vec![
        plain("core_token_revoke", "Revoke a static token"),
        plain("core_events", "Show what happened in the gateway: servers started, failed, lost"),
    ];
    let many = (0..60).map(|n| {
        let counter = format!(
            r#"{{"name":"count_{n}","description":"Counts each token of a text","inputSchema":{{"type":"object"}}}}"#
        );
        tool("texts", &counter)
    });
    let gateway =
        Gateway::new().with_tools("core", core, "{}").with_tools("texts", many.collect(), "{}");
    let operator = Caller { role: Role::Operator, ..Caller::local() };
    let found = |query: &str, offset: usize| {
        let arguments = json!({"query": query, "offset": offset, "limit": 5}).to_string();
        let call = tool_call("filter_tools", &arguments);
        let reply = gateway.send_as(&operator, &NoClient::shared(), call);
        let Ok(Outcome::Text { text, .. }) = reply else { panic!("{reply:?}") };
        serde_json::from_str::<Value>(&text).unwrap()
    };
    let revoke = found("revoke a static token", 0);
    assert_eq!((&revoke["verdict"], &revoke["total"]), (&json!("found"), &json!(61)));
    let first = &revoke["tools"][0];
    assert_eq!((&first["name"], &first["match"]), (&json!("core_token_revoke"), &json!("strong")));
    // Each is on one page.
    let pages = (0..61).step_by(5).flat_map(|offset| {
        let page = found("revoke a static token", offset);
        page["tools"]
            .as_array()
            .unwrap()
            .iter()
            .map(|tool| tool["name"].to_string())
            .collect::<Vec<_>>()
    });
    assert_eq!(pages.collect::<BTreeSet<_>>().len(), 61);
    // The rest of the query is about something else, or names the server.
    let happened = found("show what happened in the kitchen", 0);
    assert_eq!(happened["verdict"], "no_such_tool", "{happened}");
    assert_eq!(
        (&happened["tools"][0]["name"], &happened["tools"][0]["match"]),
        (&json!("core_events"), &json!("weak"))
    );
    let happened = found("show what happened to texts", 0);
    assert_eq!(
        (&happened["verdict"], &happened["tools"][0]["match"]),
        (&json!("found"), &json!("strong")),
        "{happened}"
    );
    // It shares a word with the query, and is nothing that may be meant.
    let film = found("show a film about penguins in the cinema", 0);
    assert_eq!((&film["verdict"], &film["total"]), (&json!("no_such_tool"), &json!(0)));
}

/// The words of core tools, and related words, are in questions about other things.
#[test]
fn core_tools_are_weak_matches_unless_a_question_is_about_the_gateway() {
    let plain = |name, about| plain("core", name, about, CORE_SCHEMA);
    let core = vec![
        plain("core_events", "Show what happened in the gateway: servers started, failed, lost"),
        plain("core_mcpserver_delete", "Delete an MCP server: its file is deleted"),
        plain("core_service_restart", "Stop a service and start it again"),
        plain("core_session_end", "Log a user or a browser out"),
        plain("core_workflow_create", "Save a task as a workflow: steps that call tools"),
        plain("core_calls_get", "Show one call of the past"),
        plain("core_token_list", "List the static tokens of clients"),
        plain("core_policy_get", "Show the policy, and the last events about it"),
    ];
    let others = [("graph", "Reads a graph"), ("core", "Cores an apple")].map(|(name, about)| {
        let schema = json!({"type": "object"});
        let definition = json!({"name": name, "description": about, "inputSchema": schema});
        tool("home", &definition.to_string())
    });
    let gateway =
        Gateway::new().with_tools("core", core, "{}").with_tools("home", others.into(), "{}");
    let operator = Caller { role: Role::Operator, ..Caller::local() };
    let found = |query: &str| -> Vec<(String, String)> {
        let call = tool_call("filter_tools", &json!({"query": query, "limit": 20}).to_string());
        let reply = gateway.send_as(&operator, &NoClient::shared(), call);
        let Ok(Outcome::Text { text, .. }) = reply else { panic!("{reply:?}") };
        let reply: Value = serde_json::from_str(&text).unwrap();
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let tools = reply["tools"].as_array().unwrap().iter();
        tools.map(|tool| (text(&tool["name"]), text(&tool["match"]))).collect()
    };
    for query in [
        "create a calendar event",
        "schedule a meeting",
        "delete a file",
        "delete a user",
        "call mom",
        "restart the washing machine",
        "book a service appointment",
        "count the tokens of a text",
    ] {
        let core = found(query).into_iter().filter(|(name, _)| name.starts_with("core_"));
        let strong: Vec<_> = core.filter(|(_, strength)| strength != "weak").collect();
        assert!(strong.is_empty(), "{query}: {strong:?}");
    }
    for (query, name, strength) in [
        ("list events", "core_events", "possible"),
        ("restart a service", "core_service_restart", "strong"),
        ("show what happened in the gateway", "core_events", "strong"),
        ("delete an mcp server", "core_mcpserver_delete", "strong"),
        ("tokens", "core_token_list", "strong"),
        ("core_events", "core_events", "strong"),
        ("core_session_end", "core_session_end", "strong"),
    ] {
        let found = found(query);
        let first = found.first().map(|(name, strength)| (name.as_str(), strength.as_str()));
        assert_eq!(first, Some((name, strength)), "{query}: {found:?}");
    }
}

#[test]
fn the_parts_of_a_name_are_no_unmatched_words() {
    let found = gateway().json("filter_tools", r#"{"query":"x_hub_create_issue"}"#);
    assert_eq!(found["tools"][0]["name"], "x_hub_create_issue");
    assert_eq!((&found["verdict"], &found["unmatched_terms"]), (&json!("found"), &Value::Null));
    assert_eq!(found["note"], Value::Null);
}

#[test]
fn the_nearest_tools_are_weak_matches_where_no_tool_matches() {
    let found = gateway().json("filter_tools", r#"{"query":"create an issue in Jira"}"#);
    assert_eq!(found["verdict"], "no_such_tool");
    for tool in found["tools"].as_array().unwrap() {
        assert_eq!(tool["match"], "weak", "{tool}");
    }
}

#[test]
fn a_product_that_is_not_here_is_named() {
    let found = gateway().json("filter_tools", r#"{"query":"create an issue in Jira"}"#);
    assert_eq!(found["verdict"], "no_such_tool");
    assert_eq!(found["absent_products"], json!(["Jira"]));
    assert_eq!(found["tools"][0]["name"], "x_hub_create_issue", "the nearest are listed");
    assert_eq!(found["note"], "nothing here is Jira; the nearest is hub; no tool mentions `jira`");
}

#[test]
fn the_nearest_to_an_absent_product_is_named_only_if_it_does_what_is_asked_for() {
    let found = gateway().json("filter_tools", r#"{"query":"plan a sprint in Jira"}"#);
    assert_eq!(
        (&found["absent_products"], &found["nearest_servers"]),
        (&json!(["Jira"]), &Value::Null)
    );
    let note = found["note"].as_str().unwrap();
    assert!(note.starts_with("nothing here is Jira; no tool mentions"), "{note}");
}

#[test]
fn a_search_with_filters_says_nothing_about_the_others() {
    let note = |arguments: &Value| {
        let found = gateway().json("filter_tools", &arguments.to_string());
        found["note"].as_str().unwrap().to_owned()
    };
    for filter in [json!({"server": "hub"}), json!({"pattern": "x_hub_*"})] {
        let mut asked = json!({"query": "read an issue in Jira"});
        asked.as_object_mut().unwrap().extend(filter.as_object().unwrap().clone());
        assert_eq!(
            note(&asked),
            "nothing that passes the filters is Jira; \
             no tool that passes the filters mentions `read`, `jira`"
        );
    }
    assert_eq!(
        note(&json!({"query": "write an issue", "server": "files"})),
        "no tool that passes the filters mentions `issue`"
    );
}

#[test]
fn a_search_at_a_server_that_is_not_here_says_so() {
    let note = |arguments: Value| {
        let found = gateway().json("filter_tools", &arguments.to_string());
        found["note"].as_str().map(ToOwned::to_owned)
    };
    for (server, expect) in [
        ("HUB", None),
        ("file", Some("there is no server `file`; did you mean `files`?")),
        ("jira", Some("there is no server `jira`; there are `core`, `files`, `hub`")),
    ] {
        for arguments in [json!({"server": server}), json!({"server": server, "query": "issue"})] {
            assert_eq!(note(arguments).as_deref(), expect, "{server}");
        }
    }
}

#[test]
fn a_page_behind_the_last_tool_says_so() {
    for arguments in [json!({"offset": 5}), json!({"offset": 2, "query": "read a file"})] {
        let found = gateway().json("filter_tools", &arguments.to_string());
        let total = found["total"].as_u64().unwrap();
        let note = found["note"].as_str().unwrap();
        let what = if arguments.get("query").is_some() { "ranked tools" } else { "matches" };
        assert_eq!(note, format!("there are {total} {what}; pass a smaller offset"));
    }
}

#[test]
fn texts_that_are_too_long_are_refused() {
    let long = "a ".repeat(10_000);
    for key in ["query", "pattern", "description_filter"] {
        assert_eq!(
            gateway().text("filter_tools", &json!({key: long}).to_string()),
            format!("!{key} must have at most 16384 bytes, not 20000")
        );
    }
}

#[test]
fn a_limit_beyond_the_budget_is_explained() {
    let many = (0..400).map(|n| {
        let definition = format!(r#"{{"name":"tool_{n}","description":"Does one of many things","inputSchema":{{"type":"object"}}}}"#);
        tool("many", &definition)
    });
    let gateway = Gateway::new().with_tools("many", many.collect(), "{}");
    let page = gateway.json("list_tools", r#"{"limit":400}"#);
    let shown = page["tools"].as_array().unwrap().len();
    assert!(shown < 400);
    assert_eq!(
        page["note"],
        format!(
            "{shown} of 400 tools (as many as max_tokens allows); for the next ones pass offset={shown}, or find one with filter_tools"
        )
    );
    assert!(
        gateway.json("list_tools", r#"{"limit":9}"#)["note"]
            .as_str()
            .unwrap()
            .starts_with("9 of 400 tools; ")
    );
}

#[test]
fn a_merged_name_is_accepted_as_it_is_documented() {
    let log = r#"{"name":"git_log","description":"Show the log","inputSchema":{"type":"object"}}"#;
    let log = ToolEntry { name: ToolName::new("x_git_log"), ..tool("git", log) };
    let gateway = Gateway::new().with_tools("git", vec![log], r#"{"content":[]}"#);
    let described = gateway.json("describe_tool", r#"{"name":"x_git_git_log"}"#);
    assert_eq!(described["name"], "x_git_log");
    gateway.text("call_tool", r#"{"name":"x_git_git_log","arguments":{}}"#);
    assert_eq!(gateway.heard(), ["git_log {}"]);
    assert_eq!(
        gateway.text("describe_tool", r#"{"name":"x_git_git_lgo"}"#),
        "!Tool not found: x_git_git_lgo\nhint: nearest names: x_git_log"
    );
}

#[test]
fn what_the_policy_hides_is_not_there() {
    let rule = Rule { description: Some("Only here".to_owned()), ..Rule::default() };
    let policy = Policy {
        default: ByDefault::Disabled,
        rules: [("files/read".to_owned(), rule)].into_iter().collect(),
        ..Policy::default()
    };
    let gateway = gateway().with_policy(policy);
    assert_eq!(
        gateway.text("list_tools", "{}"),
        r#"{"tools":[{"name":"x_files_read","description":"Only here","args":"path","effect":"read"}],"total":1,"truncated":false}"#
    );
    assert_eq!(
        gateway.json("describe_tool", r#"{"name":"x_files_read"}"#)["description"],
        "Only here"
    );
    assert!(
        gateway.text("describe_tool", r#"{"name":"x_files_write"}"#).starts_with("!Tool not found")
    );
    assert!(gateway.inner(r#"{"name":"x_files_write"}"#).contains("tool not found: x_files_write"));
}

#[test]
fn a_policy_goes_by_effect() {
    let rule = Rule { effect: Some(Effect::Read), ..Rule::default() };
    let policy = Policy {
        max_effect: Some(Effect::Read),
        rules: [("x_hub_create_issue".to_owned(), rule)].into_iter().collect(),
        ..Policy::default()
    };
    let gateway = gateway().with_policy(policy);
    let listed = gateway.json("list_tools", "{}");
    let tools: Vec<_> = listed["tools"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| (tool["name"].as_str().unwrap(), tool["effect"].as_str().unwrap()))
        .collect();
    assert_eq!(
        tools,
        [
            ("x_files_read", "read"),
            ("x_hub_create_issue", "read"),
            ("core_config_get", "read"),
            ("core_service_list", "read"),
        ]
    );
    assert_eq!(listed["total"], 4);
    assert!(
        gateway.text("describe_tool", r#"{"name":"x_files_write"}"#).starts_with("!Tool not found")
    );
    assert!(gateway.inner(r#"{"name":"x_files_write"}"#).contains("tool not found: x_files_write"));
    assert!(
        gateway
            .json("filter_tools", r#"{"query":"write a file"}"#)
            .to_string()
            .find("x_files_write")
            .is_none()
    );
    let found = gateway.json("filter_tools", r#"{"query":"create issue","effect":"read"}"#);
    assert_eq!(found["tools"][0]["name"], "x_hub_create_issue");
}

#[test]
fn the_order_does_not_depend_on_connections() {
    let names = |gateway: &Gateway| gateway.text("list_tools", "{}");
    let turned = Gateway::new()
        .with_tools("files", vec![tool("files", READ), tool("files", WRITE)], "{}")
        .with_tools("hub", vec![tool("hub", ISSUE)], "{}")
        .with_tools(
            "core",
            vec![
                plain("core", "core_config_get", "Show the configuration", CORE_SCHEMA),
                plain("core", "core_service_list", "List services\nwith their states", CORE_SCHEMA),
            ],
            "{}",
        );
    assert_eq!(names(&gateway()), names(&turned));
}

#[test]
fn listings_follow_the_state() {
    let gateway = gateway();
    assert_eq!(gateway.json("filter_tools", r#"{"query":"file"}"#)["total"], 2);
    gateway.change(|state| state.catalog = state.catalog.without(&BackendName::new("files")));
    assert_eq!(gateway.json("filter_tools", r#"{"query":"file"}"#)["total"], 0);
    assert_eq!(gateway.json("list_tools", "{}")["total"], 3);
}

#[test]
fn unknown_arguments_are_refused_with_the_nearest() {
    let gateway = gateway();
    let check = |tool: &str, arguments: &str, expect: &str| {
        let said = gateway.text(tool, arguments);
        assert!(said.starts_with(expect), "{said}");
    };
    let meant = |key: &str, near: &str| {
        format!(
            "!`filter_tools` has no argument `{key}`; did you mean `{near}`? It takes `query`, "
        )
    };
    check("filter_tools", r#"{"q":"issue"}"#, &meant("q", "query"));
    check("filter_tools", r#"{"query":"issue","sever":"hub"}"#, &meant("sever", "server"));
    check("filter_tools", r#"{"backend":"hub"}"#, &meant("backend", "server"));
    check(
        "get_output",
        r#"{"handle":"out_1","head":3}"#,
        "!`get_output` has no argument `head`; did you mean `limit`? It takes `handle`, ",
    );
    check(
        "list_tools",
        r#"{"xyz":1}"#,
        "!`list_tools` has no argument `xyz`; it takes `offset`, `limit`, `max_tokens`",
    );
    check("get_output", r#"{"handle":"out_1","grep":5}"#, "!grep must be text");
    check("get_output", r#"{"handle":"out_1","count":"all"}"#, "!count must be true or false");
    check("list_tools", r#"{"xyz":null}"#, "{");
    check("describe_tool", r#"{"tool_name":"x_files_read"}"#, "{");
}
