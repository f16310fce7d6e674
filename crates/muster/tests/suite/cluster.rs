//! A gateway with `kubernetes: true`, before it serves.

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{TcpListener, TcpStream},
    process::{Child, Command, Stdio},
    sync::mpsc,
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use super::{client::Folder, serve::MUSTER};

/// A gateway whose API server is at this port, and that listens on another.
fn start(api: u16, port: u16) -> (Folder, Child) {
    let config = json!({
        "kubernetes": true,
        "aggregator": {"port": port},
        "clis": {"bundled": "none"},
    });
    let kubeconfig = json!({
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "k"}}],
        "clusters": [{"name": "k", "cluster": {"server": format!("http://127.0.0.1:{api}")}}],
    });
    let folder = Folder::new(&[
        ("config.yaml", &config.to_string()),
        ("kubeconfig", &kubeconfig.to_string()),
    ]);
    fs::create_dir(folder.file("mcpservers")).unwrap();
    fs::write(folder.file("mcpservers/a.yaml"), "url: http://127.0.0.1:1/mcp\n").unwrap();
    let child = Command::new(MUSTER)
        .args(["serve", "--config-path"])
        .arg(folder.path())
        .env("MUSTER_STATE_PATH", folder.file("state"))
        .env("KUBECONFIG", folder.file("kubeconfig"))
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    (folder, child)
}

fn listener() -> (TcpListener, u16) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    (listener, port)
}

/// Answers one request: an empty list, or a watch that stays open.
fn answer(mut stream: TcpStream, requests: &mpsc::Sender<String>) -> Option<TcpStream> {
    let mut lines = BufReader::new(&stream).lines().map_while(Result::ok);
    let request = lines.next()?;
    lines.find(String::is_empty)?;
    let is_watch = request.contains("watch=true");
    requests.send(request).ok()?;
    let list = json!({"metadata": {"resourceVersion": "1"}, "items": []}).to_string();
    let (head, body) = match is_watch {
        true => (String::new(), String::new()),
        false => (format!("content-length: {}\r\n", list.len()), list),
    };
    write!(stream, "HTTP/1.1 200 OK\r\nconnection: close\r\n{head}\r\n{body}").ok()?;
    is_watch.then_some(stream)
}

#[test]
fn a_gateway_that_waits_for_the_api_server_can_be_stopped() {
    let (api, port) = listener();
    let (_folder, mut child) = start(port, 0);
    // It has asked, and is never answered.
    let _asked = api.accept().unwrap();
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn a_gateway_that_cannot_listen_takes_no_lease() {
    let (api, api_port) = listener();
    let (_taken, port) = listener();
    let (sender, requests) = mpsc::channel();
    std::thread::spawn(move || {
        let mut watches = Vec::new();
        for stream in api.incoming() {
            watches.extend(answer(stream.unwrap(), &sender));
        }
    });
    let (folder, mut child) = start(api_port, port);
    let mut said = String::new();
    child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert!(!child.wait().unwrap().success(), "{said}");
    let requests: Vec<String> = requests.try_iter().collect();
    assert!(requests.iter().any(|request| request.contains("/toolpolicies?")), "{requests:?}");
    assert!(!requests.iter().any(|request| request.contains("/leases")), "{requests:?}");
    // Files beside `kubernetes: true` have no effect, and are not forgotten silently.
    let place = format!("the files in mcpservers of {}", folder.path().display());
    assert!(said.contains(&place) && said.contains("muster migrate kubernetes"), "{said}");
}
