//! Built-in tools that log in, playing the user and the browser.
//!
//! The provider is not bypassed: the authorization URL of the gateway is checked by the same rules as a
//! request over the network.

use http::{Request, StatusCode};
use serde_json::{Map, Value, json};

use super::{BuiltinResult, oauth, optional, required, token_ref};
use crate::{
    client::ToolResponse,
    context::{MusterLogin, ScenarioContext},
    http::{self as web, Response},
    instance::random_hex,
    oauth::{authorize::AuthorizationRequest, jwt, records::UserIdentity},
    scenario::ScenarioServer,
};

/// Logs the current user in to a server: gets the URL from muster, approves, and follows the callback.
pub(super) async fn simulate_callback(
    context: &mut ScenarioContext,
    args: &Map<String, Value>,
) -> BuiltinResult {
    let server = required(args, "server")?;
    let args = Map::from_iter([("server".to_owned(), Value::from(server))]);
    let client = context.client().map_err(|err| err.to_string())?;
    let answer = client.call("core_auth_login", Some(&args), context.limit(None)).await;
    let answer = answer.map_err(|err| format!("core_auth_login failed: {err}"))?;
    let text = answer.text();
    let Some(url) = login_url_in(&answer) else {
        // There is no URL if muster logs in by itself, whether that works or not.
        if answer.is_error && !has_automatic_login(context, server) {
            return Err(format!("core_auth_login failed: {text}"));
        }
        let core = oauth::provider(context, server)?;
        core.mint(&context.identity(), "");
        return Ok(json!({
            "success": true,
            "server": server,
            "message": format!("No login is required by '{server}': {text}"),
        }));
    };
    let back = approve(context, &url).await?;
    let page = browse(context, &back).await?;
    let status = page.status;
    let text = page.text().await.unwrap_or_default();
    if !is_success(status) {
        return Err(format!("muster's callback responded with {status}: {text}"));
    }
    Ok(json!({
        "success": true,
        "server": server,
        "status_code": status.as_u16(),
        "message": format!("Completed the OAuth login for '{server}'"),
    }))
}

fn has_automatic_login(context: &ScenarioContext, server: &str) -> bool {
    let servers = &context.instance.setup().mcp_servers;
    let guard = servers.iter().find(|known| known.name == server).and_then(ScenarioServer::guard);
    guard.is_some_and(|guard| guard.forward_token || guard.exchange.is_some())
}

/// Logs in to muster itself, as `subject` or as the current user. With a subject, or with `full`, the current user and
/// those that are created later use muster's token.
pub(super) async fn log_in_to_muster(
    context: &mut ScenarioContext,
    args: &Map<String, Value>,
) -> BuiltinResult {
    if context.instance.providers().muster().is_none() {
        return Err("no mock OAuth server has use_as_muster_oauth_server".to_owned());
    }
    if let Some(subject) = optional(args, "subject") {
        context.set_identity(UserIdentity {
            subject: subject.to_owned(),
            ..UserIdentity::named(subject)
        });
    }
    let base = base(context);
    let redirect_uri = format!("{base}/oauth/callback");
    let client = register(context, &redirect_uri).await?;
    let verifier = format!("{}{}{}{}", random_hex(), random_hex(), random_hex(), random_hex());
    let state = format!("{}{}", random_hex(), random_hex());
    let query = form_urlencoded::Serializer::new(String::new())
        .append_pair("response_type", "code")
        .append_pair("client_id", &client)
        .append_pair("redirect_uri", &redirect_uri)
        .append_pair("state", &state)
        .append_pair("scope", "openid profile email groups offline_access")
        .append_pair("code_challenge", &jwt::challenge_of(&verifier))
        .append_pair("code_challenge_method", "S256")
        .finish();
    let address = format!("{base}/oauth/authorize?{query}");
    let sent = browse(context, &address).await?;
    let to_provider = location(sent, "/oauth/authorize").await?;
    let back = approve(context, &to_provider).await?;
    let page = browse(context, &back).await?;
    let status = page.status;
    if !is_success(status) {
        let text = page.text().await.unwrap_or_default();
        return Err(format!("muster's /oauth/callback responded with {status}: {text}"));
    }
    let mut message = "Authenticated to muster, ID token stored".to_owned();
    let is_full = args.get("full").and_then(Value::as_bool).unwrap_or(args.contains_key("subject"));
    if is_full {
        let to_client = location(page, "/oauth/callback").await?;
        let login =
            redeem(context, &to_client, &state, [&client, &redirect_uri, &verifier]).await?;
        context.log_in(login).await.map_err(|err| err.to_string())?;
        message.push_str("; connected with muster's own token");
    }
    Ok(json!({"success": true, "client_id": client, "message": message}))
}

/// Refreshes muster's token; without one, logs in again at muster's provider, in the same session.
pub(super) async fn log_in_again(context: &mut ScenarioContext) -> BuiltinResult {
    if let Some(MusterLogin { client, refresh: Some(refresh), .. }) = &context.login {
        let form =
            [("grant_type", "refresh_token"), ("refresh_token", refresh), ("client_id", client)];
        let login = token_request(context, &form, client).await?;
        context.log_in(login).await.map_err(|err| err.to_string())?;
        return Ok(
            json!({"success": true, "message": "Refreshed muster's token in the same session"}),
        );
    }
    let idp = context.instance.providers().muster();
    let idp = idp.ok_or("no mock OAuth server has use_as_muster_oauth_server")?;
    let bearer = idp.state().mint(&context.identity(), "").access;
    context.reconnect(bearer).await.map_err(|err| err.to_string())?;
    let servers = &context.instance.setup().mcp_servers;
    let protected = servers.iter().find(|server| ScenarioServer::is_protected(server));
    let protected = protected.map(|server| server.name.clone());
    let mut login = Value::Null;
    if let Some(name) = protected {
        let args = Map::from_iter([("server".to_owned(), Value::from(name))]);
        login = match simulate_callback(context, &args).await {
            Ok(done) => done.get("message").cloned().unwrap_or_default(),
            Err(why) => Value::from(why),
        };
    }
    let message = "Authenticated to muster again in the same session";
    Ok(json!({"success": true, "message": message, "login": login}))
}

/// Reconnects the current user with the given token.
pub(super) async fn reconnect(
    context: &mut ScenarioContext,
    args: &Map<String, Value>,
) -> BuiltinResult {
    let token = match optional(args, "token_ref") {
        Some(_) => token_ref(context, args, "token_ref")?,
        None => required(args, "token")?,
    };
    let failed = |err| format!("reconnect with token failed: {err}");
    context.reconnect(token.to_owned()).await.map_err(failed)?;
    Ok(json!({"success": true, "message": "Connected again with the token"}))
}

fn base(context: &ScenarioContext) -> String {
    format!("http://localhost:{}", context.instance.port())
}

fn is_success(status: StatusCode) -> bool {
    status.is_success() || status.is_redirection()
}

/// Requests a URL of the instance without following redirects.
async fn browse(context: &ScenarioContext, url: &str) -> Result<Response, String> {
    let port = context.instance.port();
    let path = ["localhost", "127.0.0.1", "[::1]"].into_iter().find_map(|host| {
        let rest = url.strip_prefix(&format!("http://{host}:{port}"))?;
        rest.starts_with(['/', '?']).then_some(rest)
    });
    let path = path.ok_or_else(|| format!("`{url}` is not a URL of this instance"))?;
    let request = Request::get(path).header("accept", "text/html");
    web::send(port, request, String::new()).await.map_err(|err| err.to_string())
}

/// The redirect target of a response.
async fn location(response: Response, endpoint: &str) -> Result<String, String> {
    let status = response.status;
    if let (true, Some(to)) = (status.is_redirection(), response.header("location")) {
        return Ok(to.to_owned());
    }
    let text = response.text().await.unwrap_or_default();
    Err(format!("{endpoint} did not redirect but responded with {status}: {text}"))
}

/// Approves the login at the provider of a URL; returns the redirect URL.
async fn approve(context: &ScenarioContext, url: &str) -> Result<String, String> {
    let mut url = url.to_owned();
    // muster may hand out a short URL of its own.
    if url.starts_with(&base(context)) {
        url = location(browse(context, &url).await?, "the login address").await?;
    }
    let providers = context.instance.providers();
    let core = providers.at(&url).ok_or_else(|| format!("no mock OAuth server is at `{url}`"))?;
    let rest = url.strip_prefix(core.issuer()).unwrap_or_default();
    let query = rest.strip_prefix("/authorize?");
    let query = query.ok_or_else(|| format!("`{url}` is not an authorization endpoint"))?;
    let agreed = core.authorize(&AuthorizationRequest::read(query), &context.identity()).await;
    agreed.map_err(|denied| format!("{} rejects the login: {denied}", core.config().name))
}

async fn register(context: &ScenarioContext, redirect_uri: &str) -> Result<String, String> {
    let registration = json!({
        "client_name": "muster-test",
        "redirect_uris": [redirect_uri],
        "token_endpoint_auth_method": "none",
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
    });
    let request = Request::post("/oauth/register").header("content-type", "application/json");
    let answer = post(context, request, registration.to_string(), "/oauth/register").await?;
    let id = answer.get("client_id").and_then(Value::as_str);
    id.map(str::to_owned).ok_or_else(|| format!("/oauth/register returned no client_id: {answer}"))
}

/// Exchanges the code in a redirect URL for muster's own tokens.
async fn redeem(
    context: &ScenarioContext,
    to_client: &str,
    state: &str,
    [client, redirect_uri, verifier]: [&str; 3],
) -> Result<MusterLogin, String> {
    let query = to_client.split_once('?').map(|(_, query)| query).unwrap_or_default();
    let value = |name: &str| {
        let mut pairs = form_urlencoded::parse(query.as_bytes());
        pairs.find(|(key, _)| key == name).map(|(_, value)| value.into_owned())
    };
    if value("state").as_deref() != Some(state) {
        return Err(format!("the state in the redirect differs: {to_client}"));
    }
    let code = value("code").ok_or_else(|| format!("the redirect has no code: {to_client}"))?;
    let form = [
        ("grant_type", "authorization_code"),
        ("code", &*code),
        ("redirect_uri", redirect_uri),
        ("client_id", client),
        ("code_verifier", verifier),
    ];
    token_request(context, &form, client).await
}

/// Requests tokens of muster.
async fn token_request(
    context: &ScenarioContext,
    form: &[(&str, &str)],
    client: &str,
) -> Result<MusterLogin, String> {
    let form = form_urlencoded::Serializer::new(String::new()).extend_pairs(form).finish();
    let kind = "application/x-www-form-urlencoded";
    let request = Request::post("/oauth/token").header("content-type", kind);
    let answer = post(context, request, form, "/oauth/token").await?;
    let text = |key: &str| answer.get(key).and_then(Value::as_str).map(str::to_owned);
    let access = text("access_token").ok_or("/oauth/token returned no access_token")?;
    Ok(MusterLogin { client: client.to_owned(), access, refresh: text("refresh_token") })
}

async fn post(
    context: &ScenarioContext,
    request: http::request::Builder,
    body: String,
    endpoint: &str,
) -> Result<Value, String> {
    let response = web::send(context.instance.port(), request, body).await;
    let response = response.map_err(|err| format!("{endpoint}: {err}"))?;
    let status = response.status;
    let text = response.text().await.map_err(|err| format!("{endpoint}: {err}"))?;
    if !status.is_success() {
        return Err(format!("{endpoint} responded with {status}: {text}"));
    }
    serde_json::from_str(&text).map_err(|err| format!("{endpoint} did not return JSON: {err}"))
}

/// The login URL in a result, if any.
fn login_url_in(answer: &ToolResponse) -> Option<String> {
    let object = answer.first_object().unwrap_or_default();
    for key in ["auth_url", "authorization_url"] {
        if let Some(url) = object.as_object().and_then(|object| optional(object, key)) {
            return Some(url.to_owned());
        }
    }
    let text = answer.text();
    let mut words = text.split_whitespace();
    let url = words.find(|word| word.starts_with("http://") || word.starts_with("https://"))?;
    Some(url.trim_end_matches(['.', ',', ';', ':', ')']).to_owned())
}

#[cfg(test)]
mod tests {
    use super::{ToolResponse, login_url_in};

    #[test]
    fn login_urls_are_found() {
        let found = |text: &str| {
            login_url_in(&ToolResponse { is_error: false, texts: vec![text.to_owned()] })
        };
        let plain = "Sign in:\nhttps://idp/authorize?a=b).\nThen come back.";
        assert_eq!(found(plain).as_deref(), Some("https://idp/authorize?a=b"));
        let object = r#"{"see": "http://no", "auth_url": "http://idp/x"}"#;
        assert_eq!(found(object).as_deref(), Some("http://idp/x"));
        assert_eq!(found("Successfully connected to 'http'"), None);
    }
}
