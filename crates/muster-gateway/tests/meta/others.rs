//! Resources and prompts through meta-tools.

use muster_core::{
    backend::{ResourceOperation, ResourceRequest},
    call::{CallError, Caller, Outcome},
    catalog::Offer,
    client::{Continuation, NoClient},
    name::BackendName,
};
use muster_gateway::surface::SurfaceContext;

use crate::gateway::{Answer, Gateway, block_on, listed, raw};

fn answer(ask: &ResourceRequest) -> Answer {
    let result = match &ask.operation {
        ResourceOperation::Read { uri } if uri == "a://mixed" => {
            r#"{"contents":[{"uri":"a://mixed","text":"one"},{"uri":"a://mixed","mimeType":"image/png","blob":"AAAA"},{"uri":"a://x","text":"two"}],"_meta":{"v/x":1.0}}"#
        }
        ResourceOperation::Read { uri } if uri == "a://broken" => {
            return Err(CallError::Upstream {
                code: -32603,
                message: "no disk".to_owned(),
                data: None,
            });
        }
        ResourceOperation::Read { .. } => r#"{"contents":[{"uri":"a://b","text":"hello"}]}"#,
        _ => {
            r#"{"description":"d","messages":[{"role":"user","content":{"type":"text","text":"Hello Ada"}},{"role":"user","content":{"type":"image","data":"AA==","mimeType":"image/png","x":1.0}}]}"#
        }
    };
    Ok(Outcome::Raw(raw(result)))
}

fn gateway() -> Gateway {
    let resource = |name: &str, local: &str, rest: &str| {
        listed("srv", name, local, &format!(r#"{{"uri":"{local}"{rest}}}"#))
    };
    let offer = Offer {
        resources: vec![
            resource("a://b", "a://b", r#","name":"b","mimeType":"text/plain""#),
            resource(
                "a://a",
                "a://a",
                r#","name":"a","description":"First\nmore","title":"A","size":1.0"#,
            ),
            resource("a://mixed", "a://mixed", ""),
            resource("a://broken", "a://broken", ""),
            resource("x_srv_plain", "plain", r#","name":"plain","mimeType":"""#),
        ],
        templates: vec![listed(
            "srv",
            "t://{id}/x",
            "t://{id}/x",
            r#"{"uriTemplate":"t://{id}/x","name":"t"}"#,
        )],
        prompts: vec![
            listed(
                "srv",
                "x_srv_greet",
                "greet",
                r#"{"name":"greet","description":"Say hello\nnicely","arguments":[{"name":"who","description":"who","required":true}]}"#,
            ),
            listed("srv", "x_srv_bare", "bare", r#"{"name":"bare","arguments":[ ]}"#),
        ],
        ..Offer::default()
    };
    Gateway::new().with("srv", offer, |_| panic!("not called"), answer)
}

#[track_caller]
fn check(tool: &str, arguments: &str, expect: &str) {
    assert_eq!(gateway().text(tool, arguments), expect, "{tool} {arguments}");
}

#[test]
fn list_resources() {
    check(
        "list_resources",
        "{}",
        r#"[{"uri":"a://a","name":"a","description":"First"},{"uri":"a://b","name":"b","description":"b","mimeType":"text/plain"},{"uri":"a://broken","name":""},{"uri":"a://mixed","name":""},{"uri":"x_srv_plain","name":"plain","description":"plain"},{"uriTemplate":"t://{id}/x","name":"t","description":"t"}]"#,
    );
    check(
        "list_resources",
        r#"{"limit":1,"offset":1}"#,
        "[{\"uri\":\"a://b\",\"name\":\"b\",\"description\":\"b\",\"mimeType\":\"text/plain\"}]\n---\n1 of 6 resources; for the next ones pass offset=2",
    );
    check("list_resources", r#"{"limit":0}"#, "!limit must be at least 1");
    assert_eq!(Gateway::new().text("list_resources", "{}"), "No resources available");
}

#[test]
fn describe_resource() {
    check(
        "describe_resource",
        r#"{"uri":"a://b"}"#,
        r#"{"uri":"a://b","name":"b","mimeType":"text/plain","description":""}"#,
    );
    check(
        "describe_resource",
        r#"{"uri":"a://a"}"#,
        r#"{"uri":"a://a","name":"a","description":"First\nmore","title":"A","size":1.0,"mimeType":""}"#,
    );
    check(
        "describe_resource",
        r#"{"uri":"x_srv_plain"}"#,
        r#"{"uri":"x_srv_plain","name":"plain","mimeType":"","description":""}"#,
    );
    check(
        "describe_resource",
        r#"{"uri":"t://{id}/x"}"#,
        r#"{"uriTemplate":"t://{id}/x","name":"t","description":"","mimeType":""}"#,
    );
    check("describe_resource", "{}", "!uri argument is required");
    check(
        "describe_resource",
        r#"{"uri":"a://mixd"}"#,
        "!Resource not found: a://mixd\nhint: nearest names: a://mixed",
    );
    check("describe_resource", r#"{"uri":"zzz"}"#, "!Resource not found: zzz");
}

#[test]
fn get_resource() {
    check("get_resource", r#"{"uri":"a://b"}"#, "hello");
    check("get_resource", "{}", "!uri argument is required");
    check("get_resource", r#"{"uri":"zzz"}"#, "!Resource not found: zzz");
    check("get_resource", r#"{"uri":"a://broken"}"#, "!Resource retrieval failed: no disk");
    let gateway = gateway();
    let mixed = gateway.result("get_resource", r#"{"uri":"a://mixed"}"#);
    assert_eq!(
        mixed.get(),
        r#"{"content":[{"type":"text","text":"one\n[Binary data: 4 bytes]\ntwo"},{"type":"resource","resource":{"uri":"a://mixed","mimeType":"image/png","blob":"AAAA"}}],"isError":false,"_meta":{"v/x":1.0}}"#
    );
    assert_eq!(gateway.text("get_resource", r#"{"uri":"x_srv_plain"}"#), "hello");
    assert_eq!(gateway.text("get_resource", r#"{"uri":"t://7/x"}"#), "hello");
    assert_eq!(gateway.heard(), ["read a://mixed", "read plain", "read t://7/x"]);
}

#[test]
fn list_and_describe_prompts() {
    check(
        "list_prompts",
        "{}",
        r#"[{"name":"x_srv_bare","description":""},{"name":"x_srv_greet","description":"Say hello"}]"#,
    );
    assert_eq!(Gateway::new().text("list_prompts", "{}"), "No prompts available");
    check(
        "describe_prompt",
        r#"{"name":"x_srv_greet"}"#,
        r#"{"name":"x_srv_greet","description":"Say hello\nnicely","arguments":[{"name":"who","description":"who","required":true}]}"#,
    );
    check(
        "describe_prompt",
        r#"{"name":"x_srv_bare"}"#,
        r#"{"name":"x_srv_bare","description":""}"#,
    );
    check("describe_prompt", "{}", "!name argument is required");
    check(
        "describe_prompt",
        r#"{"name":"greet"}"#,
        "!Prompt not found: greet\nhint: nearest names: x_srv_greet",
    );
}

#[test]
fn get_prompt() {
    check("get_prompt", "{}", "!name argument is required");
    check(
        "get_prompt",
        r#"{"name":"x_srv_greet","arguments":"Ada"}"#,
        "!arguments must be a JSON object",
    );
    check(
        "get_prompt",
        r#"{"name":"x_srv_greet","arguments":[]}"#,
        "!arguments must be a JSON object",
    );
    check("get_prompt", r#"{"name":"zzz"}"#, "!Prompt not found: zzz");
    let gateway = gateway();
    let arguments = r#"{"name":"x_srv_greet","arguments":{"who":"Ada","n":1.50,"b":true,"l":[1, "x"],"no":null}}"#;
    // The picture is a block of its own, once.
    let result = gateway.result("get_prompt", arguments);
    assert_eq!(
        result.get(),
        r#"{"content":[{"type":"text","text":"[{\"role\":\"user\",\"content\":{\"type\":\"text\",\"text\":\"Hello Ada\"}},{\"role\":\"user\",\"content\":{\"type\":\"image\",\"mimeType\":\"image/png\",\"dataSize\":4,\"block\":1}}]"},{"type":"image","data":"AA==","mimeType":"image/png","x":1.0}],"isError":false}"#
    );
    gateway.result("get_prompt", r#"{"name":"x_srv_bare","arguments":"{\"a\":1}"}"#);
    gateway.result("get_prompt", r#"{"name":"x_srv_bare","arguments":null}"#);
    assert_eq!(
        gateway.heard(),
        [
            r#"prompt greet {"who":"Ada","n":"1.50","b":"true","l":"[1, \"x\"]"}"#,
            r#"prompt bare {"a":"1"}"#,
            "prompt bare {}"
        ]
    );
}

#[test]
fn only_backends_in_the_catalog_are_requested() {
    let (gateway, server) = (gateway(), BackendName::new("srv"));
    gateway.change(|state| state.catalog = state.catalog.without(&server));
    let what = ResourceOperation::Read { uri: "a://b".to_owned() };
    let ask =
        ResourceRequest { operation: what, meta: None, continuation: Continuation::default() };
    let (caller, client) = (Caller::local(), NoClient::shared());
    let (dispatcher, snapshot) = (&gateway.dispatcher, &gateway.dispatcher.snapshot(&caller));
    let cx = SurfaceContext { dispatcher, snapshot, caller: &caller, client: &client };
    let asked = cx.ask(&server, ask);
    assert_eq!(
        block_on(asked).unwrap_err().to_string(),
        "backend `srv` is not available: it is not connected"
    );
    assert!(gateway.heard().is_empty());
}
