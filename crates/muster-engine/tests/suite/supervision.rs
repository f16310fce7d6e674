//! Servers that connect, fail, crash and recover, on a paused clock.

use std::time::Duration;

use muster_engine::timing::EngineTiming;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout};

use crate::{
    fake::{Fake, Plan, Said, assert_backoff, permanent, transient, unauthorized},
    rig::{LOCAL, REMOTE, Rig},
};

#[tokio::test(start_paused = true)]
async fn a_slow_server_does_not_delay_others() {
    let fake = Fake::default();
    let slow = || [Plan::Slow(Duration::from_secs(5), vec!["echo"])];
    fake.plan("slow", slow());
    fake.plan("other", slow());
    fake.plan("dead", [Plan::Hang]);
    let start = Instant::now();
    let files = ["slow", "other", "dead", "quick"].map(|name| format!("mcpservers/{name}.yaml"));
    let files: Vec<_> = files.iter().map(|name| (name.as_str(), REMOTE)).collect();
    let rig = Rig::with(fake, &files);
    assert!(start.elapsed().is_zero(), "starting waits for nothing");
    assert!(rig.call("core_service_list", json!({})).await.contains("mcp-aggregator"));
    rig.until_is("quick", "connected").await;
    assert!(start.elapsed() < Duration::from_secs(1));
    assert_eq!(rig.call("x_quick_echo", json!({})).await, "quick did echo");
    rig.until_is("slow", "connected").await;
    rig.until_is("other", "connected").await;
    assert_eq!(start.elapsed().as_secs(), 5, "one beside the other");
    let known = rig.until_is("dead", "failed").await;
    assert_eq!(start.elapsed().as_secs(), 30);
    assert_eq!(known.status.error.as_deref(), Some("it took longer than 30 s to connect"));
}

#[tokio::test(start_paused = true)]
async fn transient_failures_are_retried_with_backoff() {
    let fake = Fake::default();
    fake.plan("a", [transient(), transient(), transient(), transient(), Plan::Up(vec!["echo"])]);
    let start = Instant::now();
    let rig = Rig::with(fake.clone(), &[("mcpservers/a.yaml", REMOTE)]);
    let status = rig.until_is("a", "failed").await.status.clone();
    assert_eq!((status.failures, status.condition.health().as_str()), (1, "unhealthy"));
    assert!(status.next_retry.is_some());
    let status = rig.until_is("a", "unreachable").await.status.clone();
    assert_eq!((status.failures, status.condition.health().as_str()), (3, "unknown"));
    let listed = rig.ask("core_mcpserver_list", json!({"showAll": true, "verbose": true})).await;
    let listed = &listed["mcpServers"][0];
    assert_eq!(listed["state"], "Failed");
    assert_eq!(listed["error"], "connection refused");
    assert_eq!(listed["statusMessage"], "Server failed to start");
    assert_eq!(listed["consecutiveFailures"], 3);
    assert!(listed["nextRetryAfter"].is_string());
    let status = rig.until_is("a", "connected").await.status.clone();
    assert_eq!((status.failures, status.restarts, status.error), (0, 4, None));
    assert_eq!(status.next_retry, None);
    let attempts = fake.attempts("a", start);
    assert_backoff(&attempts, &[0.0, 30.0, 60.0, 120.0, 240.0]);
    assert_ne!(attempts, [0.0, 30.0, 60.0, 120.0, 240.0], "servers that failed together diverge");
    assert_eq!(rig.tools(), ["x_a_echo"]);
}

#[tokio::test(start_paused = true)]
async fn every_failure_is_retried_but_a_required_login() {
    let fake = Fake::default();
    fake.plan("wrong", [permanent(), permanent(), permanent(), Plan::Up(vec!["echo"])]);
    fake.plan("local", [transient(), permanent(), transient(), Plan::Up(vec!["echo"])]);
    fake.plan("locked", [unauthorized()]);
    let start = Instant::now();
    let files = [
        ("mcpservers/wrong.yaml", REMOTE),
        ("mcpservers/local.yaml", LOCAL),
        ("mcpservers/locked.yaml", REMOTE),
    ];
    let rig = Rig::with(fake.clone(), &files);
    let status = rig.until_is("locked", "auth_required").await.status.clone();
    assert_eq!((status.error, status.challenge.as_deref()), (None, Some("Bearer")));
    rig.until_is("local", "running").await;
    assert_backoff(&fake.attempts("local", start), &[0.0, 1.0, 2.0, 4.0]);
    rig.until_is("wrong", "connected").await;
    assert_backoff(&fake.attempts("wrong", start), &[0.0, 30.0, 60.0, 120.0]);
    sleep(Duration::from_secs(7200)).await;
    assert_eq!(fake.attempts("locked", start), [0.0]);
    let shown = rig.ask("core_mcpserver_get", json!({"name": "locked"})).await;
    assert_eq!(shown["state"], "Auth Required");
    let said = rig.call("core_service_restart", json!({"name": "locked"})).await;
    assert!(said.contains(r#"core_auth_login(server="locked")"#), "{said}");
    assert!(said.starts_with("E: Service 'locked' requires OAuth"), "{said}");
    fake.plan("wrong", [permanent()]);
    fake.plan("local", [transient()]);
    assert_eq!(
        rig.call("core_service_restart", json!({"name": "wrong"})).await,
        "E: Failed to restart service wrong: command not found"
    );
    assert_eq!(
        rig.call("core_service_restart", json!({"name": "local"})).await,
        "E: Failed to restart service local: connection refused"
    );
    fake.plan("wrong", [Plan::Up(vec!["echo"])]);
    assert_eq!(
        rig.call("core_service_start", json!({"name": "wrong"})).await,
        "Successfully started service 'wrong'"
    );
}

#[tokio::test]
async fn the_listing_of_a_server_that_is_down_survives_a_restart() {
    let fake = Fake::default();
    let mut rig = Rig::with(fake.clone(), &[("mcpservers/a.yaml", LOCAL)]);
    rig.until_is("a", "running").await;
    let stored = async {
        while !rig.path("listings/a.json").exists() {
            tokio::task::yield_now().await;
        }
    };
    timeout(Duration::from_secs(20), stored).await.expect("it is stored");
    let known = |rig: &Rig| {
        let state = rig.dispatcher.snapshot(&muster_core::call::Caller::local());
        let last = state.absent.values().next().and_then(|absent| absent.last.clone());
        last.map(|last| last.entries().iter().map(|tool| tool.name.to_string()).collect::<Vec<_>>())
    };
    fake.plan("a", [permanent()]);
    rig.again().await;
    rig.until_is("a", "failed").await;
    assert_eq!(known(&rig), Some(vec!["x_a_echo".to_owned()]));
    // Another program under the same name has other tools.
    fake.plan("a", [permanent()]);
    rig.put("mcpservers/a.yaml", &LOCAL.replace("command: ", "command: other-"));
    rig.again().await;
    rig.until_is("a", "failed").await;
    assert_eq!(known(&rig), None);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_lost_keeps_its_listing_until_it_is_stopped() {
    let fake = Fake::default();
    let rig = Rig::with(fake.clone(), &[("mcpservers/a.yaml", LOCAL)]);
    rig.until_is("a", "running").await;
    let absent = || {
        let state = rig.dispatcher.snapshot(&muster_core::call::Caller::local());
        let absent = state.absent.values().next()?.clone();
        let last = absent.last.map(|last| last.entries().len());
        Some((absent.condition.as_str(), absent.error, last))
    };
    assert_eq!(absent(), None);
    fake.plan("a", [permanent(), Plan::Up(vec!["other"])]);
    fake.link("a").crash();
    rig.until_is("a", "failed").await;
    assert_eq!(absent(), Some(("failed", Some("it exited with status 1".to_owned()), Some(1))));
    rig.until_is("a", "running").await;
    assert_eq!(absent(), None);
    rig.call("core_service_stop", json!({"name": "a"})).await;
    assert_eq!(absent(), Some(("stopped", None, None)), "it was stopped on purpose");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_crashes_is_started_again() {
    let fake = Fake::default();
    let start = Instant::now();
    let rig = Rig::with(fake.clone(), &[("mcpservers/a.yaml", LOCAL)]);
    rig.until_is("a", "running").await;
    fake.link("a").crash();
    let status = rig.until_is("a", "failed").await.status.clone();
    assert_eq!(status.error.as_deref(), Some("it exited with status 1"));
    assert_eq!(status.condition.health().as_str(), "unhealthy");
    assert!(status.next_retry.is_some());
    assert!(rig.tools().is_empty(), "what is gone is not listed");
    let state = rig.dispatcher.snapshot(&muster_core::call::Caller::local());
    assert_eq!(state.catalog.former_backend("x_a_echo").unwrap().as_str(), "a");
    rig.until_is("a", "running").await;
    for _ in 0..2 {
        fake.link("a").crash();
        rig.until_is("a", "failed").await;
        rig.until_is("a", "running").await;
    }
    // It crashes at once, again.
    assert_backoff(&fake.attempts("a", start), &[0.0, 1.0, 2.0, 4.0]);
    sleep(Duration::from_secs(61)).await;
    fake.plan("a", [permanent(), Plan::Up(vec!["echo"])]);
    fake.link("a").crash();
    rig.until_is("a", "failed").await;
    rig.until_is("a", "running").await;
    let attempts = fake.attempts("a", start);
    // It was well for a while, and what was well comes back.
    assert_backoff(&[attempts[4] - 61.0, attempts[5]], &[1.0, 2.0]);
    let events = rig.ask("core_events", json!({"resourceName": "a"})).await;
    let reasons: Vec<_> =
        events.as_array().unwrap().iter().map(|event| event["reason"].as_str().unwrap()).collect();
    assert_eq!(
        reasons[reasons.len() - 8..],
        [
            "MCPServerRecoverySucceeded",
            "MCPServerStarted",
            "MCPServerRecoveryStarted",
            "MCPServerFailed",
            "MCPServerToolsUnavailable",
            "MCPServerToolsDiscovered",
            "MCPServerStarted",
            "MCPServerStarting",
        ],
        "newest first"
    );
}

#[tokio::test(start_paused = true)]
async fn starting_and_stopping() {
    let fake = Fake::default();
    let files = [("mcpservers/a.yaml", LOCAL), ("mcpservers/b.yaml", REMOTE)];
    let rig = Rig::with(fake.clone(), &files);
    rig.until_is("a", "running").await;
    rig.until_is("b", "connected").await;
    let table = [
        ("start", "a", "Service 'a' is already running"),
        ("start", "b", "Service 'b' is already running"),
        ("stop", "a", "Successfully stopped service 'a'"),
        ("stop", "a", "Service 'a' is already stopped"),
        ("stop", "b", "Successfully stopped service 'b'"),
        ("stop", "b", "Service 'b' is already stopped"),
        ("stop", "c", "E: Failed to stop service: service c not found"),
        ("start", "c", "E: Failed to start service: service c not found"),
        ("restart", "c", "E: Failed to restart service: service c not found"),
        ("status", "c", "E: Failed to get service status: service c not found"),
        ("get", "c", "E: Failed to get service: service 'c' not found"),
        ("start", "mcp-aggregator", "Service 'mcp-aggregator' is already running"),
    ];
    for (what, name, expect) in table {
        let said = rig.call(&format!("core_service_{what}"), json!({"name": name})).await;
        assert_eq!(said, expect, "{what} {name}");
    }
    for what in ["start", "stop", "restart", "status", "get"] {
        let tool = format!("core_service_{what}");
        for args in [json!({}), json!({"name": 1}), json!({"name": ""})] {
            assert_eq!(rig.call(&tool, args).await, "E: name is required", "{what}");
        }
    }
    assert_eq!(fake.closed(), ["a", "b"]);
    let status = |name: &str| rig.ask("core_service_status", json!({"name": name}));
    let a = status("a").await;
    assert_eq!((&a["state"], &a["health"]), (&json!("stopped"), &json!("unknown")));
    let b = status("b").await;
    assert_eq!((&b["state"], &b["health"]), (&json!("disconnected"), &json!("unknown")));
    assert_eq!(b["metadata"]["clientReady"], false);
    assert!(rig.tools().is_empty());
    let started = rig.call("core_service_start", json!({"name": "a"})).await;
    assert_eq!(started, "Successfully started service 'a'");
    assert_eq!(rig.call("x_a_echo", json!({})).await, "a did echo", "its tools are there at once");
    let restarted = rig.call("core_service_restart", json!({"name": "a"})).await;
    assert_eq!(restarted, "Successfully restarted service 'a'");
    let a = status("a").await;
    assert_eq!((&a["state"], &a["health"]), (&json!("running"), &json!("healthy")));
    assert_eq!(a["metadata"]["type"], "stdio");
    let got = rig.ask("core_service_get", json!({"name": "a"})).await;
    assert_eq!(
        (&got["state"], &got["serviceData"]["command"]),
        (&json!("running"), &json!("server"))
    );
}

#[tokio::test(start_paused = true)]
async fn stopping_ends_an_attempt_and_a_wait() {
    let fake = Fake::default();
    fake.plan("hangs", [Plan::Hang]);
    fake.plan("waits", [transient()]);
    let files = [("mcpservers/hangs.yaml", REMOTE), ("mcpservers/waits.yaml", REMOTE)];
    let start = Instant::now();
    let rig = Rig::with(fake.clone(), &files);
    rig.until_is("hangs", "starting").await;
    rig.until_is("waits", "failed").await;
    for name in ["hangs", "waits"] {
        let stopped = rig.call("core_service_stop", json!({"name": name})).await;
        assert_eq!(stopped, format!("Successfully stopped service '{name}'"));
    }
    assert!(start.elapsed().is_zero());
    sleep(Duration::from_secs(3600)).await;
    assert_eq!(fake.attempts("waits", start), [0.0]);
    assert_eq!(fake.attempts("hangs", start), [0.0]);
}

#[tokio::test(start_paused = true)]
async fn the_end_says_goodbye_and_leaves_the_truth_behind() {
    let fake = Fake::default();
    fake.plan("hangs", [Plan::Hang]);
    let files = [
        ("mcpservers/a.yaml", LOCAL),
        ("mcpservers/b.yaml", REMOTE),
        ("mcpservers/hangs.yaml", REMOTE),
    ];
    let mut rig = Rig::with(fake.clone(), &files);
    rig.until_is("a", "running").await;
    rig.until_is("b", "connected").await;
    let start = Instant::now();
    rig.engine.take().unwrap().shut_down().await;
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
    let mut closed = fake.closed();
    closed.sort();
    assert_eq!(closed, ["a", "b"]);
    let status: Value = serde_json::from_str(&rig.read("servers.json")).unwrap();
    assert_eq!(
        (&status["a"]["state"], &status["b"]["state"]),
        (&json!("Stopped"), &json!("Disconnected"))
    );
    let said = rig.call("core_mcpserver_delete", json!({"name": "a"})).await;
    assert_eq!(said, "E: Failed to delete MCP server: the gateway is shutting down");
}

#[tokio::test(start_paused = true)]
async fn a_backend_gets_only_so_much_at_once() {
    let rig = Rig::new(&[("mcpservers/a.yaml", LOCAL)]);
    rig.until_is("a", "running").await;
    let calls = (0..200).map(|_| rig.call("x_a_echo", json!({})));
    let mut calls: Vec<_> = calls.map(Box::pin).collect();
    std::future::poll_fn(|context| {
        calls.retain_mut(|call| call.as_mut().poll(context).is_pending());
        match calls.is_empty() {
            true => std::task::Poll::Ready(()),
            false => std::task::Poll::Pending,
        }
    })
    .await;
    assert_eq!(rig.fake.link("a").most_calls(), 64);
}

#[tokio::test(start_paused = true)]
async fn a_call_timeout_applies_to_the_next_calls_and_cuts_off_none() {
    let rig = Rig::new(&[("mcpservers/a.yaml", LOCAL)]);
    rig.until_is("a", "running").await;
    let generation = rig.engine().view().borrow().servers["a"].status.generation;
    rig.put("mcpservers/a.yaml", "command: server\ncallTimeout: 7\n");
    rig.until(|view| view.servers["a"].server.spec.call_timeout == 7).await;
    sleep(Duration::from_secs(60)).await;
    let now = rig.engine().view().borrow().servers["a"].status.generation;
    assert_eq!(now, generation, "it stays connected");
}

fn checked_often() -> EngineTiming {
    let (check_interval, relist_debounce) = (Some(Duration::from_secs(10)), Duration::from_secs(2));
    EngineTiming { check_interval, relist_debounce, ..EngineTiming::default() }
}

#[tokio::test(start_paused = true)]
async fn a_change_just_before_a_health_check_is_listed() {
    let rig = Rig::timed(checked_often(), Fake::default(), &[("mcpservers/a.yaml", REMOTE)]);
    rig.until_is("a", "connected").await;
    // The check is due within the debounce interval.
    sleep(Duration::from_secs(9)).await;
    rig.fake.link("a").offer(vec!["echo", "new"]);
    timeout(Duration::from_secs(60), rig.until_listed("x_a_new")).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn failed_health_checks_do_not_cut_calls() {
    let fake = Fake::default();
    fake.says("echo", [Said::Nothing]);
    let rig = Rig::timed(checked_often(), fake, &[("mcpservers/a.yaml", REMOTE)]);
    rig.until_is("a", "connected").await;
    let link = rig.fake.link("a");
    link.stop_listing();
    let call = timeout(Duration::from_secs(60), rig.try_call("x_a_echo", json!({})));
    assert!(call.await.is_err(), "the call was cut");
    assert!(link.listed() > 3, "{} checks", link.listed());
    assert_eq!(rig.fake.closed(), Vec::<String>::new());
    // Between calls they count.
    rig.until(|view| view.servers["a"].status.failures > 0).await;
    assert_eq!(rig.fake.closed(), ["a"]);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_hangs_during_a_call_is_lost_in_the_end() {
    let fake = Fake::default();
    fake.says("echo", [Said::Nothing]);
    let rig = Rig::timed(checked_often(), fake, &[("mcpservers/a.yaml", REMOTE)]);
    rig.until_is("a", "connected").await;
    rig.fake.link("a").stop_listing();
    let lost = rig.until(|view| view.servers["a"].status.failures > 0);
    let lost = timeout(Duration::from_secs(120), lost);
    tokio::select! {
        biased;
        lost = lost => drop(lost.unwrap()),
        _ = rig.try_call("x_a_echo", json!({})) => panic!("the call ended first"),
    }
    assert_eq!(rig.fake.closed(), ["a"]);
}

#[tokio::test(start_paused = true)]
async fn a_change_that_could_not_be_listed_is_listed_later() {
    let rig = Rig::timed(checked_often(), Fake::default(), &[("mcpservers/a.yaml", REMOTE)]);
    rig.until_is("a", "connected").await;
    let link = rig.fake.link("a");
    link.stop_listing();
    link.offer(vec!["echo", "new"]);
    sleep(Duration::from_secs(5)).await;
    link.resume_listing();
    timeout(Duration::from_secs(60), rig.until_listed("x_a_new")).await.unwrap();
    assert_eq!(rig.fake.closed(), Vec::<String>::new());
}
