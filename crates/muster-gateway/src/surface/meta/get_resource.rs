//! `get_resource`: the contents of a resource.

use muster_core::{
    backend::{ResourceOperation, ResourceRequest},
    call::Outcome,
    json::{Raw, RawObject, raw},
};
use serde::Serialize;
use serde_json::value::RawValue;

use super::{
    MetaContext, MetaTool, OutcomeFuture, Run,
    arguments::MetaArguments,
    describe_resource,
    envelope::{Text, with_content},
};
use crate::surface::{
    ToolCall,
    resource_owner::{ResourceOwnerError, resource_owner},
};

pub(super) const TOOL: MetaTool = MetaTool {
    name: "get_resource",
    description: "Read a resource.",
    input_schema: r#"{"type":"object","properties":{"uri":{"type":"string"}},"required":["uri"]}"#,
    budget: 16_000,
    run: Run::Ask(run),
};

fn run<'a>(cx: &'a MetaContext<'a>, call: ToolCall) -> OutcomeFuture<'a> {
    Box::pin(async move {
        let ToolCall { arguments, meta, continuation, .. } = call;
        let uri = match MetaArguments::read(&arguments).required("uri") {
            Ok(uri) => uri,
            Err(problem) => return Ok(Outcome::failure(problem)),
        };
        let (backend, local) = match resource_owner(cx.request.snapshot, &uri) {
            Ok(owner) => owner,
            Err(ResourceOwnerError::Unknown) => return Ok(describe_resource::not_found(cx, &uri)),
            Err(ambiguous @ ResourceOwnerError::Ambiguous(_)) => {
                return Ok(Outcome::failure(ambiguous.to_string()));
            }
        };
        let ask = ResourceRequest {
            operation: ResourceOperation::Read { uri: local },
            meta,
            continuation,
        };
        Ok(match cx.request.ask(backend, ask).await {
            Ok(Outcome::Raw(result)) => contents(&result),
            Ok(outcome) => outcome,
            Err(error) => Outcome::failure(format!("Resource retrieval failed: {error}")),
        })
    })
}

/// All texts joined into one; binary contents are named in it and follow unchanged.
fn contents(result: &RawValue) -> Outcome {
    #[derive(Serialize)]
    struct Resource<'a> {
        r#type: &'static str,
        resource: &'a RawValue,
    }
    let result = RawObject::parse(result).unwrap_or_default();
    let contents: Vec<&RawValue> = result
        .get("contents")
        .and_then(|contents| serde_json::from_str(contents.get()).ok())
        .unwrap_or_default();
    let mut texts: Vec<String> = Vec::new();
    let mut others: Vec<Raw> = Vec::new();
    for one in contents {
        let object = RawObject::parse(one).unwrap_or_default();
        if let Some(text) = object.get_text("text") {
            texts.push(text);
            continue;
        }
        if let Some(blob) = object.get_text("blob") {
            texts.push(format!("[Binary data: {} bytes]", blob.len()));
        }
        others.push(raw(&Resource { r#type: "resource", resource: one }));
    }
    let mut content = vec![raw(&Text::of(&texts.join("\n")))];
    content.append(&mut others);
    with_content(&content, &result)
}
