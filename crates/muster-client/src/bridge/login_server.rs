//! What a client behind the bridge is offered while the gateway wants a login: one tool that begins it.

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

use super::user_login::{Started, UserLogin};

/// The one tool.
const TOOL: &str = "authenticate_muster";

/// Serves a client until the user has logged in.
#[derive(Debug)]
pub struct LoginServer {
    login: Arc<UserLogin>,
    identity: ServerInfo,
}

impl LoginServer {
    /// Serves until `login` has a token.
    pub fn new(login: Arc<UserLogin>) -> Self {
        let instructions = format!(
            "The gateway wants a login. Call the tool `{TOOL}` and show the user the address it \
             answers with. When the user has logged in, the list of tools changes."
        );
        let identity = ServerInfo {
            name: "muster-agent".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            instructions: Some(instructions),
        };
        Self { login, identity }
    }

    async fn called(&self, tool: &str) -> Value {
        match tool {
            TOOL => match self.login.start().await {
                Ok(Started::Now(url) | Started::Before(url)) => answer(&invitation(&url)),
                Err(reason) => failure(&format!("Failed to start authentication: {reason}")),
            },
            _ if self.login.is_expired() => match self.login.start().await {
                Ok(Started::Now(url)) => failure(&format!(
                    "Authentication token expired. The user has to log in again at this page:\n\
                     {url}\nThen call the tool once more."
                )),
                Ok(Started::Before(url)) => failure(&format!(
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

    async fn answered(&self, request: Request) -> Result<Response, RequestError> {
        let keep = Some(CacheControl { ttl_ms: 0, shared: false });
        Ok(match request {
            Request::ListTools { .. } => done(&json!({"tools": [tool()]}), keep),
            Request::CallTool { name, .. } => done(&self.called(&name).await, None),
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

    /// All that a gateway may have: a client is told only once.
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
        Box::new(Login { accepted, left: None })
    }

    fn handle<'a>(
        &'a self,
        _: &'a Caller,
        _: &'a Arc<dyn ClientHandle>,
        asked: ClientRequest,
    ) -> BoxFuture<'a, Result<Response, RequestError>> {
        Box::pin(self.answered(asked.request))
    }
}

/// One login: with it every list changes, and then there is nothing more to hear here.
struct Login {
    accepted: watch::Receiver<u64>,
    /// What is still to be told; none before the login.
    left: Option<Vec<Change>>,
}

impl ChangeStream for Login {
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
                        answers with its address. When the user has logged in, the tools of the gateway \
                        take the place of this one.",
        "inputSchema": {"type": "object", "properties": {}},
    })
}

/// What tells a user where to log in.
fn invitation(url: &str) -> String {
    #[derive(Serialize)]
    struct Invitation<'a> {
        status: &'a str,
        auth_url: &'a str,
        clickable_url: String,
        message: &'a str,
    }
    let invitation = Invitation {
        status: "auth_required",
        auth_url: url,
        clickable_url: format!("[Authenticate with Muster]({url})"),
        message: "The login page is open in the browser; if not, open the address. The tools of the \
                  gateway are there as soon as the login is done.",
    };
    serde_json::to_string_pretty(&invitation).unwrap_or_default()
}

fn answer(text: &str) -> Value {
    json!({"content": [{"type": "text", "text": text}]})
}

fn failure(text: &str) -> Value {
    json!({"content": [{"type": "text", "text": text}], "isError": true})
}

fn done(result: &Value, keep: Option<CacheControl>) -> Response {
    let result: Raw = raw(result);
    Response::Done { result, cache: keep }
}
