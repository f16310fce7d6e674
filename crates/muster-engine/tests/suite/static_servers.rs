//! Servers named on the command line, supervised by the same units as all others, on a paused clock.

use std::{sync::Arc, time::Duration};

use muster_config::mcpserver::{McpServer, McpServerSpec, ServerType};
use muster_core::{
    backend::ToolCaller as _,
    call::{Call, Caller, Checking},
    client::NoClient,
    connect::Connector,
    json::raw,
    name::ToolName,
};
use muster_engine::{
    server_offer::Naming,
    static_servers::{StaticServer, StaticServers},
};
use muster_gateway::dispatch::{Dispatcher, GatewaySnapshot};
use serde_json::json;
use tokio::time::Instant;

use crate::fake::{Fake, Plan, Said, assert_backoff, permanent};

fn start(fake: &Fake, spec: McpServerSpec) -> (StaticServers, Dispatcher) {
    let server = Arc::new(McpServer::new("a", "default", spec));
    let connect: Arc<dyn Connector> = Arc::new(fake.clone());
    let static_server = StaticServer { server, naming: Naming::Plain };
    let servers = StaticServers::start(GatewaySnapshot::default(), vec![static_server], &connect);
    let dispatcher = Dispatcher::new(servers.snapshot());
    (servers, dispatcher)
}

async fn call(dispatcher: &Dispatcher) -> String {
    let call = Call::new(ToolName::new("echo"), raw(&json!({})), Checking::Strict);
    match dispatcher.call(&Caller::local(), &NoClient::shared(), call).await {
        Ok(outcome) => format!("{outcome:?}"),
        Err(error) => error.to_string(),
    }
}

#[tokio::test(start_paused = true)]
async fn every_failure_is_retried_with_backoff() {
    let fake = Fake::default();
    fake.plan("a", [permanent(), permanent(), permanent(), Plan::Up(vec!["echo"])]);
    let begin = Instant::now();
    let (servers, dispatcher) = start(&fake, McpServerSpec::of(ServerType::Stdio));
    servers.untried().wait_for(|untried| *untried == 0).await.unwrap();
    assert!(begin.elapsed() < Duration::from_secs(1), "clients wait for the first attempt only");
    let is_up = |snapshot: &Arc<GatewaySnapshot>| snapshot.catalog.get("echo").is_some();
    servers.snapshot().wait_for(is_up).await.unwrap();
    assert_backoff(&fake.attempts("a", begin), &[0.0, 1.0, 2.0, 4.0]);
    assert!(call(&dispatcher).await.contains("a did echo"));
    fake.link("a").crash();
    servers.snapshot().wait_for(|snapshot| !is_up(snapshot)).await.unwrap();
    servers.snapshot().wait_for(is_up).await.unwrap();
    servers.shut_down().await;
    assert_eq!(fake.closed(), ["a", "a"]);
}

#[tokio::test(start_paused = true)]
async fn timeouts_of_the_definition_apply() {
    let fake = Fake::default();
    fake.plan("a", [Plan::Hang, Plan::Up(vec!["echo"])]);
    fake.says("echo", [Said::Nothing]);
    let begin = Instant::now();
    let spec =
        McpServerSpec { timeout: 5, call_timeout: 7, ..McpServerSpec::of(ServerType::Stdio) };
    let (servers, dispatcher) = start(&fake, spec);
    servers.untried().wait_for(|untried| *untried == 0).await.unwrap();
    assert_eq!(begin.elapsed().as_secs(), 5);
    let is_up = |snapshot: &Arc<GatewaySnapshot>| snapshot.catalog.get("echo").is_some();
    servers.snapshot().wait_for(is_up).await.unwrap();
    let error = call(&dispatcher).await;
    assert!(error.contains("did not answer within 7 s"), "{error}");
    servers.shut_down().await;
}
