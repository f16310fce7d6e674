//! Services over time: started in order, checked, stored, retried, stopped in reverse.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout};

use crate::{
    fake::Said,
    rig::Rig,
    services::{CLASS, rig},
};

/// A class without arguments over the tools of `net`.
fn class(more: &str) -> String {
    format!(
        "serviceConfig:\n  lifecycleTools:\n    start: {{tool: x_net_open, args: {{who: '{{{{ .name }}}}'}}}}\n    \
         stop: {{tool: x_net_close, args: {{who: '{{{{ .name }}}}'}}}}\n{more}"
    )
}

async fn status(rig: &Rig, name: &str) -> Value {
    rig.ask("core_service_status", json!({"name": name})).await
}

/// Waits until a service has this state and health.
async fn until(rig: &Rig, name: &str, state: &str, health: &str) -> Value {
    let look = async {
        loop {
            // It may not be registered yet.
            let said = rig.call("core_service_status", json!({"name": name})).await;
            let now: Value = serde_json::from_str(&said).unwrap_or_default();
            if now["state"] == state && now["health"] == health {
                return now;
            }
            sleep(Duration::from_millis(50)).await;
        }
    };
    match timeout(Duration::from_secs(24 * 60 * 60), look).await {
        Ok(now) => now,
        Err(_) => panic!("never {state}, {health}: {}", status(rig, name).await),
    }
}

async fn make(rig: &Rig, class: &str, name: &str, more: Value) -> String {
    let mut order = json!({"serviceClassName": class, "name": name});
    order.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    rig.call("core_service_create", order).await
}

async fn reasons(rig: &Rig, name: &str) -> Vec<String> {
    let events = rig.ask("core_events", json!({"resourceName": name, "limit": 1000})).await;
    let events = events.as_array().unwrap().iter().rev();
    let prefix = "ServiceInstance";
    events
        .map(|event| event["reason"].as_str().unwrap().trim_start_matches(prefix).to_owned())
        .filter(|reason| reason != "StateChanged")
        .collect()
}

#[tokio::test(start_paused = true)]
async fn a_whole_lifecycle() {
    let rig = rig(&[("serviceclasses/web.yaml", CLASS)]).await;
    make(&rig, "web", "shop", json!({"args": {"port": 80}})).await;
    let name = json!({"name": "shop"});
    let say = |tool: &str| {
        let (rig, tool, name) = (&rig, format!("core_service_{tool}"), name.clone());
        async move { rig.call(&tool, name).await }
    };
    assert_eq!(say("start").await, "Service 'shop' is already running");
    assert_eq!(say("stop").await, "Successfully stopped service 'shop'");
    assert_eq!(say("stop").await, "Service 'shop' is already stopped");
    assert_eq!(status(&rig, "shop").await["health"], "unknown");
    assert_eq!(say("start").await, "Successfully started service 'shop'");
    rig.fake.called();
    assert_eq!(say("restart").await, "Successfully restarted service 'shop'");
    let called = rig.fake.called();
    assert_eq!(called.len(), 2, "{called:?}");
    rig.fake.says("close", [Said::Failure("stuck")]);
    assert_eq!(say("stop").await, "E: Failed to stop service shop: stop tool failed: stuck");
    let now = status(&rig, "shop").await;
    assert_eq!((&now["state"], &now["health"]), (&json!("failed"), &json!("unhealthy")));
    assert_eq!(now["error"], "stop tool failed: stuck");
    assert_eq!(say("restart").await, "Successfully restarted service 'shop'");
    assert_eq!(say("delete").await, "Successfully deleted ServiceClass instance 'shop'");
    let told = reasons(&rig, "shop").await;
    let start = ["Starting", "ToolExecutionStarted", "ToolExecutionCompleted", "Started"];
    let stop = ["Stopping", "ToolExecutionStarted", "ToolExecutionCompleted", "Stopped"];
    let stuck = ["Stopping", "ToolExecutionStarted", "ToolExecutionFailed", "Failed"];
    let mut expect = vec!["Created"];
    expect.extend([start, stop, start].concat());
    expect.push("Restarting");
    expect.extend([stop, start].concat());
    expect.push("Restarted");
    expect.extend(stuck);
    expect.push("Restarting");
    expect.extend([stuck, start].concat());
    expect.push("Restarted");
    expect.extend(stuck);
    expect.push("Deleted");
    assert_eq!(told, expect);
}

#[tokio::test(start_paused = true)]
async fn a_service_that_cannot_start_is_not_registered() {
    let rig = rig(&[("serviceclasses/web.yaml", CLASS)]).await;
    rig.fake.says("open", [Said::Failure("no port"), Said::Nothing, Said::Text("{}")]);
    let args = || json!({"args": {"port": 80}, "persist": true});
    let prefix =
        "E: Failed to create ServiceClass instance: failed to start ServiceClass instance: ";
    assert_eq!(make(&rig, "web", "a", args()).await, format!("{prefix}start tool failed: no port"));
    assert_eq!(
        make(&rig, "web", "a", args()).await,
        format!("{prefix}start tool failed: tool x_net_open took longer than 10s")
    );
    assert!(!rig.path("services/a.yaml").exists());
    let bad = CLASS.replace(".args.port", ".args.no");
    rig.call("core_config_reload", json!({})).await;
    rig.put("serviceclasses/bad.yaml", &bad);
    rig.call("core_config_reload", json!({})).await;
    assert_eq!(
        make(&rig, "bad", "a", args()).await,
        format!(
            "{prefix}failed to process start tool arguments: error in key 'port': missing template variables: args.no"
        )
    );
    // Outputs that cannot be rendered are empty, and the service runs all the same.
    let made: Value = serde_json::from_str(&make(&rig, "web", "a", args()).await).unwrap();
    assert_eq!((&made["state"], &made["outputs"]), (&json!("running"), &Value::Null));
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_given_up_leaves_word() {
    let rig = rig(&[("serviceclasses/plain.yaml", &class(""))]).await;
    rig.fake.says("open", [Said::Nothing]);
    let making = make(&rig, "plain", "a", json!({}));
    assert!(timeout(Duration::from_secs(1), making).await.is_err());
    let now = status(&rig, "a").await;
    assert_eq!(now["state"], "failed");
    assert_eq!(now["error"], "the call was cancelled before its tool was done");
    let said = rig.call("core_service_delete", json!({"name": "a"})).await;
    assert_eq!(said, "Successfully deleted ServiceClass instance 'a'");
}

#[tokio::test(start_paused = true)]
async fn tools_of_their_own_for_restart_and_status() {
    let more = "    restart: {tool: x_net_again, outputs: {at: at}}\n    status: {tool: x_net_state, outputs: {load: load}}\n";
    let rig = rig(&[("serviceclasses/full.yaml", &class(more))]).await;
    make(&rig, "full", "a", json!({})).await;
    rig.fake.says("again", [Said::Text(r#"{"at": "noon"}"#)]);
    rig.fake.says("state", [Said::Text(r#"{"load": 3}"#), Said::Failure("gone")]);
    rig.fake.called();
    rig.call("core_service_restart", json!({"name": "a"})).await;
    assert_eq!(rig.fake.called(), ["again {}"]);
    assert_eq!(status(&rig, "a").await["metadata"], json!({"at": "noon", "load": 3}));
    let now = status(&rig, "a").await;
    assert_eq!(
        (&now["state"], &now["error"]),
        (&json!("running"), &json!("status tool failed: gone"))
    );
}

#[tokio::test(start_paused = true)]
async fn health_is_looked_at() {
    let more = "    healthCheck: {tool: x_net_look, expect: {jsonPath: {status: up}}}\n  \
                healthCheck: {enabled: true, interval: 10s, failureThreshold: 2, successThreshold: 2}\n";
    let rig = rig(&[("serviceclasses/seen.yaml", &class(more))]).await;
    let (up, down) = (Said::Text(r#"{"status": "up"}"#), Said::Text(r#"{"status": "down"}"#));
    rig.fake.says("look", [up.clone(), down.clone(), down, up.clone(), up]);
    make(&rig, "seen", "a", json!({})).await;
    let start = Instant::now();
    until(&rig, "a", "running", "degraded").await;
    assert_eq!(start.elapsed().as_secs(), 20);
    let now = until(&rig, "a", "running", "unhealthy").await;
    assert_eq!(start.elapsed().as_secs(), 30);
    assert_eq!(now["error"], r#"status is "down", and not "up""#);
    let now = until(&rig, "a", "running", "healthy").await;
    assert_eq!(start.elapsed().as_secs(), 50);
    assert_eq!(now["error"], Value::Null);
    let told = reasons(&rig, "a").await;
    let health: Vec<&str> = told
        .iter()
        .map(String::as_str)
        .filter(|told| told.contains("Health") || told.contains("health"))
        .collect();
    assert_eq!(
        health,
        ["HealthCheckFailed", "HealthCheckFailed", "Unhealthy", "HealthCheckRecovered", "Healthy"]
    );
    // A stopped service is not checked.
    rig.call("core_service_stop", json!({"name": "a"})).await;
    rig.fake.called();
    sleep(Duration::from_secs(60)).await;
    assert!(rig.fake.called().is_empty());
}

#[tokio::test(start_paused = true)]
async fn stored_services_survive_a_restart() {
    let mut rig = rig(&[("serviceclasses/web.yaml", CLASS)]).await;
    let args = json!({"port": 80});
    make(&rig, "web", "kept", json!({"args": args, "persist": true})).await;
    make(&rig, "web", "begun", json!({"args": args, "persist": true, "autoStart": true})).await;
    make(&rig, "web", "lost", json!({"args": args})).await;
    assert!(rig.read("service_states/kept.json").contains("\"state\":\"running\""));
    assert!(!rig.read("services/kept.yaml").contains("status"));
    rig.fake.called();
    rig.again().await;
    let mut ended = rig.fake.called();
    ended.sort();
    assert_eq!(ended.iter().filter(|call| call.starts_with("close")).count(), 3, "{ended:?}");
    let begun = until(&rig, "begun", "running", "healthy").await;
    assert_eq!(begun["outputs"]["url"], "http://c-1:80");
    let kept = status(&rig, "kept").await;
    assert_eq!((&kept["state"], &kept["metadata"]["id"]), (&json!("stopped"), &json!("c-1")));
    let lost = rig.call("core_service_get", json!({"name": "lost"})).await;
    assert!(lost.starts_with("E: "), "{lost}");
    rig.call("core_service_delete", json!({"name": "kept"})).await;
    assert!(!rig.path("services/kept.yaml").exists());
    assert!(!rig.path("service_states/kept.json").exists());
    rig.again().await;
    until(&rig, "begun", "running", "healthy").await;
    assert!(rig.call("core_service_get", json!({"name": "kept"})).await.starts_with("E: "));
}

#[tokio::test(start_paused = true)]
async fn after_a_crash_a_tool_says_what_still_runs() {
    let more = "    status: {tool: x_net_state}\n";
    let file = |name: &str, state: &str, auto: bool| {
        format!(
            "kind: Service\nmetadata: {{name: {name}}}\nspec: {{serviceClassName: full, autoStart: {auto}}}\nstatus: {{state: {state}}}\n"
        )
    };
    let rig = rig(&[
        ("serviceclasses/full.yaml", &class(more)),
        ("serviceclasses/plain.yaml", &class("")),
        ("services/up.yaml", &file("up", "running", true)),
        (
            "services/plain.yaml",
            "kind: Service\nspec: {serviceClassName: plain}\nstatus: {state: starting}\n",
        ),
    ])
    .await;
    until(&rig, "up", "running", "healthy").await;
    assert_eq!(rig.fake.called().iter().filter(|call| call.starts_with("open")).count(), 0);
    let plain = status(&rig, "plain").await;
    assert_eq!(plain["state"], "unknown");
    assert_eq!(
        rig.call("core_service_stop", json!({"name": "plain"})).await,
        "Successfully stopped service 'plain'"
    );
    rig.fake.says("state", [Said::Failure("gone"), Said::Text("{}")]);
    rig.put("services/down.yaml", &file("down", "running", true));
    until(&rig, "down", "running", "healthy").await;
    assert_eq!(rig.fake.called().iter().filter(|call| call.starts_with("open")).count(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_failed_auto_start_is_retried() {
    let file = "kind: Service\nspec: {serviceClassName: plain, autoStart: true}\n";
    let rig = rig(&[("services/a.yaml", file)]).await;
    let waiting = until(&rig, "a", "waiting", "unknown").await;
    assert_eq!(waiting["error"], "waiting for ServiceClass plain");
    rig.fake.says("open", [Said::Failure("busy"), Said::Failure("busy"), Said::Text("{}")]);
    rig.put("serviceclasses/plain.yaml", &class(""));
    let retrying = until(&rig, "a", "retrying", "unknown").await;
    assert_eq!(retrying["error"], "start tool failed: busy");
    let start = Instant::now();
    until(&rig, "a", "running", "healthy").await;
    assert_eq!(start.elapsed().as_secs(), 3, "one second, then two");
    // A service that waits for its retry can be stopped.
    rig.fake.says("open", [Said::Failure("busy")]);
    rig.put("services/b.yaml", file);
    until(&rig, "b", "retrying", "unknown").await;
    assert_eq!(
        rig.call("core_service_stop", json!({"name": "b"})).await,
        "Successfully stopped service 'b'"
    );
    rig.fake.called();
    sleep(Duration::from_secs(60)).await;
    assert!(rig.fake.called().is_empty());
}

#[tokio::test(start_paused = true)]
async fn dependencies_come_first_and_go_last() {
    let needs = |names: &str| class(&format!("  dependencies: [{names}]\n"));
    let auto = |class: &str| {
        format!("kind: Service\nspec: {{serviceClassName: {class}, autoStart: true}}\n")
    };
    let mut rig = rig(&[
        ("serviceclasses/base.yaml", &class("")),
        ("serviceclasses/middle.yaml", &needs("db, net")),
        ("serviceclasses/top.yaml", &needs("middle")),
        ("serviceclasses/round.yaml", &needs("round")),
        ("serviceclasses/lost.yaml", &needs("nobody")),
        ("services/a-web.yaml", &auto("top")),
        ("services/b-api.yaml", &auto("middle")),
        ("services/db.yaml", &auto("base")),
    ])
    .await;
    until(&rig, "a-web", "running", "healthy").await;
    let who = |called: Vec<String>| -> Vec<String> {
        called.iter().map(|call| call.replace(r#"{"who":""#, "").replace(r#""}"#, "")).collect()
    };
    assert_eq!(who(rig.fake.called()), ["open db", "open b-api", "open a-web"]);
    rig.again().await;
    until(&rig, "a-web", "running", "healthy").await;
    let called = who(rig.fake.called());
    assert_eq!(called[..3], ["close a-web", "close b-api", "close db"], "{called:?}");
    assert_eq!(called[3..], ["open db", "open b-api", "open a-web"], "{called:?}");

    // Starting a service starts its dependencies.
    for name in ["db", "b-api", "a-web"] {
        rig.call("core_service_stop", json!({"name": name})).await;
    }
    rig.fake.called();
    rig.call("core_service_start", json!({"name": "a-web"})).await;
    assert_eq!(who(rig.fake.called()), ["open db", "open b-api", "open a-web"]);
    let prefix =
        "E: Failed to create ServiceClass instance: failed to start ServiceClass instance: ";
    assert_eq!(
        make(&rig, "lost", "l", json!({})).await,
        format!(
            "{prefix}dependency 'nobody' not found; create a service of that name or class first"
        )
    );
    assert_eq!(
        make(&rig, "round", "r", json!({})).await,
        format!("{prefix}it depends on itself: r → r")
    );
}

#[tokio::test(start_paused = true)]
async fn files_of_services_are_followed() {
    let files = [("serviceclasses/plain.yaml", &*class("")), ("serviceclasses/web.yaml", CLASS)];
    let rig = rig(&files).await;
    rig.put(
        "services/a.yaml",
        "# mine\nkind: Service\nspec: {serviceClassName: plain, autoStart: true}\n",
    );
    until(&rig, "a", "running", "healthy").await;
    let text = rig.read("services/a.yaml");
    assert!(text.starts_with("# mine\n") && !text.contains("status"), "{text}");
    rig.put("config.yaml", "writeStatus: true\n");
    rig.call("core_config_reload", json!({})).await;
    rig.call("core_service_restart", json!({"name": "a"})).await;
    let text = rig.read("services/a.yaml");
    assert!(text.starts_with("# mine\n") && text.contains("state: running"), "{text}");
    // An edit takes effect with the next start.
    rig.put(
        "services/b.yaml",
        "kind: Service\nspec: {serviceClassName: web, autoStart: true, args: {port: 1}}\n",
    );
    until(&rig, "b", "running", "healthy").await;
    rig.put(
        "services/b.yaml",
        "kind: Service\nspec: {serviceClassName: web, autoStart: true, args: {port: 2}}\n",
    );
    rig.call("core_config_reload", json!({})).await;
    assert_eq!(status(&rig, "b").await["outputs"]["url"], "http://c-1:1");
    rig.call("core_service_restart", json!({"name": "b"})).await;
    assert_eq!(status(&rig, "b").await["outputs"]["url"], "http://c-1:2");
    rig.call("core_service_stop", json!({"name": "b"})).await;
    rig.fake.called();
    std::fs::remove_file(rig.path("services/a.yaml")).unwrap();
    let gone = async {
        while !rig.call("core_service_get", json!({"name": "a"})).await.starts_with("E: ") {
            sleep(Duration::from_millis(50)).await;
        }
    };
    timeout(Duration::from_secs(3600), gone).await.unwrap();
    assert_eq!(rig.fake.called().last().unwrap(), r#"close {"who":"a"}"#);
}

#[tokio::test(start_paused = true)]
async fn a_policy_holds_for_services() {
    let policy = "default: disabled\ntools: {core_service_create: {}, net/open: {}}\n";
    let rig = rig(&[("serviceclasses/plain.yaml", &class("")), ("policies/p.yaml", policy)]).await;
    let said = make(&rig, "plain", "a", json!({})).await;
    assert_eq!(
        said,
        "E: Failed to create ServiceClass instance: ServiceClass plain is not available (missing required tools): x_net_close\n\
         hint: add a rule for x_net_close to a file in `policies/`; `muster policy check x_net_close` names the rule that decides"
    );
}
