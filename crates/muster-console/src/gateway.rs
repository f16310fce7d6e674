//! The gateway as pages use it: calls on behalf of the page's user, and typed replies.

use http::StatusCode;
use muster_api::error::{ErrorDetails, ErrorKind};
use muster_core::{
    backend::ToolCaller,
    call::{Call, Caller, Checking, Outcome},
    client::{Continuation, NoClient},
    json::{Raw, RawObject, raw},
    name::ToolName,
    request::{ClientRequest, Request, RequestHandler, Response},
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, value::RawValue};

use crate::page::Page;

/// The gateway, used by one caller.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Gateway<'a> {
    pub(crate) tools: &'a dyn ToolCaller,
    /// The surface that agents see.
    pub(crate) surface: &'a dyn RequestHandler,
    pub(crate) caller: &'a Caller,
}

/// A failed request to the gateway.
#[derive(Debug)]
pub(crate) struct CoreError {
    pub(crate) status: StatusCode,
    pub(crate) text: String,
}

/// The reply of a meta-tool.
#[derive(Debug)]
pub(crate) struct MetaReply {
    /// Its first text.
    pub(crate) text: String,
    pub(crate) failed: bool,
    /// All content blocks.
    pub(crate) blocks: Vec<Raw>,
    pub(crate) structured: Option<Raw>,
}

impl MetaReply {
    fn parse(result: &RawValue) -> Self {
        let result = RawObject::parse(result).unwrap_or_default();
        let blocks = result.get("content").map(RawValue::get).unwrap_or_default();
        let blocks: Vec<Raw> = serde_json::from_str(blocks).unwrap_or_default();
        let text = blocks.first().and_then(|block| RawObject::parse(block)?.get_text("text"));
        Self {
            text: text.unwrap_or_default(),
            failed: result.get("isError").is_some_and(|flag| flag.get() == "true"),
            blocks,
            structured: result.get("structuredContent").map(ToOwned::to_owned),
        }
    }

    /// Parses its text as JSON; null if it is a sentence.
    pub(crate) fn value(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_default()
    }
}

impl CoreError {
    /// The page does not exist.
    pub(crate) fn no_page() -> Self {
        Self::not_found("there is no such page".to_owned())
    }

    /// A resource does not exist.
    pub(crate) const fn not_found(text: String) -> Self {
        Self { status: StatusCode::NOT_FOUND, text }
    }

    /// Converts the error to a page.
    pub(crate) fn into_page(self) -> Page {
        let title = match self.status {
            StatusCode::NOT_FOUND => "Not found",
            _ => "That did not work",
        };
        Page::message(self.status, title, &self.text)
    }
}

impl Gateway<'_> {
    /// Calls a core tool and returns the text of its reply.
    pub(crate) async fn core(
        self,
        tool: &str,
        arguments: &impl Serialize,
    ) -> Result<String, CoreError> {
        self.core_in_full(tool, arguments).await.map(|(text, _)| text)
    }

    /// Calls a core tool and returns the text of its reply and the structured content.
    pub(crate) async fn core_in_full(
        self,
        tool: &str,
        arguments: &impl Serialize,
    ) -> Result<(String, Option<Raw>), CoreError> {
        let call = Call::new(ToolName::new(tool), raw(arguments), Checking::Strict);
        let failed = |status, text| Err(CoreError { status, text });
        match self.tools.call(self.caller, &NoClient::shared(), call).await {
            Ok(Outcome::Text { text, failed: false, details }) => Ok((text, details)),
            Ok(Outcome::Text { text, details, .. }) => failed(status_of(details.as_ref()), text),
            Ok(Outcome::Raw(_) | Outcome::InputRequired(_)) => {
                failed(StatusCode::BAD_GATEWAY, format!("`{tool}` did not reply with text"))
            }
            Err(error) => failed(StatusCode::FORBIDDEN, error.to_string()),
        }
    }

    /// Calls a meta-tool and returns its reply, as an agent gets it.
    pub(crate) async fn meta(
        self,
        tool: &str,
        arguments: &impl Serialize,
    ) -> Result<MetaReply, CoreError> {
        let arguments = Some(raw(arguments));
        let request = Request::CallTool { name: tool.to_owned(), arguments };
        let request = ClientRequest { request, meta: None, continuation: Continuation::default() };
        match self.surface.handle(self.caller, &NoClient::shared(), request).await {
            Ok(Response::Done { result, .. }) => Ok(MetaReply::parse(&result)),
            Ok(Response::InputRequired(_)) => Err(CoreError {
                status: StatusCode::CONFLICT,
                text: "the tool asks for input, which a page cannot give: call it from an agent"
                    .to_owned(),
            }),
            Err(error) => {
                Err(CoreError { status: StatusCode::BAD_GATEWAY, text: error.to_string() })
            }
        }
    }

    /// Calls a core tool and parses its reply as its type.
    pub(crate) async fn reply<T: DeserializeOwned>(
        self,
        tool: &str,
        arguments: &impl Serialize,
    ) -> Result<T, CoreError> {
        let text = self.core(tool, arguments).await?;
        serde_json::from_str(&text).map_err(|error| CoreError {
            status: StatusCode::BAD_GATEWAY,
            text: format!("the reply of `{tool}` cannot be read: {error}"),
        })
    }
}

fn status_of(details: Option<&Raw>) -> StatusCode {
    let details = details.and_then(|details| serde_json::from_str(details.get()).ok());
    match details {
        Some(ErrorDetails { error: ErrorKind::NotFound }) => StatusCode::NOT_FOUND,
        Some(ErrorDetails { error: ErrorKind::Other }) | None => StatusCode::CONFLICT,
    }
}
