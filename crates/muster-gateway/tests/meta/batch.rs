//! `call_tools`: several calls in one request.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::Poll,
};

use muster_core::{
    backend::{Backend, BoxFuture, CallContext},
    call::{CallError, Caller, Outcome},
    catalog::{Offer, ToolEntry},
    client::{
        CallCounter, CallRetry, CallSlot, ClientHandle, InputError, InputMode, InputRequest,
        NoClient, Notification, TooManyCalls,
    },
    json::Raw,
    name::BackendName,
    policy::Permitted,
    spooled::ToolResult,
    token_estimate,
};
use muster_gateway::surface::{Surface as _, SurfaceContext};
use serde_json::{Value, json};

use crate::gateway::{Answer, Gateway, block_on, plain, raw, tool, tool_call};

const ANY: &str = r#"{"type":"object"}"#;

/// A gateway whose tools are scripted by name.
fn gateway(run: impl Fn(&str, &Permitted) -> Answer + Send + Sync + 'static) -> Gateway {
    let read =
        r#"{"name":"look","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}"#;
    let erase =
        r#"{"name":"wipe","inputSchema":{"type":"object"},"annotations":{"destructiveHint":true}}"#;
    let named = |name: &str| plain("s", name, "T", ANY);
    let tools: Vec<ToolEntry> =
        vec![named("a"), named("b"), named("c"), tool("s", read), tool("s", erase)];
    let offer = Offer { tools, ..Offer::default() };
    let run = move |call: &Permitted| run(&call.entry().local_name, call);
    Gateway::new().with("s", offer, run, |_| panic!("not asked"))
}

fn text(text: &str) -> Answer {
    Ok(Outcome::Raw(raw(&json!({"content": [{"type": "text", "text": text}]}).to_string())))
}

fn calls(list: &Value) -> String {
    json!({"calls": list}).to_string()
}

#[test]
fn each_call_has_its_own_result_in_the_order_of_the_calls() {
    let gateway = gateway(|name, call| match name {
        "b" => Err(CallError::Upstream { code: -32000, message: "broken".into(), data: None }),
        name => text(&format!("{name} {}", call.raw_arguments())),
    });
    let list = json!([
        {"name": "a", "arguments": {"n": 1}},
        {"name": "b", "arguments": {}},
        {"name": "nope", "arguments": {}},
        {"tool": "c", "args": {"n": 2}},
        {"arguments": {}},
    ]);
    let results = gateway.json("call_tools", &calls(&list));
    let shown: Vec<(String, bool, String)> = results
        .as_array()
        .unwrap()
        .iter()
        .map(|result| {
            let text = result["content"][0]["text"].as_str().unwrap();
            let name = result["name"].as_str().unwrap().to_owned();
            (name, result["isError"] == true, text.lines().next().unwrap().to_owned())
        })
        .collect();
    let expect = [
        ("a", false, r#"a {"n":1}"#),
        ("b", true, "Tool execution failed: failed to call tool: broken"),
        ("nope", true, "Tool execution failed: tool not found: nope"),
        ("c", false, r#"c {"n":2}"#),
        ("", true, "name argument is required"),
    ];
    let expect = expect.map(|(name, failed, text)| (name.to_owned(), failed, text.to_owned()));
    assert_eq!(shown, expect);
    let result: Value =
        serde_json::from_str(gateway.result("call_tools", &calls(&list)).get()).unwrap();
    assert_eq!(result["isError"], false);
    assert!(result["_meta"]["muster/repaired"][0].as_str().unwrap().starts_with("call 4: "));
    // It is an error if nothing succeeded.
    let result = gateway.result("call_tools", &calls(&json!([{"name": "b"}])));
    assert!(result.get().contains(r#""isError":true"#), "{result}");
}

#[test]
fn requests_that_are_not_lists_of_calls() {
    let gateway = gateway(|name, _| text(name));
    let many = calls(&Value::Array(vec![json!({"name": "a"}); 21]));
    for (arguments, expect) in [
        ("{}", "!calls argument is required"),
        (r#"{"calls":{"name":"a"}}"#, "!calls must be a list such as"),
        (r#"{"calls":[]}"#, "!calls must have at least one call"),
        (&many, "!calls must have at most 20 calls, not 21"),
        (r#"{"call":[]}"#, "!`call_tools` has no argument `call`; did you mean `calls`?"),
        (
            r#"{"calls":[{"name":"a"},{"name":"b"}],"max_tokens":500}"#,
            "!max_tokens must be at least 600 for 2 calls",
        ),
        (r#"{"calls":[{"name":"a"}],"effect":"none"}"#, "!effect must be read, write or"),
    ] {
        let text = gateway.text("call_tools", arguments);
        assert!(text.starts_with(expect), "{arguments}: {text}");
    }
    assert_eq!(gateway.heard().len(), 0);
    let as_text = json!({"calls": format!("[{}0]", "0,".repeat(100_000))}).to_string();
    let text = gateway.text("call_tools", &as_text);
    assert_eq!(text, "!calls must have at most 20 calls, not 100001");
    let as_text = json!({"calls": r#"[{"name":"a"}]"#}).to_string();
    assert_eq!(gateway.json("call_tools", &as_text)[0]["content"][0]["text"], "a");
}

#[test]
fn the_effect_ceiling_holds_for_each_call() {
    let gateway = gateway(|name, _| text(name));
    let list = json!([{"name": "x_s_look"}, {"name": "x_s_wipe"}, {"name": "x_s_wipe", "effect": "write"}]);
    let arguments = json!({"calls": list, "effect": "read"}).to_string();
    let results = gateway.json("call_tools", &arguments);
    assert_eq!(results[0]["isError"], false);
    for refused in [1, 2] {
        assert_eq!(results[refused]["isError"], true, "{results}");
    }
    // A call may lower the ceiling for itself.
    let results = gateway.json("call_tools", &calls(&list));
    assert_eq!((&results[1]["isError"], &results[2]["isError"]), (&json!(false), &json!(true)));
}

#[test]
fn long_results_share_the_budget() {
    let long = |_: &str| "word ".repeat(20_000);
    let gateway = gateway(move |name, _| match name {
        "a" => text("short"),
        name => text(&long(name)),
    });
    let list = json!([{"name": "a"}, {"name": "b"}, {"name": "c"}]);
    let arguments = json!({"calls": list, "max_tokens": 4_000}).to_string();
    let answer = gateway.text("call_tools", &arguments);
    let cost = token_estimate::estimate(&answer);
    assert!((3_000..=4_100).contains(&cost), "{cost}");
    let results = gateway.json("call_tools", &arguments);
    assert_eq!(results[0]["content"][0]["text"], "short");
    let sizes = [1, 2].map(|at| results[at].to_string().len());
    assert!(sizes[0].abs_diff(sizes[1]) < 200, "{sizes:?}");
    let handles: Vec<&str> = [1, 2]
        .iter()
        .map(|at| results[*at]["_meta"]["muster/output"]["handle"].as_str().unwrap())
        .collect();
    assert_ne!(handles[0], handles[1]);
}

#[test]
fn failures_share_the_budget_too() {
    let gateway = gateway(|name, _| match name {
        "a" => text("short"),
        _ => Err(CallError::Upstream {
            code: -32000,
            message: "\"broken\" \\ ".repeat(10_000),
            data: Some(raw(&json!(vec!["data"; 10_000]).to_string())),
        }),
    });
    let unknown = "none ".repeat(10_000);
    let list = json!([
        {"name": "a"},
        {"name": "b"},
        {"name": unknown},
        {"name": "c", "grep": "(".repeat(4_000)},
        {"name": "c", "effect": unknown},
        {"tool": unknown, "arguments": 7},
    ]);
    for budget in [1_800, 4_000] {
        let arguments = json!({"calls": list, "max_tokens": budget}).to_string();
        let cost = token_estimate::estimate(&gateway.text("call_tools", &arguments));
        assert!(cost <= budget, "{cost} of {budget}");
        let results = gateway.json("call_tools", &arguments);
        assert_eq!(results[0]["content"][0]["text"], "short");
        assert_eq!(results[1]["_meta"]["muster/error"]["code"], -32000);
        for failed in results.as_array().unwrap().iter().skip(1) {
            assert!(failed["content"][0]["text"].as_str().unwrap().len() > 20, "{failed}");
        }
    }
    let one = calls(&json!([{"name": "b", "max_tokens": 300}]));
    let cost = token_estimate::estimate(gateway.text("call_tools", &one).trim_start_matches('!'));
    assert!(cost <= 300, "{cost}");
    let call = json!({"name": "b", "max_tokens": 500}).to_string();
    let cost = token_estimate::estimate(gateway.text("call_tool", &call).trim_start_matches('!'));
    assert!((300..=500).contains(&cost), "{cost}");
}

#[test]
fn projections_and_budgets_of_single_calls() {
    let gateway = gateway(|_, _| text(&json!({"list": vec!["word"; 5_000]}).to_string()));
    let list = json!([
        {"name": "a", "select": "$.list[0]"},
        {"name": "b", "max_tokens": 400},
        {"name": "c", "select": "list"},
    ]);
    let results = gateway.json("call_tools", &calls(&list));
    assert_eq!(results[0]["content"][0]["text"], "word");
    assert!(token_estimate::estimate(&results[1].to_string()) <= 440, "{}", results[1]);
    assert!(results[2]["content"][0]["text"].as_str().unwrap().starts_with("select must be"));
    assert_eq!(gateway.heard().len(), 2);
}

#[test]
fn pictures_are_blocks_in_the_order_of_the_calls() {
    let picture = |data: &str| json!({"type": "image", "data": data, "mimeType": "image/png"});
    let gateway = gateway(move |name, _| {
        let content = json!([{"type": "text", "text": name}, picture(name)]);
        Ok(Outcome::Raw(raw(&json!({"content": content}).to_string())))
    });
    let list = json!([{"name": "a"}, {"name": "b"}]);
    let result: Value =
        serde_json::from_str(gateway.result("call_tools", &calls(&list)).get()).unwrap();
    assert_eq!(result["content"][1], picture("a"));
    assert_eq!(result["content"][2], picture("b"));
    let results: Value =
        serde_json::from_str(result["content"][0]["text"].as_str().unwrap()).unwrap();
    assert_eq!(results[0]["content"][1]["block"], 1);
    assert_eq!(results[1]["content"][1]["block"], 2);
}

/// A client whose caller may run one call beside its request.
#[derive(Debug, Default)]
struct LimitedClient {
    further: Arc<AtomicUsize>,
}

#[derive(Debug)]
struct Counted(Arc<AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

#[derive(Debug)]
struct Counter(Arc<AtomicUsize>);

impl CallCounter for Counter {
    fn begin(&self) -> BoxFuture<'_, Result<CallSlot, TooManyCalls>> {
        let begun: Result<CallSlot, TooManyCalls> = match self.0.load(Ordering::SeqCst) {
            0 => {
                self.0.fetch_add(1, Ordering::SeqCst);
                Ok(Box::new(Counted(Arc::clone(&self.0))))
            }
            _ => {
                let message = "Too many calls".to_owned();
                Err(TooManyCalls { message, retry: CallRetry::WhenOneEnds })
            }
        };
        Box::pin(std::future::ready(begun))
    }
}

impl ClientHandle for LimitedClient {
    fn capabilities(&self) -> Raw {
        raw("{}")
    }

    fn input_mode(&self) -> InputMode {
        InputMode::Unsupported
    }

    fn notify(&self, _: Notification) {}

    fn call_counter(&self) -> Option<Arc<dyn CallCounter>> {
        Some(Arc::new(Counter(Arc::clone(&self.further))))
    }

    fn request_input(&self, _: InputRequest) -> BoxFuture<'_, Result<Raw, InputError>> {
        Box::pin(std::future::ready(Err(InputError::Disconnected)))
    }
}

/// Lets another backend run the tools.
fn run_by(gateway: &Gateway, backend: Arc<dyn Backend>) {
    gateway.change(|state| drop(state.backends.insert(BackendName::new("s"), backend)));
}

/// A backend whose calls take a while.
#[derive(Debug, Default)]
struct Slow {
    running: AtomicUsize,
    most: AtomicUsize,
}

impl Backend for Slow {
    fn run<'a>(
        &'a self,
        _: CallContext<'a>,
        _: Permitted,
    ) -> BoxFuture<'a, Result<ToolResult, CallError>> {
        Box::pin(async move {
            let now = self.running.fetch_add(1, Ordering::SeqCst) + 1;
            self.most.fetch_max(now, Ordering::SeqCst);
            for _ in 0..10 {
                tokio::task::yield_now().await;
            }
            self.running.fetch_sub(1, Ordering::SeqCst);
            Ok(Outcome::text("done").into())
        })
    }
}

#[test]
fn calls_wait_for_each_other_where_their_caller_is_limited() {
    let limited: Arc<dyn ClientHandle> = Arc::new(LimitedClient::default());
    for (client, expect) in [(limited, 2), (NoClient::shared(), 6)] {
        let gateway = gateway(|name, _| text(name));
        let slow = Arc::new(Slow::default());
        run_by(&gateway, Arc::clone(&slow) as Arc<dyn Backend>);
        let list = calls(&Value::Array(vec![json!({"name": "a"}); 6]));
        let answer = gateway.send_as(&Caller::local(), &client, tool_call("call_tools", &list));
        let Ok(Outcome::Raw(result)) = answer else { panic!("{answer:?}") };
        let result: Value = serde_json::from_str(result.get()).unwrap();
        let results: Vec<Value> =
            serde_json::from_str(result["content"][0]["text"].as_str().unwrap()).unwrap();
        assert!(results.iter().all(|result| result["isError"] == false), "{results:?}");
        assert_eq!(slow.most.load(Ordering::SeqCst), expect);
    }
}

#[test]
fn calls_end_with_the_request() {
    let gateway = gateway(|name, _| text(name));
    let slow = Arc::new(Endless::default());
    run_by(&gateway, Arc::clone(&slow) as Arc<dyn Backend>);
    let (caller, client) = (Caller::local(), NoClient::shared());
    let list = calls(&Value::Array(vec![json!({"name": "a"}); 3]));
    let snapshot = &gateway.dispatcher.snapshot(&caller);
    let cx = SurfaceContext {
        dispatcher: &gateway.dispatcher,
        snapshot,
        caller: &caller,
        client: &client,
    };
    let mut running = gateway.meta.call(cx, tool_call("call_tools", &list));
    block_on(std::future::poll_fn(|polled| {
        assert!(running.as_mut().poll(polled).is_pending());
        Poll::Ready(())
    }));
    assert_eq!(slow.0.load(Ordering::SeqCst), 3);
    drop(running);
    assert_eq!(slow.0.load(Ordering::SeqCst), 0);
}

/// A backend whose calls never end by themselves, and the number of those that run.
#[derive(Debug, Default)]
struct Endless(Arc<AtomicUsize>);

impl Backend for Endless {
    fn run<'a>(
        &'a self,
        _: CallContext<'a>,
        _: Permitted,
    ) -> BoxFuture<'a, Result<ToolResult, CallError>> {
        Box::pin(async move {
            self.0.fetch_add(1, Ordering::SeqCst);
            let _running = Counted(Arc::clone(&self.0));
            std::future::pending().await
        })
    }
}

#[test]
fn pictures_of_all_calls_share_the_room_of_one_reply() {
    let gateway = gateway(|name, _| {
        let data = "A".repeat(400 * 1024);
        let picture = json!({"type": "image", "data": data, "mimeType": "image/png"});
        let content = json!([{"type": "text", "text": name}, picture]);
        Ok(Outcome::Raw(raw(&json!({"content": content}).to_string())))
    });
    let list = calls(&Value::Array(vec![json!({"name": "a"}); 5]));
    let result = gateway.result("call_tools", &list);
    assert!(result.get().len() < 1 << 20, "{}", result.get().len());
    let result: Value = serde_json::from_str(result.get()).unwrap();
    assert_eq!(result["content"].as_array().unwrap().len(), 3);
    let results: Value =
        serde_json::from_str(result["content"][0]["text"].as_str().unwrap()).unwrap();
    assert_eq!(results[1]["content"][1]["block"], 2);
    // The others can be read.
    let stored = &results[4]["content"][1]["get_output"];
    let picture: Value =
        serde_json::from_str(gateway.result("get_output", &stored.to_string()).get()).unwrap();
    assert_eq!(picture["content"][0]["mimeType"], "image/png");
}

#[test]
fn what_projections_leave_is_for_the_others() {
    let lines: Vec<String> = (0..20_000).map(|n| format!("line {n}")).collect();
    let gateway = gateway(move |_, _| text(&lines.join("\n")));
    let list = json!([{"name": "a", "grep": "line 7$"}, {"name": "b"}]);
    let results = gateway.json("call_tools", &calls(&list));
    assert_eq!(results[0]["content"][0]["text"], "8: line 7\n");
    let other = token_estimate::estimate(&results[1].to_string());
    assert!(other > 12_000, "{other}");
}

#[test]
fn a_member_of_the_server_does_not_replace_the_name() {
    let gateway =
        gateway(|_, _| Ok(Outcome::Raw(raw(r#"{"content":[],"name":"theirs","more":1}"#))));
    let text = gateway.text("call_tools", &calls(&json!([{"name": "a"}])));
    assert_eq!(text.matches(r#""name""#).count(), 1, "{text}");
    assert!(text.contains(r#""name":"a""#) && text.contains(r#""more":1"#), "{text}");
}
