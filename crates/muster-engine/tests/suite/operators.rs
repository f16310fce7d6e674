//! Agents do not change the gateway, whatever way they try.

use std::sync::{Arc, Mutex};

use muster_core::{
    backend::ToolCaller as _,
    call::{Call, CallError, Caller, Checking, Outcome},
    caller_directory::{
        BrowserSession, CallerDirectory, CallerQuery, DirectoryError, DirectoryFuture,
        LoginReference, SeenLogin, TokenDescription, TokenDraft,
    },
    catalog::ToolAudience,
    client::NoClient,
    credentials::BearerToken,
    json::raw,
    name::ToolName,
};
use serde_json::{Value, json};

use crate::{
    fake::{Fake, Plan},
    people::{known, someone},
    rig::{REMOTE, Rig, operator},
};

async fn call_as(rig: &Rig, who: &Caller, tool: &str, args: Value) -> Result<String, CallError> {
    let call = Call::new(ToolName::new(tool), raw(&args), Checking::Strict);
    match rig.dispatcher.call(who, &NoClient::shared(), call).await? {
        Outcome::Text { text, failed: true, .. } => Ok(format!("E: {text}")),
        Outcome::Text { text, .. } => Ok(text),
        outcome => panic!("{outcome:?}"),
    }
}

fn token(name: &str) -> Caller {
    Caller { token: Some(name.into()), ..Caller::local() }
}

/// The tools for operators, as the catalog has them.
fn operator_tools(rig: &Rig) -> Vec<String> {
    let state = rig.dispatcher.snapshot(&operator());
    let tools = state.catalog.sorted().filter(|entry| entry.audience == ToolAudience::Operators);
    tools.map(|entry| entry.name.to_string()).collect()
}

/// Whether a caller is shown a tool.
fn shown(rig: &Rig, who: &Caller, tool: &str) -> bool {
    let state = rig.dispatcher.snapshot(who);
    state.catalog.get(tool).is_some_and(|entry| state.policy.shows(entry))
}

#[tokio::test(start_paused = true)]
async fn what_changes_the_gateway_is_for_operators() {
    let rig = Rig::new(&[]);
    let state = rig.dispatcher.snapshot(&operator());
    let reads =
        ["list", "get", "validate", "available", "status", "events", "stats", "login", "logout"];
    let reads = |name: &str| {
        // What others called, who they are and what they may do is not for agents.
        let about_others = ["core_calls_", "core_policy_", "core_session_", "core_token_"];
        !about_others.iter().any(|family| name.starts_with(family))
            && (name.ends_with("get_aggregator") || reads.iter().any(|end| name.ends_with(end)))
    };
    let ours = state.catalog.sorted().filter(|entry| entry.name.as_str().starts_with("core_"));
    for entry in ours {
        let expected = if reads(entry.name.as_str()) {
            ToolAudience::Everyone
        } else {
            ToolAudience::Operators
        };
        assert_eq!(entry.audience, expected, "{}", entry.name);
    }
}

#[tokio::test(start_paused = true)]
async fn agents_neither_see_nor_call_what_changes_the_gateway() {
    let rig = Rig::new(&[]);
    let tools = operator_tools(&rig);
    assert!(tools.len() >= 18, "{tools:?}");
    for tool in &tools {
        rig.put(
            &format!("workflows/by-{tool}.yaml"),
            &format!("steps: [{{id: a, tool: {tool}}}]\n"),
        );
        let class = format!(
            "serviceConfig:\n  lifecycleTools:\n    start: {{tool: {tool}, args: {{name: evil}}}}\n    \
             stop: {{tool: core_service_list}}\n"
        );
        rig.put(&format!("serviceclasses/by-{tool}.yaml"), &class);
    }
    rig.call("core_config_reload", json!({})).await;
    let policies =
        [None, Some("default: enabled"), Some("tools: {core/*: {}, core_service_create: {}}")];
    for policy in policies {
        if let Some(policy) = policy {
            rig.put("policies/p.yaml", policy);
            rig.call("core_config_reload", json!({})).await;
        }
        let named = |tool: &str| policy.is_some_and(|policy| policy.contains(tool));
        for who in [Caller::local(), someone("s"), known("ada"), token("ci")] {
            for tool in tools.iter().filter(|tool| !named(tool)) {
                assert!(!shown(&rig, &who, tool), "{tool}");
                let direct = call_as(&rig, &who, tool, json!({"name": "evil"})).await;
                assert!(matches!(direct, Err(CallError::UnknownTool { .. })), "{tool}");
                let refused = |said: &str| {
                    said.contains(&format!("tool {tool} is not available"))
                        || said.contains(" is not available (missing required tools)")
                };
                let workflow = format!("workflow_by-{tool}");
                if let Ok(said) = call_as(&rig, &who, &workflow, json!({})).await {
                    assert!(refused(&said), "{said}");
                }
                let service = json!({"serviceClassName": format!("by-{tool}"), "name": "evil"});
                if let Ok(said) = call_as(&rig, &who, "core_service_create", service).await {
                    assert!(refused(&said), "{said}");
                }
            }
        }
        for tool in &tools {
            assert!(shown(&rig, &operator(), tool), "{tool}");
        }
    }
    assert!(!rig.path("mcpservers/evil.yaml").exists());
}

#[tokio::test(start_paused = true)]
async fn what_runs_in_the_background_is_not_an_operator() {
    let class = "serviceConfig:\n  lifecycleTools:\n    start: {tool: core_mcpserver_create, args: {name: \
                 evil, type: stdio, command: sh}}\n    stop: {tool: core_service_list}\n";
    let rig = Rig::new(&[
        ("serviceclasses/evil.yaml", class),
        ("services/evil.yaml", "{serviceClassName: evil, autoStart: true}\n"),
    ]);
    let mut views = rig.engine().view();
    let started = async {
        loop {
            let status = rig.ask("core_service_status", json!({"name": "evil"})).await;
            if status["error"].as_str().is_some_and(|error| error.contains("is not available")) {
                return;
            }
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(3600), started).await.unwrap();
    assert!(!views.borrow_and_update().servers.contains_key("evil"));
}

#[tokio::test(start_paused = true)]
async fn a_policy_never_locks_the_operator_out() {
    let rig =
        Rig::new(&[("policies/p.yaml", "default: disabled\n"), ("mcpservers/a.yaml", REMOTE)]);
    assert!(rig.call("core_mcpserver_list", json!({})).await.contains("\"a\""));
    let added = json!({"name": "b", "type": "sse", "url": "u"});
    assert_eq!(
        rig.call("core_mcpserver_create", added).await,
        "MCP server 'b' created successfully"
    );
    assert!(!shown(&rig, &Caller::local(), "core_mcpserver_list"));
    rig.put("policies/p.yaml", "default: [broken");
    rig.call("core_config_reload", json!({})).await;
    assert!(rig.call("core_mcpserver_list", json!({})).await.contains("\"a\""));
}

/// A policy that lets agents manage servers.
const MANAGERS: &str = "default: enabled\ntools: {core_mcpserver_create: {}, core_mcpserver_update: {}, \
                        core_service_start: {}, core_service_create: {}}\n";

#[tokio::test(start_paused = true)]
async fn a_server_of_an_agent_waits_for_approval() {
    let rig = Rig::new(&[("policies/p.yaml", MANAGERS)]);
    let agent = Caller::local();
    let server = json!({"name": "a", "type": "stdio", "command": "sh", "autoStart": true});
    let said = call_as(&rig, &agent, "core_mcpserver_create", server).await.unwrap();
    assert_eq!(
        said,
        "MCP server 'a' created successfully\nIt is not connected until an operator approves it: muster \
         approve mcpserver a"
    );
    let info = rig.ask("core_mcpserver_get", json!({"name": "a"})).await;
    assert_eq!(info["state"], "Awaiting Approval");
    let message = info["statusMessage"].as_str().unwrap();
    assert!(message.contains("muster approve mcpserver a"), "{message}");
    let started = call_as(&rig, &agent, "core_service_start", json!({"name": "a"})).await.unwrap();
    assert!(started.contains("awaits approval"), "{started}");
    let approve = json!({"name": "a"});
    let tried = call_as(&rig, &agent, "core_mcpserver_approve", approve.clone()).await;
    assert!(matches!(tried, Err(CallError::UnknownTool { .. })));
    let field = json!({"name": "a", "approval": "approved"});
    let tried = call_as(&rig, &agent, "core_mcpserver_update", field).await.unwrap();
    assert!(tried.starts_with("E: unknown args: [approval]"), "{tried}");
    assert!(rig.fake.endpoint("a").is_none());
    assert_eq!(
        rig.call("core_mcpserver_approve", approve).await,
        "MCP server 'a' approved successfully"
    );
    rig.until_is("a", "running").await;
    assert!(!rig.read("mcpservers/a.yaml").contains("approval"));
    // What changes nothing of substance needs no approval; another command does.
    let described = json!({"name": "a", "description": "d"});
    call_as(&rig, &agent, "core_mcpserver_update", described).await.unwrap();
    rig.until_is("a", "running").await;
    let other = json!({"name": "a", "command": "other"});
    call_as(&rig, &agent, "core_mcpserver_update", other).await.unwrap();
    rig.until_is("a", "awaiting_approval").await;
    assert!(!rig.tools().iter().any(|tool| tool.starts_with("x_a_")));
}

#[tokio::test(start_paused = true)]
async fn approval_outlives_a_restart() {
    let mut rig = Rig::new(&[("policies/p.yaml", MANAGERS)]);
    let server =
        json!({"name": "a", "type": "streamable-http", "url": "http://h/mcp", "autoStart": true});
    call_as(&rig, &Caller::local(), "core_mcpserver_create", server).await.unwrap();
    rig.again().await;
    rig.until_is("a", "awaiting_approval").await;
    assert!(rig.fake.endpoint("a").is_none());
    let auto = json!({"serviceClassName": "c", "name": "s", "autoStart": true});
    let said = call_as(&rig, &Caller::local(), "core_service_create", auto).await.unwrap();
    assert!(said.contains("autoStart is for operators"), "{said}");
}

#[tokio::test(start_paused = true)]
async fn secrets_are_not_sent_to_another_address() {
    let file = "url: http://h/mcp\nautoStart: false\nheaders: {Authorization: Bearer abc, X-Team: red}\n\
                auth: {type: oauth, forwardToken: true}\n";
    let local = "command: server\nautoStart: false\nargs: [--port, '1']\nenv: {API_TOKEN: abc, MODE: fast}\n";
    let words = "command: server\nautoStart: false\nargs: [--key, 'secret://k']\n";
    let rig = Rig::new(&[
        ("mcpservers/a.yaml", file),
        ("mcpservers/b.yaml", local),
        ("mcpservers/c.yaml", words),
    ]);
    let same = json!({"name": "a", "url": "http://h/mcp", "timeout": 5});
    assert_eq!(
        rig.call("core_mcpserver_update", same).await,
        "MCP server 'a' updated successfully"
    );
    assert!(rig.read("mcpservers/a.yaml").contains("Bearer abc"));
    let moved = json!({"name": "a", "url": "http://evil/mcp", "headers": {"Authorization": "[REDACTED]", "X-Team": "red"}});
    let said = rig.call("core_mcpserver_update", moved).await;
    assert_eq!(
        said,
        "MCP server 'a' updated successfully\nIts address, command or args changed, so these secrets were \
         dropped: headers `Authorization`, auth. To keep them, give them in the same call."
    );
    let text = rig.read("mcpservers/a.yaml");
    assert!(!text.contains("abc") && !text.contains("forwardToken"), "{text}");
    assert!(text.contains("X-Team: red") && text.contains("http://evil/mcp"), "{text}");
    let again =
        json!({"name": "a", "url": "http://new/mcp", "headers": {"Authorization": "Bearer def"}});
    assert_eq!(
        rig.call("core_mcpserver_update", again).await,
        "MCP server 'a' updated successfully"
    );
    assert!(rig.read("mcpservers/a.yaml").contains("Bearer def"));
    let other = json!({"name": "b", "command": "sh"});
    let said = rig.call("core_mcpserver_update", other).await;
    assert!(said.contains("env `API_TOKEN`"), "{said}");
    let text = rig.read("mcpservers/b.yaml");
    assert!(
        !text.contains("abc") && text.contains("MODE: fast") && text.contains("--port"),
        "{text}"
    );
    let said = rig.call("core_mcpserver_update", json!({"name": "c", "command": "sh"})).await;
    assert!(said.contains("dropped: args"), "{said}");
    assert!(!rig.read("mcpservers/c.yaml").contains("secret://"), "{said}");
}

#[tokio::test(start_paused = true)]
async fn agents_know_only_of_servers_that_they_can_use() {
    let callers = "default: disabled\ncallers: [{tokens: [ci], tools: {a/*: {}}}]\n";
    let rig = Rig::new(&[
        ("policies/p.yaml", callers),
        ("mcpservers/a.yaml", REMOTE),
        ("mcpservers/secret.yaml", REMOTE),
    ]);
    let lists = [
        ("core_mcpserver_list", json!({"showAll": true})),
        ("core_service_list", json!({})),
        ("core_stats", json!({})),
    ];
    let given = "callers: [{tokens: [ci], tools: {a/*: {}, core_mcpserver_list: {}, core_mcpserver_get: {}, \
                 core_service_list: {}, core_service_status: {}, core_stats: {}, core_auth_login: {}}}]\n";
    rig.put("policies/p.yaml", given);
    rig.call("core_config_reload", json!({})).await;
    for (tool, arguments) in lists {
        let said = call_as(&rig, &token("ci"), tool, arguments.clone()).await.unwrap();
        assert!(said.contains("\"a\"") && !said.contains("secret"), "{tool}: {said}");
        let all = rig.call(tool, arguments).await;
        assert!(all.contains("\"a\"") && all.contains("\"secret\""), "{tool}: {all}");
    }
    for (tool, name) in [
        ("core_mcpserver_get", "name"),
        ("core_service_status", "name"),
        ("core_auth_login", "server"),
    ] {
        let there = call_as(&rig, &token("ci"), tool, json!({name: "a"})).await.unwrap();
        assert!(!there.contains("not found"), "{tool}: {there}");
        let said = call_as(&rig, &token("ci"), tool, json!({name: "secret"})).await.unwrap();
        assert!(said.contains("not found"), "{tool}: {said}");
    }
    let total = |said: &str| said.replace(' ', "").contains("\"servers_total\":2");
    let arguments = json!({"name": "mcp-aggregator"});
    let status =
        call_as(&rig, &token("ci"), "core_service_status", arguments.clone()).await.unwrap();
    assert!(!total(&status), "{status}");
    assert!(total(&rig.call("core_service_status", arguments).await));
}

/// A directory that creates every token.
#[derive(Debug, Default)]
struct Tokens {
    created: Mutex<Vec<TokenDraft>>,
}

impl CallerDirectory for Tokens {
    fn caller(&self, _: &CallerQuery) -> Result<Caller, DirectoryError> {
        Ok(Caller::local())
    }

    fn tokens(&self) -> Result<Vec<TokenDescription>, DirectoryError> {
        Ok(Vec::new())
    }

    fn create_token(&self, draft: TokenDraft) -> DirectoryFuture<'_, BearerToken> {
        self.created.lock().unwrap().push(draft);
        Box::pin(std::future::ready(Ok(BearerToken::new("mst_x"))))
    }

    fn revoke_token<'a>(&'a self, _: &'a str) -> DirectoryFuture<'a, ()> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn login_of(&self, _: &Caller) -> Option<LoginReference> {
        None
    }

    fn logged_in<'a>(
        &'a self,
        _: &'a LoginReference,
        _: Option<&'a str>,
    ) -> DirectoryFuture<'a, Option<Caller>> {
        Box::pin(std::future::ready(Ok(None)))
    }

    fn logins(&self) -> DirectoryFuture<'_, Vec<SeenLogin>> {
        Box::pin(std::future::ready(Ok(Vec::new())))
    }

    fn browsers(&self) -> DirectoryFuture<'_, Vec<BrowserSession>> {
        Box::pin(std::future::ready(Ok(Vec::new())))
    }

    fn end_session<'a>(&'a self, _: &'a str) -> DirectoryFuture<'a, ()> {
        Box::pin(std::future::ready(Ok(())))
    }
}

#[tokio::test(start_paused = true)]
async fn no_token_has_more_rights_than_its_creator() {
    let policy = "default: enabled\ntools: {core_token_create: {}}\n\
                  callers: [{tokens: [admin], operator: true}]\n";
    let files =
        [("policies/p.yaml", policy), ("toolsets/build.yaml", "tools: [core_token_create]\n")];
    let directory = Arc::new(Tokens::default());
    let port: Arc<dyn CallerDirectory> = Arc::<Tokens>::clone(&directory);
    let rig = Rig::admitting(port, Fake::default(), &files);
    let bound = |caller: Caller| Caller { toolset: Some("build".into()), ..caller };
    let plain = json!({"name": "t"});
    let as_operator = json!({"name": "t", "operator": true});
    let in_toolset = json!({"name": "t", "toolset": "build"});
    let in_other = json!({"name": "t", "toolset": "other"});
    let cases = [
        (token("ci"), &as_operator, false),
        (token("ci"), &plain, false),
        (bound(token("ci")), &in_toolset, false),
        (bound(operator()), &plain, false),
        (bound(operator()), &in_other, false),
        (bound(operator()), &in_toolset, true),
        (operator(), &plain, true),
        (operator(), &as_operator, true),
        (token("admin"), &as_operator, true),
    ];
    for (caller, arguments, is_created) in cases {
        let said = call_as(&rig, &caller, "core_token_create", arguments.clone()).await.unwrap();
        assert_eq!(!said.starts_with("E: "), is_created, "{caller:?} {arguments}: {said}");
        let created = std::mem::take(&mut *directory.created.lock().unwrap());
        assert_eq!(!created.is_empty(), is_created, "{caller:?} {arguments}");
    }
}

/// Operators learn which rule hides a tool that a workflow needs. To agents it does not exist.
#[tokio::test(start_paused = true)]
async fn a_tool_that_the_policy_hides_is_explained_to_operators() {
    const POLICY: &str = "default: disabled\ntools: {workflow_w: {}, core_workflow_available: {}, core_workflow_get: {}}\n";
    const W: &str = "name: w\nsteps: [{id: a, tool: x_a_one}, {id: b, tool: x_nothing_here}]\n";
    let fake = Fake::default();
    fake.plan("a", [Plan::Up(vec!["one"])]);
    let files =
        [("mcpservers/a.yaml", REMOTE), ("workflows/w.yaml", W), ("policies/p.yaml", POLICY)];
    let rig = Rig::with(fake, &files);
    rig.until_is("a", "connected").await;
    let named = json!({"name": "w"});
    for tool in ["core_workflow_available", "core_workflow_get"] {
        let reply = rig.ask(tool, named.clone()).await;
        let hidden = &reply["reasons"][0];
        assert_eq!(hidden["tool"], "x_a_one", "{reply}");
        assert_eq!(
            hidden["reason"],
            "the policy hides it from you: no rule names the tool, and tools without a rule are hidden (`default`)"
        );
        assert_eq!(
            hidden["hint"],
            "add a rule for x_a_one to a file in `policies/`; `muster policy check x_a_one` names the rule that decides"
        );
        assert_eq!(reply["reasons"][1]["reason"], "there is no such tool", "{reply}");

        let reply = call_as(&rig, &Caller::local(), tool, named.clone()).await.unwrap();
        let reply: Value = serde_json::from_str(&reply).unwrap();
        let reasons = reply["reasons"].as_array().unwrap();
        let said: Vec<&Value> = reasons.iter().map(|reason| &reason["reason"]).collect();
        assert_eq!(said, ["there is no such tool"; 2], "{reply}");
        assert!(!reply.to_string().contains("policy"), "{reply}");
    }
    let said = rig.call("workflow_w", json!({})).await;
    assert!(said.contains("x_a_one: the policy hides it from you: no rule names"), "{said}");
    assert!(said.contains("hint: add a rule for x_a_one to a file in `policies/`"), "{said}");
    let said = call_as(&rig, &Caller::local(), "workflow_w", json!({})).await.unwrap();
    assert!(said.contains("x_a_one: there is no such tool") && !said.contains("policy"), "{said}");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_does_not_wait_is_not_approved() {
    let rig = Rig::new(&[("mcpservers/a.yaml", REMOTE)]);
    let said = rig.call("core_mcpserver_approve", json!({"name": "a"})).await;
    assert_eq!(said, "MCP server 'a' does not wait for approval");
    let said = rig.call("core_mcpserver_approve", json!({"name": "nobody"})).await;
    assert!(said.starts_with("E: ") && said.contains("not found"), "{said}");
}
