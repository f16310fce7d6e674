//! Built-in tools for tokens of trusted issuers: exchanged at muster, or presented to a server directly.

use http::Request;
use serde_json::{Map, Value, json};

use super::{BuiltinResult, optional, required, token_ref};
use crate::{
    client::{Client, ClientTarget, NotificationStream},
    context::ScenarioContext,
    http as web,
};

const TOKEN_EXCHANGE: &str = "urn:ietf:params:oauth:grant-type:token-exchange";
const JWT: &str = "urn:ietf:params:oauth:token-type:jwt";

/// Exchanges a token at muster, without client authentication.
pub(super) async fn exchange(
    context: &mut ScenarioContext,
    args: &Map<String, Value>,
) -> BuiltinResult {
    let kind = "application/x-www-form-urlencoded";
    let request = Request::post("/oauth/token").header("content-type", kind);
    let response = web::send(context.instance.port(), request, form(context, args)?).await;
    let response = response.map_err(|err| format!("/oauth/token: {err}"))?;
    let status = response.status;
    let text = response.text().await.map_err(|err| format!("/oauth/token: {err}"))?;
    let answer: Value = serde_json::from_str(&text).unwrap_or_default();
    let member = |key: &str| answer.get(key).cloned().unwrap_or_default();
    if !status.is_success() {
        return Ok(json!({
            "isError": true,
            "success": false,
            "status": status.as_u16(),
            "error": member("error"),
            "error_description": member("error_description"),
        }));
    }
    let token = answer.get("access_token").and_then(Value::as_str);
    if let (Some(name), Some(token)) = (optional(args, "name"), token) {
        context.tokens.insert(name.to_owned(), token.to_owned());
    }
    Ok(json!({"success": true, "issued_token_type": member("issued_token_type")}))
}

/// The request of an exchange.
fn form(context: &ScenarioContext, args: &Map<String, Value>) -> Result<String, String> {
    let kind = optional(args, "subject_token_type").unwrap_or(JWT);
    let mut form = form_urlencoded::Serializer::new(String::new());
    form.append_pair("grant_type", TOKEN_EXCHANGE)
        .append_pair("subject_token", token_ref(context, args, "subject_token_ref")?)
        .append_pair("subject_token_type", kind);
    if optional(args, "actor_token_ref").is_some() {
        form.append_pair("actor_token", token_ref(context, args, "actor_token_ref")?);
        form.append_pair("actor_token_type", JWT);
    }
    for key in ["audience", "resource"] {
        if let Some(value) = optional(args, key) {
            form.append_pair(key, value);
        }
    }
    Ok(form.finish())
}

/// Calls a tool of a mock server directly, with a minted token.
pub(super) async fn call_protected(
    context: &mut ScenarioContext,
    args: &Map<String, Value>,
) -> BuiltinResult {
    let (server, tool) = (required(args, "server")?, required(args, "tool")?);
    let bearer = token_ref(context, args, "token_ref")?.to_owned();
    let port = context.instance.remote_port(server);
    let port = port.ok_or_else(|| format!("mock server '{server}' is not a remote one"))?;
    let own = context.client().map_err(|err| err.to_string())?.target().clone();
    let target =
        ClientTarget { port, bearer: Some(bearer), listening: NotificationStream::Closed, ..own };
    let refused = |err: String| json!({"success": false, "isError": true, "response": err});
    let client = match Client::connect(target).await {
        Ok(client) => client,
        Err(err) => return Ok(refused(err.to_string())),
    };
    let given = args.get("args").and_then(Value::as_object);
    let called = client.call_direct(tool, given, context.limit(None)).await;
    client.close().await;
    Ok(match called {
        Ok(answer) => json!({
            "success": !answer.is_error, "isError": answer.is_error, "response": answer.text(),
        }),
        Err(err) => refused(err.to_string()),
    })
}
