//! The stateless era over HTTP.

use std::time::Duration;

use muster_core::request::Change;
use muster_mcp::http::HttpOptions;
use serde_json::{Value, json};

use super::client::{call, modern, request, start, start_with};

const VERSION: &str = "io.modelcontextprotocol/protocolVersion";
const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";

#[tokio::test]
async fn checks_run_in_order() {
    let server = start().await;
    let full = json!({VERSION: "2026-07-28", CAPABILITIES: {}});
    let version = ("mcp-protocol-version", "2026-07-28");
    let call = ("mcp-method", "tools/call");
    for (headers, method, meta, status, code) in [
        (vec![], "tools/call", full.clone(), 400, -32020),
        (vec![], "server/discover", json!({}), 400, -32020),
        (vec![version], "tools/call", Value::Null, 400, -32602),
        (vec![version], "tools/call", json!({VERSION: "2026-07-28"}), 400, -32602),
        (
            vec![("mcp-protocol-version", "2025-11-25"), call],
            "tools/call",
            full.clone(),
            400,
            -32020,
        ),
        (vec![("mcp-protocol-version", "2099-01-01")], "tools/call", full.clone(), 400, -32020),
        (
            vec![("mcp-protocol-version", "2099-01-01"), call],
            "tools/call",
            json!({VERSION: "2099-01-01", CAPABILITIES: {}}),
            400,
            -32022,
        ),
        (vec![version], "nope", full.clone(), 400, -32020),
        (vec![version, call], "nope", full.clone(), 400, -32020),
        (vec![version, ("mcp-method", "nope")], "nope", full.clone(), 404, -32601),
        (vec![version, ("mcp-method", "ping")], "ping", full.clone(), 404, -32601),
        (vec![version, ("mcp-method", "initialize")], "initialize", full.clone(), 404, -32601),
        (vec![version, ("mcp-method", "tasks/get")], "tasks/get", full.clone(), 404, -32601),
        (vec![version, call], "tools/call", full.clone(), 400, -32020),
        (vec![version, call, ("mcp-name", "other")], "tools/call", full.clone(), 400, -32020),
        (vec![version, call, ("mcp-name", "nope")], "tools/call", full.clone(), 200, -32602),
    ] {
        let mut params = json!({"name": "nope"});
        if !meta.is_null() {
            params["_meta"] = meta;
        }
        let reply = server.post(&headers, &request(7, method, &params)).await;
        let seen = (reply.status.as_u16(), reply.headers.contains_key("mcp-session-id"));
        let answer = reply.json().await;
        assert_eq!(seen, (status, false), "{headers:?} {method} {params} {answer}");
        assert_eq!(answer["error"]["code"], code, "{headers:?} {method} {params} {answer}");
        assert_eq!(answer["id"], 7);
    }
}

#[tokio::test]
async fn an_unknown_version_gets_the_supported_ones() {
    let server = start().await;
    let meta = json!({VERSION: "2099-01-01", CAPABILITIES: {}});
    let headers = [("mcp-protocol-version", "2099-01-01"), ("mcp-method", "tools/list")];
    let reply = server.post(&headers, &request(1, "tools/list", &json!({"_meta": meta}))).await;
    assert_eq!(
        reply.json().await["error"]["data"],
        json!({"supported": ["2026-07-28"], "requested": "2099-01-01"})
    );
}

#[tokio::test]
async fn results_have_a_type() {
    let server = start().await;
    let discovered = server.modern(1, "server/discover", json!({})).await.json().await;
    let result = &discovered["result"];
    assert_eq!(result["supportedVersions"][0], "2026-07-28");
    assert_eq!(
        result["capabilities"]["resources"],
        json!({"subscribe": true, "listChanged": true})
    );
    for (method, params, keep) in [
        ("server/discover", json!({}), Some((0, "private"))),
        ("tools/list", json!({}), Some((60_000, "public"))),
        ("resources/list", json!({}), Some((60_000, "public"))),
        ("resources/templates/list", json!({}), Some((60_000, "public"))),
        ("prompts/list", json!({}), Some((60_000, "public"))),
        ("resources/read", json!({"uri": "a:b"}), Some((0, "private"))),
        ("prompts/get", json!({"name": "p"}), None),
        ("completion/complete", json!({"ref": {}, "argument": {}}), None),
        ("tools/call", call("echo"), None),
        ("tools/call", call("modern"), Some((5, "public"))),
    ] {
        let reply = server.modern(1, method, params).await;
        assert_eq!(reply.status.as_u16(), 200, "{method}");
        let result = reply.json().await["result"].take();
        assert_eq!(result["resultType"], "complete", "{method}");
        assert_eq!(result["_meta"]["io.modelcontextprotocol/serverInfo"]["name"], "fake");
        let (ttl, scope) = keep.unzip();
        assert_eq!(result.get("ttlMs"), ttl.map(|ttl| json!(ttl)).as_ref(), "{method}");
        assert_eq!(result.get("cacheScope"), scope.map(|s| json!(s)).as_ref(), "{method}");
    }
}

#[tokio::test]
async fn only_forwarded_meta_reaches_the_handler() {
    let server = start().await;
    let params = json!({"name": "echo", "_meta": {"traceparent": "00-1", "progressToken": 7}});
    let answer = server.modern(1, "tools/call", params).await.json().await;
    assert_eq!(
        answer["result"]["content"][0]["text"],
        r#"- {"traceparent":"00-1","progressToken":7}"#
    );
}

#[tokio::test]
async fn errors_have_http_statuses() {
    let server = start().await;
    let reply = server.modern(1, "tools/call", call("needy")).await;
    assert_eq!(reply.status.as_u16(), 400);
    let error = reply.json().await["error"].take();
    assert_eq!(error["code"], -32021);
    assert_eq!(error["data"], json!({"requiredCapabilities": {"sampling": {}}}));
    let reply = server.modern(1, "resources/read", json!({"uri": "a:gone"})).await;
    assert_eq!(reply.status.as_u16(), 200);
    let error = reply.json().await["error"].take();
    assert_eq!((error["code"].as_i64(), &error["data"]["uri"]), (Some(-32602), &json!("a:gone")));
    let reply = server.modern(1, "tools/call", call("crash")).await;
    assert_eq!(reply.json().await["error"]["code"], -32603);
}

#[tokio::test]
async fn progress_precedes_the_response() {
    let server = start().await;
    let mut reply = server.modern(4, "tools/call", call("progress")).await;
    assert_eq!(reply.header("content-type"), "text/event-stream");
    assert_eq!(reply.header("x-accel-buffering"), "no");
    for step in 1..=2 {
        let event = reply.event().await.unwrap();
        assert_eq!(event["method"], "notifications/progress");
        assert_eq!(event["params"], json!({"progressToken": "t", "progress": step}));
    }
    let answer = reply.event().await.unwrap();
    assert_eq!((&answer["id"], &answer["result"]["resultType"]), (&json!(4), &json!("complete")));
    assert_eq!(reply.event().await, None);
}

#[tokio::test]
async fn log_messages_only_on_request() {
    let server = start().await;
    let answer = server.modern(1, "tools/call", call("log")).await.json().await;
    assert_eq!(answer["result"]["content"][0]["text"], "logged");
    let mut params = call("log");
    params["_meta"] = json!({"io.modelcontextprotocol/logLevel": "warning"});
    let mut reply = server.modern(1, "tools/call", params.clone()).await;
    assert_eq!(reply.event().await.unwrap()["params"]["level"], "error");
    assert_eq!(reply.event().await.unwrap()["id"], 1);
    params["_meta"] = json!({"io.modelcontextprotocol/logLevel": "loud"});
    let reply = server.modern(1, "tools/call", params).await;
    assert_eq!(reply.status.as_u16(), 400);
    assert_eq!(reply.json().await["error"]["code"], -32602);
}

#[tokio::test]
async fn input_requests_are_results() {
    let server = start().await;
    let result = server.modern(1, "tools/call", call("ask")).await.json().await["result"].take();
    assert_eq!(result["resultType"], "input_required");
    assert_eq!(result["inputRequests"]["q"]["method"], "elicitation/create");
    assert_eq!(result["requestState"], "s");
    assert_eq!(result.get("ttlMs"), None);
    let mut params = call("ask");
    params["inputResponses"] = json!({"q": {"action": "accept"}});
    params["requestState"] = result["requestState"].clone();
    let result = server.modern(2, "tools/call", params).await.json().await["result"].take();
    assert_eq!(result["content"][0]["text"], r#"{"q":{"action":"accept"}} "s""#);
}

#[tokio::test]
async fn closing_the_connection_cancels() {
    let mut server = start().await;
    let reply = server.modern(1, "tools/call", call("talking")).await;
    assert_eq!(server.journal().await, "began talking");
    drop(reply);
    assert_eq!(server.journal().await, "dropped talking");
    // Nothing was said yet: there is not even a response.
    {
        let waiting = server.modern(1, "tools/call", call("slow"));
        tokio::time::timeout(Duration::from_millis(300), waiting).await.err().unwrap();
    }
    assert_eq!(server.journal().await, "began slow");
    assert_eq!(server.journal().await, "dropped slow");
}

#[tokio::test]
async fn keep_alives_are_sent() {
    let keep_alive = Duration::from_millis(50);
    let server = start_with(HttpOptions { keep_alive, ..HttpOptions::default() }).await;
    let mut reply = server.modern(1, "tools/call", call("brief")).await;
    assert_eq!(reply.raw_event().await.unwrap(), ": working");
    assert_eq!(reply.raw_event().await.unwrap(), ": keep-alive");
    server.fake.finish.notify_one();
    let answer = reply.event().await.unwrap();
    assert_eq!(answer["result"]["content"][0]["text"], "finished");
}

#[tokio::test]
async fn change_notifications() {
    let mut server = start().await;
    let params = json!({"notifications": {
        "toolsListChanged": true, "promptsListChanged": false,
        "resourceSubscriptions": ["a:b", "a:gone"],
    }});
    let mut reply = server.modern(9, "subscriptions/listen", params).await;
    let tag = json!({"io.modelcontextprotocol/subscriptionId": 9});
    let event = reply.event().await.unwrap();
    assert_eq!(event["method"], "notifications/subscriptions/acknowledged");
    assert_eq!(
        event["params"],
        json!({
            "notifications": {"toolsListChanged": true, "resourceSubscriptions": ["a:b"]},
            "_meta": tag,
        })
    );
    assert_eq!(server.journal().await, "subscribed a:b");
    for change in [
        Change::Prompts,
        Change::Resource { uri: "c:d".to_owned() },
        Change::Tools,
        Change::Resource { uri: "a:b".to_owned() },
    ] {
        server.fake.changes.send(change).unwrap();
    }
    let event = reply.event().await.unwrap();
    assert_eq!(event["method"], "notifications/tools/list_changed");
    assert_eq!(event["params"], json!({"_meta": tag}));
    let event = reply.event().await.unwrap();
    assert_eq!(event["method"], "notifications/resources/updated");
    assert_eq!(event["params"], json!({"uri": "a:b", "_meta": tag}));
    drop(reply);
    assert_eq!(server.journal().await, "unsubscribed a:b");
}

#[tokio::test]
async fn other_methods_are_unknown() {
    let server = start().await;
    let headers = [("mcp-protocol-version", "2026-07-28")];
    let notice = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {}});
    assert_eq!(server.post(&headers, &notice).await.status.as_u16(), 202);
    let response = json!({"jsonrpc": "2.0", "id": 1, "result": {}});
    assert_eq!(server.post(&headers, &response).await.status.as_u16(), 400);
    for method in ["GET", "DELETE"] {
        let headers = [headers[0], ("mcp-session-id", "x"), ("accept", "text/event-stream")];
        assert_eq!(server.send(method, "/mcp", &headers, "").await.status.as_u16(), 405);
    }
}

#[tokio::test]
async fn names_beyond_ascii_travel_in_base64() {
    let server = start().await;
    let params = modern(json!({"uri": "a:ü"}));
    let headers = [
        ("mcp-protocol-version", "2026-07-28"),
        ("mcp-method", "resources/read"),
        ("mcp-name", "=?base64?YTrDvA==?="),
    ];
    let reply = server.post(&headers, &request(1, "resources/read", &params)).await;
    assert_eq!(reply.json().await["result"]["contents"][0]["uri"], "a:ü");
}

#[tokio::test]
async fn arguments_that_headers_repeat_are_compared() {
    let server = start().await;
    let call =
        request(1, "tools/call", &modern(json!({"name": "echo", "arguments": {"region": "eu"}})));
    let basic = [
        ("mcp-protocol-version", "2026-07-28"),
        ("mcp-method", "tools/call"),
        ("mcp-name", "echo"),
    ];
    for (more, status) in [
        (vec![("mcp-param-region", "eu")], 200),
        (vec![("mcp-param-region", "us")], 400),
        (vec![], 400),
        (vec![("mcp-param-region", "eu"), ("mcp-param-region", "us")], 400),
        (vec![("mcp-param-region", "eu"), ("mcp-name", "other")], 400),
        (vec![("mcp-param-region", "eu"), ("mcp-method", "tools/list")], 400),
    ] {
        let headers: Vec<_> = basic.iter().copied().chain(more.iter().copied()).collect();
        let reply = server.post(&headers, &call).await;
        assert_eq!(reply.status.as_u16(), status, "{more:?}");
        let code = &reply.json().await["error"]["code"];
        assert_eq!(code == -32020, status == 400, "{more:?}: {code}");
    }
}
