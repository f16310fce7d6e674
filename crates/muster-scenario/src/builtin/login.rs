//! Logins: what a person and their browser do, done by the tester.
//!
//! The tester plays the browser, not the provider: what the gateway put into the address is judged by the
//! same rules as a request over the network.

use http::{Request, StatusCode};
use serde_json::{Map, Value, json};

use super::{Done, oauth, optional, required};
use crate::{
    client::Answer,
    http::{self as web, Response},
    instance::random_hex,
    oauth::{authorize::Asked, jwt},
    scenario::Server,
    subject::Subject,
};

/// Logs the current user in to a server: asks muster where to, agrees there, and comes back.
pub(super) async fn simulate_callback(subject: &mut Subject, args: &Map<String, Value>) -> Done {
    let server = required(args, "server")?;
    let wish = Map::from_iter([("server".to_owned(), Value::from(server))]);
    let client = subject.client().map_err(|err| err.to_string())?;
    let answer = client.call("core_auth_login", Some(&wish), subject.limit(None)).await;
    let answer = answer.map_err(|err| format!("core_auth_login failed: {err}"))?;
    let text = answer.text();
    let Some(url) = address_in(&answer) else {
        // There is no address where muster logs in by itself, whether that works or not.
        if answer.is_error && !logs_in_by_itself(subject, server) {
            return Err(format!("core_auth_login failed: {text}"));
        }
        let core = oauth::provider(subject, server)?;
        core.mint(&subject.person(), "");
        return Ok(json!({
            "success": true,
            "server": server,
            "message": format!("No login was asked for by '{server}': {text}"),
        }));
    };
    let back = agree(subject, &url).await?;
    let page = visit(subject, &back).await?;
    let status = page.status;
    let text = page.text().await.unwrap_or_default();
    if !is_fine(status) {
        return Err(format!("the callback of muster answered {status}: {text}"));
    }
    Ok(json!({
        "success": true,
        "server": server,
        "status": status.as_u16(),
        "message": format!("Completed the OAuth login for '{server}'"),
    }))
}

fn logs_in_by_itself(subject: &Subject, server: &str) -> bool {
    let servers = &subject.instance.before().mcp_servers;
    let guard = servers.iter().find(|known| known.name == server).and_then(Server::guard);
    guard.is_some_and(|guard| guard.forward_token || guard.exchange.is_some())
}

/// Logs the current user in to muster itself.
pub(super) async fn into_muster(subject: &mut Subject, args: &Map<String, Value>) -> Done {
    if subject.instance.providers().muster().is_none() {
        return Err("no mock OAuth server has use_as_muster_oauth_server".to_owned());
    }
    let base = base(subject);
    let redirect_uri = format!("{base}/oauth/callback");
    let client = register(subject, &redirect_uri).await?;
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
    let sent = visit(subject, &address).await?;
    let to_provider = location(sent, "/oauth/authorize").await?;
    let back = agree(subject, &to_provider).await?;
    let page = visit(subject, &back).await?;
    let status = page.status;
    if !is_fine(status) {
        let text = page.text().await.unwrap_or_default();
        return Err(format!("muster's /oauth/callback answered {status}: {text}"));
    }
    let mut message = "Authenticated to muster, ID token stored".to_owned();
    if args.get("full") == Some(&Value::Bool(true)) {
        let to_client = location(page, "/oauth/callback").await?;
        let token =
            redeem(subject, &to_client, &state, [&client, &redirect_uri, &verifier]).await?;
        subject.reconnect(token).await.map_err(|err| err.to_string())?;
        message.push_str("; connected with muster's own token");
    }
    Ok(json!({"success": true, "client_id": client, "message": message}))
}

/// A new login at muster's provider, in the same session.
pub(super) async fn again(subject: &mut Subject) -> Done {
    let idp = subject.instance.providers().muster();
    let idp = idp.ok_or("no mock OAuth server has use_as_muster_oauth_server")?;
    let bearer = idp.core().mint(&subject.person(), "").access;
    subject.reconnect(bearer).await.map_err(|err| err.to_string())?;
    let servers = &subject.instance.before().mcp_servers;
    let protected = servers.iter().find(|server| Server::is_protected(server));
    let protected = protected.map(|server| server.name.clone());
    let mut login = Value::Null;
    if let Some(name) = protected {
        let args = Map::from_iter([("server".to_owned(), Value::from(name))]);
        login = match simulate_callback(subject, &args).await {
            Ok(done) => done.get("message").cloned().unwrap_or_default(),
            Err(why) => Value::from(why),
        };
    }
    let message = "Authenticated to muster again in the same session";
    Ok(json!({"success": true, "message": message, "login": login}))
}

/// Connects the current user again with a given token.
pub(super) async fn reconnect(subject: &mut Subject, args: &Map<String, Value>) -> Done {
    let token = required(args, "token")?.to_owned();
    subject.reconnect(token).await.map_err(|err| err.to_string())?;
    Ok(json!({"success": true, "message": "Connected again with the token"}))
}

fn base(subject: &Subject) -> String {
    format!("http://localhost:{}", subject.instance.port())
}

fn is_fine(status: StatusCode) -> bool {
    status.is_success() || status.is_redirection()
}

/// Goes to an address of the instance, as a browser does, and follows nothing.
async fn visit(subject: &Subject, url: &str) -> Result<Response, String> {
    let port = subject.instance.port();
    let path = ["localhost", "127.0.0.1", "[::1]"].into_iter().find_map(|host| {
        let rest = url.strip_prefix(&format!("http://{host}:{port}"))?;
        rest.starts_with(['/', '?']).then_some(rest)
    });
    let path = path.ok_or_else(|| format!("`{url}` does not lead to this muster"))?;
    let request = Request::get(path).header("accept", "text/html");
    web::send(port, request, String::new()).await.map_err(|err| err.to_string())
}

/// Where a response sends the browser.
async fn location(response: Response, who: &str) -> Result<String, String> {
    let status = response.status;
    if let (true, Some(to)) = (status.is_redirection(), response.header("location")) {
        return Ok(to.to_owned());
    }
    let text = response.text().await.unwrap_or_default();
    Err(format!("{who} should redirect and answered {status}: {text}"))
}

/// Agrees at the provider that an address leads to. Where the browser goes then.
async fn agree(subject: &Subject, url: &str) -> Result<String, String> {
    let mut url = url.to_owned();
    // muster may hand out a short address of its own.
    if url.starts_with(&base(subject)) {
        url = location(visit(subject, &url).await?, "the login address").await?;
    }
    let providers = subject.instance.providers();
    let core = providers.at(&url).ok_or_else(|| format!("no mock OAuth server is at `{url}`"))?;
    let rest = url.strip_prefix(core.issuer()).unwrap_or_default();
    let query = rest.strip_prefix("/authorize?");
    let query = query.ok_or_else(|| format!("`{url}` is no authorization endpoint"))?;
    let agreed = core.authorize(&Asked::read(query), &subject.person()).await;
    agreed.map_err(|denied| format!("{} refuses the login: {denied}", core.config().name))
}

async fn register(subject: &Subject, redirect_uri: &str) -> Result<String, String> {
    let wish = json!({
        "client_name": "muster-test",
        "redirect_uris": [redirect_uri],
        "token_endpoint_auth_method": "none",
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
    });
    let request = Request::post("/oauth/register").header("content-type", "application/json");
    let answer = post(subject, request, wish.to_string(), "/oauth/register").await?;
    let id = answer.get("client_id").and_then(Value::as_str);
    id.map(str::to_owned).ok_or_else(|| format!("/oauth/register gave no client_id: {answer}"))
}

/// muster's own token for the code that an address carries.
async fn redeem(
    subject: &Subject,
    to_client: &str,
    state: &str,
    [client, redirect_uri, verifier]: [&str; 3],
) -> Result<String, String> {
    let query = to_client.split_once('?').map(|(_, query)| query).unwrap_or_default();
    let value = |name: &str| {
        let mut pairs = form_urlencoded::parse(query.as_bytes());
        pairs.find(|(key, _)| key == name).map(|(_, value)| value.into_owned())
    };
    if value("state").as_deref() != Some(state) {
        return Err(format!("the state came back changed: {to_client}"));
    }
    let code = value("code").ok_or_else(|| format!("no code came back: {to_client}"))?;
    let form = form_urlencoded::Serializer::new(String::new())
        .append_pair("grant_type", "authorization_code")
        .append_pair("code", &code)
        .append_pair("redirect_uri", redirect_uri)
        .append_pair("client_id", client)
        .append_pair("code_verifier", verifier)
        .finish();
    let kind = "application/x-www-form-urlencoded";
    let request = Request::post("/oauth/token").header("content-type", kind);
    let answer = post(subject, request, form, "/oauth/token").await?;
    let token = answer.get("access_token").and_then(Value::as_str).map(str::to_owned);
    token.ok_or_else(|| "/oauth/token gave no access_token".to_owned())
}

async fn post(
    subject: &Subject,
    request: http::request::Builder,
    body: String,
    who: &str,
) -> Result<Value, String> {
    let response = web::send(subject.instance.port(), request, body).await;
    let response = response.map_err(|err| format!("{who}: {err}"))?;
    let status = response.status;
    let text = response.text().await.map_err(|err| format!("{who}: {err}"))?;
    if !status.is_success() {
        return Err(format!("{who} answered {status}: {text}"));
    }
    serde_json::from_str(&text).map_err(|err| format!("{who} answered no JSON: {err}"))
}

/// The address to log in at, if an answer has one.
fn address_in(answer: &Answer) -> Option<String> {
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
    use super::{Answer, address_in};

    #[test]
    fn addresses_are_found() {
        let found =
            |text: &str| address_in(&Answer { is_error: false, texts: vec![text.to_owned()] });
        let plain = "Sign in:\nhttps://idp/authorize?a=b).\nThen come back.";
        assert_eq!(found(plain).as_deref(), Some("https://idp/authorize?a=b"));
        let object = r#"{"see": "http://no", "auth_url": "http://idp/x"}"#;
        assert_eq!(found(object).as_deref(), Some("http://idp/x"));
        assert_eq!(found("Successfully connected to 'http'"), None);
    }
}
