//! Files edited by hand and by tools.

use std::{fs, path::Path, time::Duration};

use muster_core::connect::Endpoint;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout};

use crate::{
    fake::{Fake, Plan},
    rig::{LOCAL, REMOTE, Rig},
};

/// Half a second is the goal; a busy machine may take longer.
const SOON: Duration = Duration::from_secs(2);

/// The state of servers that tools and files must agree on.
async fn shown(rig: &Rig) -> Value {
    let mut list = rig.ask("core_mcpserver_list", json!({"showAll": true})).await;
    for server in list["mcpServers"].as_array_mut().unwrap() {
        let server = server.as_object_mut().unwrap();
        server.remove("lastAttempt");
        // Only a tool knows who calls it.
        server.remove("registeredBy");
    }
    json!([list, rig.tools()])
}

#[tokio::test(start_paused = true)]
async fn tools_and_hands_end_in_the_same_place() {
    let (by_tool, by_hand) = (Rig::new(&[]), Rig::new(&[]));
    let definition = json!({"name": "a", "type": "streamable-http", "url": "http://h/mcp",
        "autoStart": true, "toolPrefix": "p", "headers": {"X-A": "b"}});
    assert_eq!(
        by_tool.call("core_mcpserver_create", definition).await,
        "MCP server 'a' created successfully"
    );
    by_hand.put("mcpservers/a.yaml", "url: http://h/mcp\ntoolPrefix: p\nheaders: {X-A: b}\n");
    for rig in [&by_tool, &by_hand] {
        rig.until_is("a", "connected").await;
        assert_eq!(rig.tools(), ["x_p_echo"]);
    }
    assert_eq!(shown(&by_tool).await, shown(&by_hand).await);

    let update = json!({"name": "a", "url": "http://other/mcp", "toolPrefix": "q"});
    assert_eq!(
        by_tool.call("core_mcpserver_update", update).await,
        "MCP server 'a' updated successfully"
    );
    by_hand.put("mcpservers/a.yaml", "url: http://other/mcp\ntoolPrefix: q\nheaders: {X-A: b}\n");
    for rig in [&by_tool, &by_hand] {
        rig.until(|view| {
            let a = &view.servers["a"];
            a.server.spec.tool_prefix == "q" && a.status.generation == 2 && a.counts.tools == 1
        })
        .await;
        assert_eq!(rig.tools(), ["x_q_echo"]);
        let headers = vec![("X-A".to_owned(), "b".to_owned())];
        let url = "http://other/mcp".to_owned();
        assert_eq!(rig.fake.endpoint("a"), Some(Endpoint::Http { url, headers }));
    }
    assert_eq!(shown(&by_tool).await, shown(&by_hand).await);

    assert_eq!(
        by_tool.call("core_mcpserver_delete", json!({"name": "a"})).await,
        "MCP server 'a' deleted successfully"
    );
    assert!(!by_tool.path("mcpservers/a.yaml").exists());
    fs::remove_file(by_hand.path("mcpservers/a.yaml")).unwrap();
    for rig in [&by_tool, &by_hand] {
        rig.until(|view| view.servers.is_empty()).await;
        while rig.fake.closed().is_empty() {
            sleep(Duration::from_millis(1)).await;
        }
        assert!(rig.tools().is_empty());
        let state = rig.dispatcher.snapshot(&muster_core::call::Caller::local());
        assert_eq!(state.catalog.former_backend("x_q_echo").unwrap().as_str(), "a");
    }
    assert_eq!(shown(&by_tool).await, shown(&by_hand).await);

    // A server that is added again starts again.
    let definition = json!({"name": "a", "type": "stdio", "command": "x", "autoStart": true});
    by_tool.call("core_mcpserver_create", definition).await;
    by_hand.put("mcpservers/a.yaml", "command: x\n");
    for rig in [&by_tool, &by_hand] {
        rig.until_is("a", "running").await;
    }
}

#[tokio::test(start_paused = true)]
async fn only_relevant_changes_reconnect() {
    let rig = Rig::new(&[("mcpservers/a.yaml", REMOTE), ("mcpservers/b.yaml", "spec: {url: u}")]);
    let start = Instant::now();
    rig.until_is("a", "connected").await;
    rig.put("mcpservers/a.yaml", "url: http://h/mcp\ndescription: new\n");
    rig.until(|view| view.servers["a"].server.spec.description == "new").await;
    rig.put("mcpservers/a.yaml", "url: http://h/mcp\nautoStart: false\n");
    rig.until(|view| !view.servers["a"].server.spec.auto_start).await;
    sleep(Duration::from_secs(60)).await;
    assert_eq!(rig.fake.attempts("a", start).len(), 1);
    assert_eq!(rig.fake.attempts("b", start).len(), 0);
    rig.put("mcpservers/b.yaml", "spec: {url: other}");
    rig.until(|view| view.servers["b"].server.spec.url == "other").await;
    sleep(Duration::from_secs(60)).await;
    assert_eq!(rig.fake.attempts("b", start).len(), 0, "nobody wanted it");
    rig.put("mcpservers/b.yaml", "spec: {url: other, autoStart: true}");
    rig.until_is("b", "connected").await;
}

#[tokio::test(start_paused = true)]
async fn a_file_that_breaks_changes_nothing() {
    let rig = Rig::new(&[("mcpservers/a.yaml", REMOTE)]);
    rig.until_is("a", "connected").await;
    rig.put("mcpservers/a.yaml", "url: [\n");
    rig.put("mcpservers/b.yaml", LOCAL);
    rig.until_is("b", "running").await;
    let view = rig.until(|view| !view.problems.is_empty()).await;
    assert!(view.problems[0].to_string().contains("a.yaml:2: "), "{}", view.problems[0]);
    assert_eq!(rig.tools(), ["x_a_echo", "x_b_echo"]);
    rig.put("mcpservers/a.yaml", "url: http://other\n");
    rig.until(|view| view.problems.is_empty()).await;
}

#[tokio::test]
async fn edits_are_noticed_soon() {
    let rig = Rig::new(&[]);
    let start = Instant::now();
    rig.put("mcpservers/a.yaml", REMOTE);
    rig.until_is("a", "connected").await;
    assert!(start.elapsed() < SOON, "{:?}", start.elapsed());
    // Folders that are created later are watched too.
    rig.put(
        "clis/say.yaml",
        "command: echo\ntools: [{name: hello, description: d, command: hi}]\n",
    );
    timeout(SOON, rig.until_listed("cli_hello")).await.unwrap();
    rig.put("clis/say.yaml", "command: echo\ntools: [{name: bye, description: d, command: hi}]\n");
    timeout(SOON, rig.until_listed("cli_bye")).await.unwrap();
    fs::remove_file(rig.path("mcpservers/a.yaml")).unwrap();
    let start = Instant::now();
    rig.until(|view| view.servers.is_empty()).await;
    assert!(start.elapsed() < SOON, "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn the_status_is_written_once_and_never_brings_a_file_back() {
    let mine = "# mine\nurl: http://h/mcp # here\n";
    let settings = "writeStatus: true\n";
    let mut rig = Rig::new(&[("mcpservers/a.yaml", mine), ("config.yaml", settings)]);
    rig.until_is("a", "connected").await;
    while !rig.read("mcpservers/a.yaml").contains("state: Connected") {
        sleep(Duration::from_millis(10)).await;
    }
    let text = rig.read("mcpservers/a.yaml");
    assert!(text.starts_with(&format!("{mine}status:\n  state: Connected\n")), "{text}");
    let stamp = || fs::metadata(rig.path("mcpservers/a.yaml")).unwrap().modified().unwrap();
    let before = stamp();
    rig.call("core_config_reload", json!({})).await;
    sleep(Duration::from_secs(60)).await;
    assert_eq!(stamp(), before, "our own write is no reason to write");
    let generation = rig.engine().view().borrow().servers["a"].status.generation;
    assert_eq!(generation, 1, "nor to reconnect");
    fs::remove_file(rig.path("mcpservers/a.yaml")).unwrap();
    rig.fake.link("a").crash();
    rig.until(|view| view.servers.is_empty()).await;
    sleep(Duration::from_secs(60)).await;
    rig.again().await;
    assert!(!rig.path("mcpservers/a.yaml").exists());
}

#[tokio::test(start_paused = true)]
async fn files_of_people_stay_as_they_are_and_the_status_is_in_the_state_folder() {
    let mine = "# mine\nurl: http://h/mcp # here\n";
    let rig = Rig::new(&[("mcpservers/a.yaml", mine)]);
    rig.until_is("a", "connected").await;
    while !rig.path("servers.json").exists() {
        sleep(Duration::from_millis(10)).await;
    }
    let status: Value = serde_json::from_str(&rig.read("servers.json")).unwrap();
    assert_eq!(status["a"]["state"], "Connected", "{status}");
    assert_eq!(rig.read("mcpservers/a.yaml"), mine);
}

#[tokio::test(start_paused = true)]
async fn events_survive_a_restart() {
    let fake = Fake::default();
    fake.plan("a", [Plan::Up(vec!["echo"])]);
    let mut rig = Rig::with(fake, &[("mcpservers/a.yaml", REMOTE)]);
    rig.until_is("a", "connected").await;
    rig.again().await;
    rig.until_is("a", "connected").await;
    let starts = json!({"resourceName": "a", "eventType": "Normal"});
    let events = rig.ask("core_events", starts).await;
    let started = events
        .as_array()
        .unwrap()
        .iter()
        .filter(|event| event["reason"] == "MCPServerStarted")
        .count();
    assert_eq!(started, 2);
}

#[tokio::test]
async fn a_folder_that_is_created_again_is_watched_again() {
    let rig = Rig::new(&[("mcpservers/a.yaml", REMOTE)]);
    rig.until(|view| view.servers.contains_key("a")).await;
    let start = Instant::now();
    fs::rename(rig.dir.path(), rig.dir.path().with_extension("old")).unwrap();
    rig.until(|view| view.servers.is_empty()).await;
    rig.put("mcpservers/b.yaml", REMOTE);
    rig.until(|view| view.servers.contains_key("b")).await;
    assert!(start.elapsed() < 5 * SOON, "{:?}", start.elapsed());
    // By now it is watched, and an edit is noticed long before the next look at all files.
    let start = Instant::now();
    rig.put("mcpservers/c.yaml", REMOTE);
    rig.until(|view| view.servers.contains_key("c")).await;
    assert!(start.elapsed() < SOON, "{:?}", start.elapsed());
    fs::remove_dir_all(rig.dir.path().with_extension("old")).unwrap();
}

#[tokio::test]
async fn a_deleted_folder_that_is_created_again_is_watched_again() {
    for deleted in ["", "mcpservers"] {
        let rig = Rig::new(&[("mcpservers/a.yaml", REMOTE)]);
        rig.until(|view| view.servers.contains_key("a")).await;
        let start = Instant::now();
        fs::remove_dir_all(rig.path(deleted)).unwrap();
        rig.until(|view| view.servers.is_empty()).await;
        rig.put("mcpservers/b.yaml", REMOTE);
        rig.until(|view| view.servers.contains_key("b")).await;
        rig.put("mcpservers/c.yaml", REMOTE);
        rig.until(|view| view.servers.contains_key("c")).await;
        assert!(start.elapsed() < 5 * SOON, "{deleted:?}: {:?}", start.elapsed());
    }
}

/// File systems give the inode number of a deleted folder to the next one, and a renamed folder keeps it.
#[tokio::test]
async fn a_folder_with_the_inode_number_of_the_watched_one_is_watched() {
    let recreate = |folder: &Path| {
        fs::remove_dir_all(folder).unwrap();
        fs::create_dir(folder).unwrap();
    };
    let move_there_and_back = |folder: &Path| {
        let other = folder.with_file_name("other");
        fs::rename(folder, &other).unwrap();
        fs::rename(other, folder).unwrap();
        fs::remove_file(folder.join("a.yaml")).unwrap();
    };
    for replace in [recreate as fn(&Path), move_there_and_back] {
        let rig = Rig::new(&[("mcpservers/a.yaml", REMOTE)]);
        rig.until(|view| view.servers.contains_key("a")).await;
        replace(&rig.path("mcpservers"));
        rig.until(|view| view.servers.is_empty()).await;
        let start = Instant::now();
        rig.put("mcpservers/b.yaml", REMOTE);
        rig.until(|view| view.servers.contains_key("b")).await;
        rig.put("mcpservers/c.yaml", REMOTE);
        rig.until(|view| view.servers.contains_key("c")).await;
        assert!(start.elapsed() < 5 * SOON, "{:?}", start.elapsed());
    }
}

#[tokio::test]
async fn an_update_keeps_the_comments_of_a_file() {
    let rig = Rig::new(&[("mcpservers/a.yaml", "# mine\nurl: http://h/mcp # home\ntimeout: 9\n")]);
    rig.until(|view| view.servers.contains_key("a")).await;
    let update = json!({"name": "a", "description": "d", "reset": ["timeout"]});
    rig.call("core_mcpserver_update", update).await;
    assert_eq!(rig.read("mcpservers/a.yaml"), "# mine\nurl: http://h/mcp # home\ndescription: d\n");
}

#[tokio::test]
async fn a_link_to_another_folder_is_followed() {
    const STOPPED: &str = "url: http://h/mcp\nautoStart: false\n";
    let links = tempfile::tempdir().unwrap();
    let rig = Rig::linked(&links.path().join("current"), &[("mcpservers/a.yaml", STOPPED)]);
    rig.until(|view| view.servers.contains_key("a")).await;
    // The watcher must be idle: what it noticed before would hide that nobody watches the link. An edit that
    // changes the state of no server is the last one that it notices.
    let stored = async {
        while !rig.path("servers.json").exists() {
            tokio::task::yield_now().await;
        }
    };
    timeout(5 * SOON, stored).await.unwrap();
    rig.put("workflows/w.yaml", "steps: [{id: a, tool: core_service_list}]\n");
    rig.until(|view| view.workflows.get("w").is_some()).await;
    let next = links.path().join("next");
    fs::create_dir_all(next.join("mcpservers")).unwrap();
    fs::write(next.join("mcpservers/b.yaml"), STOPPED).unwrap();
    let start = Instant::now();
    std::os::unix::fs::symlink(&next, links.path().join("new")).unwrap();
    fs::rename(links.path().join("new"), links.path().join("current")).unwrap();
    rig.until(|view| view.servers.contains_key("b") && !view.servers.contains_key("a")).await;
    assert!(start.elapsed() < 3 * SOON, "{:?}", start.elapsed());
    let start = Instant::now();
    fs::write(next.join("mcpservers/c.yaml"), STOPPED).unwrap();
    rig.until(|view| view.servers.contains_key("c")).await;
    assert!(start.elapsed() < SOON, "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn what_killed_writers_left_is_removed() {
    let pid = std::process::id();
    let (ours, dead) = (format!("mcpservers/.tmp-{pid}-0"), "mcpservers/.tmp-999999999-1");
    let others = "mcpservers/.tmp-1-1";
    let files = [(ours.as_str(), ""), (dead, ""), (others, ""), ("mcpservers/a.yaml", REMOTE)];
    let rig = Rig::new(&files);
    rig.until(|view| view.servers.contains_key("a")).await;
    assert!(!rig.path(&ours).exists() && !rig.path(dead).exists());
    assert!(rig.path(others).exists(), "its writer is alive");
}
