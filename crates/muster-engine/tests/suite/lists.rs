//! The lists that clients see, and their change notifications.

use std::time::Duration;

use muster_core::{connect::ConnectionEvent, request::Change};
use serde_json::json;
use tokio::{
    sync::broadcast::Receiver,
    time::{Instant, sleep, timeout},
};

use crate::{
    fake::{Fake, Plan},
    rig::{REMOTE, Rig},
};

/// The change notifications until there are none for a while.
async fn heard(changes: &mut Receiver<Change>) -> Vec<Change> {
    let mut heard = Vec::new();
    while let Ok(Ok(change)) = timeout(Duration::from_secs(5), changes.recv()).await {
        heard.push(change);
    }
    heard
}

#[tokio::test(start_paused = true)]
async fn only_real_changes_are_notified() {
    let rig = Rig::new(&[("mcpservers/a.yaml", REMOTE)]);
    let mut changes = rig.engine().changes().subscribe();
    rig.until_is("a", "connected").await;
    assert_eq!(heard(&mut changes).await, [Change::Tools, Change::Resources]);
    let link = rig.fake.link("a");
    link.offer(vec!["echo"]);
    assert_eq!(heard(&mut changes).await, [], "it offers what it offered");
    assert_eq!(link.listed(), 2);
    link.offer(vec!["echo", "more"]);
    assert_eq!(heard(&mut changes).await, [Change::Tools]);
    assert_eq!(rig.tools(), ["x_a_echo", "x_a_more"]);
    link.happen(ConnectionEvent::ResourceUpdated { uri: "a://r".to_owned() });
    link.happen(ConnectionEvent::ResourceUpdated { uri: "notes".to_owned() });
    let updated = |uri: &str| Change::Resource { uri: uri.to_owned() };
    assert_eq!(heard(&mut changes).await, [updated("a://r"), updated("x_a_notes")]);
    rig.call("core_service_stop", json!({"name": "a"})).await;
    assert_eq!(heard(&mut changes).await, [Change::Tools, Change::Resources]);
    rig.put("mcpservers/b.yaml", "spec: {url: http://b}\n");
    rig.until(|view| view.servers.contains_key("b")).await;
    assert_eq!(
        heard(&mut changes).await,
        [Change::Tools],
        "changes of searchable tools are announced"
    );
    rig.put("mcpservers/b.yaml", "spec: {url: http://c}\n");
    rig.until(|view| view.servers["b"].server.spec.url == "http://c").await;
    assert_eq!(heard(&mut changes).await, [], "a server that does not run offers nothing");
}

#[tokio::test(start_paused = true)]
async fn a_burst_of_changes_is_listed_once_and_soon() {
    let rig = Rig::new(&[("mcpservers/a.yaml", REMOTE)]);
    rig.until_is("a", "connected").await;
    let link = rig.fake.link("a");
    let start = Instant::now();
    let mut changes = rig.engine().changes().subscribe();
    for _ in 0..10 {
        link.offer(vec!["echo", "more"]);
        sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(changes.recv().await, Ok(Change::Tools));
    assert!(start.elapsed() < Duration::from_millis(300), "{:?}", start.elapsed());
    sleep(Duration::from_secs(5)).await;
    assert_eq!(link.listed(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_name_conflict_is_won_by_the_first_server_by_name() {
    let fake = Fake::default();
    let later = Plan::Slow(Duration::from_secs(3), vec!["echo"]);
    fake.plan("a", [later]);
    let file = "url: http://h\ntoolPrefix: same\n";
    let files = [("mcpservers/a.yaml", file), ("mcpservers/b.yaml", file)];
    let rig = Rig::with(fake, &files);
    rig.until_is("b", "connected").await;
    assert_eq!(rig.call("x_same_echo", json!({})).await, "b did echo");
    rig.until_is("a", "connected").await;
    assert_eq!(rig.call("x_same_echo", json!({})).await, "a did echo", "though it came later");
    rig.call("core_service_stop", json!({"name": "a"})).await;
    assert_eq!(rig.call("x_same_echo", json!({})).await, "b did echo");
    let made =
        json!({"name": "0", "type": "sse", "url": "u", "toolPrefix": "same", "autoStart": true});
    rig.call("core_mcpserver_create", made).await;
    rig.until_is("0", "connected").await;
    assert_eq!(rig.call("x_same_echo", json!({})).await, "b did echo", "a newcomer takes nothing");
}
