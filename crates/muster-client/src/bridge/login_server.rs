//! The MCP server that the bridge offers while the gateway requires a login. Its only tool starts the login.

use std::sync::Arc;

use muster_core::{
    backend::BoxFuture,
    call::Caller,
    client::ClientHandle,
    json::{Raw, raw},
    request::{
        CacheControl, Change, ChangeStream, ClientRequest, Request, RequestError, RequestHandler,
        Response, ServerCapabilities, ServerInfo,
    },
};
use serde::Serialize;
use serde_json::{Value, json};
use tokio::sync::watch;

use super::user_login::{LoginStart, UserLogin};

/// The login tool.
const TOOL: &str = "authenticate_muster";

/// The MCP server that clients see until the user has logged in.
#[derive(Debug)]
pub struct LoginServer {
    login: Arc<UserLogin>,
    identity: ServerInfo,
}

impl LoginServer {
    /// Creates a server whose tool starts `login`.
    pub fn new(login: Arc<UserLogin>) -> Self {
        let instructions = format!(
            "The gateway requires a login. Call the tool `{TOOL}` and show the user the URL that it \
             returns. After the login the list of tools changes."
        );
        let identity = ServerInfo {
            name: "muster-agent".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            instructions: Some(instructions),
        };
        Self { login, identity }
    }

    async fn call(&self, tool: &str) -> Value {
        match tool {
            TOOL => match self.login.start().await {
                Ok(LoginStart::New(url) | LoginStart::InProgress(url)) => {
                    success(&login_details(&url))
                }
                Err(reason) => failure(&format!("Failed to start authentication: {reason}")),
            },
            _ if self.login.is_expired() => match self.login.start().await {
                Ok(LoginStart::New(url)) => failure(&format!(
                    "Authentication token expired. The user has to log in again at this page:\n\
                     {url}\nThen call the tool once more."
                )),
                Ok(LoginStart::InProgress(url)) => failure(&format!(
                    "Re-authentication is already in progress. The user has to log in at this page:\n\
                     {url}\nThen call the tool once more."
                )),
                Err(reason) => failure(&format!(
                    "Authentication token expired, and the login could not be started: {reason}"
                )),
            },
            _ => failure(&format!(
                "Authentication required. Call the tool `{TOOL}` first; then call this one again."
            )),
        }
    }

    async fn respond(&self, request: Request) -> Result<Response, RequestError> {
        let keep = Some(CacheControl { ttl_ms: 0, shared: false });
        Ok(match request {
            Request::ListTools { .. } => done(&json!({"tools": [tool()]}), keep),
            Request::CallTool { name, .. } => done(&self.call(&name).await, None),
            Request::ListResources { .. } => done(&json!({"resources": []}), keep),
            Request::ListTemplates { .. } => done(&json!({"resourceTemplates": []}), keep),
            Request::ListPrompts { .. } => done(&json!({"prompts": []}), keep),
            Request::SetLogLevel { .. } => done(&json!({}), None),
            Request::Resource(_) => {
                let what = format!("authentication required; call the tool `{TOOL}` first");
                return Err(RequestError::Internal(what));
            }
        })
    }
}

impl RequestHandler for LoginServer {
    fn server_info(&self) -> &ServerInfo {
        &self.identity
    }

    /// Declares everything that a gateway may have, because capabilities are negotiated only once.
    fn capabilities(&self) -> ServerCapabilities {
        ServerCapabilities {
            tools_change: true,
            resources: true,
            prompts: true,
            completions: true,
            logging: true,
        }
    }

    fn changes(&self) -> Box<dyn ChangeStream> {
        let mut accepted = self.login.accepted();
        accepted.mark_unchanged();
        Box::new(LoginChanges { accepted, left: None })
    }

    fn handle<'a>(
        &'a self,
        _: &'a Caller,
        _: &'a Arc<dyn ClientHandle>,
        asked: ClientRequest,
    ) -> BoxFuture<'a, Result<Response, RequestError>> {
        Box::pin(self.respond(asked.request))
    }
}

/// The changes that a login causes: every list changes once.
struct LoginChanges {
    accepted: watch::Receiver<u64>,
    /// The changes not yet sent; `None` before the login.
    left: Option<Vec<Change>>,
}

impl ChangeStream for LoginChanges {
    fn next(&mut self) -> BoxFuture<'_, Option<Change>> {
        Box::pin(async {
            let left = match &mut self.left {
                Some(left) => left,
                None => {
                    self.accepted.changed().await.ok()?;
                    self.left.insert(vec![Change::Prompts, Change::Resources, Change::Tools])
                }
            };
            left.pop()
        })
    }
}

fn tool() -> Value {
    json!({
        "name": TOOL,
        "description": "Log in to the muster gateway. Opens the login page in the user's browser and \
                        returns its URL. After the login the tools of the gateway replace this one.",
        "inputSchema": {"type": "object", "properties": {}},
    })
}

/// The JSON that tells the user where to log in.
fn login_details(url: &str) -> String {
    #[derive(Serialize)]
    struct LoginDetails<'a> {
        status: &'a str,
        auth_url: &'a str,
        clickable_url: String,
        message: &'a str,
    }
    let details = LoginDetails {
        status: "auth_required",
        auth_url: url,
        clickable_url: format!("[Authenticate with Muster]({url})"),
        message: "The login page is open in the browser; if not, open the URL. The tools of the \
                  gateway are available after the login.",
    };
    serde_json::to_string_pretty(&details).unwrap_or_default()
}

fn success(text: &str) -> Value {
    json!({"content": [{"type": "text", "text": text}]})
}

fn failure(text: &str) -> Value {
    json!({"content": [{"type": "text", "text": text}], "isError": true})
}

fn done(result: &Value, keep: Option<CacheControl>) -> Response {
    let result: Raw = raw(result);
    Response::Done { result, cache: keep }
}
