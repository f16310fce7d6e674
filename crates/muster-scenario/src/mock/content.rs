//! Request handling for the resources and prompts of a mock.

use serde_json::{Map, Value, json};

use super::MockContent;
use crate::{
    go_format, template,
    wire::{INVALID_PARAMS, RpcError},
};

/// MCP: resource not found.
const RESOURCE_NOT_FOUND: i64 = -32002;

type RpcResult = Result<Value, RpcError>;

impl MockContent {
    /// The server capabilities.
    pub(super) fn capabilities(&self) -> Map<String, Value> {
        let mut capabilities = Map::new();
        if !self.resources.is_empty() || !self.templates.is_empty() {
            capabilities.insert("resources".to_owned(), json!({}));
        }
        if !self.prompts.is_empty() {
            capabilities.insert("prompts".to_owned(), json!({}));
        }
        capabilities
    }

    /// Handles a resource or prompt request. A mock without any does not know the methods.
    pub(super) fn handle(&self, method: &str, params: &Value) -> Option<RpcResult> {
        let (kind, _) = method.split_once('/')?;
        if !self.capabilities().contains_key(kind) {
            return None;
        }
        match method {
            "resources/list" => {
                Some(Ok(json!({"resources": without(&self.resources, &["text", "blob"])})))
            }
            "resources/templates/list" => Some(Ok(json!({"resourceTemplates": self.templates}))),
            "resources/read" => Some(self.read(params)),
            "prompts/list" => Some(Ok(json!({"prompts": without(&self.prompts, &["messages"])}))),
            "prompts/get" => Some(self.get(params)),
            _ => None,
        }
    }

    fn read(&self, params: &Value) -> RpcResult {
        let uri = params.get("uri").and_then(Value::as_str).unwrap_or_default();
        let found = named(&self.resources, "uri", uri);
        let missing = || RpcError::new(RESOURCE_NOT_FOUND, format!("Resource not found: {uri}"));
        let mut contents = found.ok_or_else(missing)?.clone();
        contents.retain(|key, _| ["uri", "mimeType", "text", "blob"].contains(&key.as_str()));
        Ok(json!({"contents": [contents]}))
    }

    fn get(&self, params: &Value) -> RpcResult {
        let name = params.get("name").and_then(Value::as_str).unwrap_or_default();
        let unknown = || RpcError::new(INVALID_PARAMS, format!("prompt '{name}' not found"));
        let prompt = named(&self.prompts, "name", name).ok_or_else(unknown)?;
        let given = params.get("arguments").cloned().unwrap_or_default();
        let given = go_format::as_received(given).as_object().cloned().unwrap_or_default();
        let messages = prompt.get("messages").cloned().unwrap_or_else(|| json!([]));
        let messages = template::render(&messages, &given)
            .map_err(|err| RpcError::new(INVALID_PARAMS, err.to_string()))?;
        let mut result = json!({ "messages": messages });
        if let (Some(text), Some(result)) = (prompt.get("description"), result.as_object_mut()) {
            result.insert("description".to_owned(), text.clone());
        }
        Ok(result)
    }
}

fn named<'a>(list: &'a [Value], key: &str, wanted: &str) -> Option<&'a Map<String, Value>> {
    let mut all = list.iter().filter_map(Value::as_object);
    all.find(|item| item.get(key).and_then(Value::as_str) == Some(wanted))
}

/// The items of a list, without the parts that are fetched one by one.
fn without(list: &[Value], hidden: &[&str]) -> Vec<Value> {
    let shown = list.iter().cloned().map(|mut item| {
        if let Some(item) = item.as_object_mut() {
            item.retain(|key, _| !hidden.contains(&key.as_str()));
        }
        item
    });
    shown.collect()
}
