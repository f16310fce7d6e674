//! Input that a modern backend requests from a legacy client.
//!
//! A modern backend *replies* with requests for input, a legacy one sends them in the middle of a call. A
//! legacy client is sent requests, a modern one receives them as a reply. Where both sides are of one era,
//! they pass through. A modern backend with a legacy client is served here: the client is asked, and the
//! request is repeated with its input ([`ask_and_repeat`]). A legacy backend with a modern client is served
//! by [`crate::suspended_calls`].

use std::sync::Arc;

use muster_core::{
    client::{ClientHandle, Continuation, InputError, InputRequired},
    json::RawObject,
    request::{ClientRequest, RequestError, Response},
};

/// A backend that still requests input after this many rounds never stops.
const MOST_ROUNDS: usize = 10;

/// Serves a request with `perform`, and repeats it with the client's input as often as the backend requests some.
pub(crate) async fn ask_and_repeat<F>(
    client: &Arc<dyn ClientHandle>,
    client_request: ClientRequest,
    perform: impl Fn(ClientRequest) -> F,
) -> Result<Response, RequestError>
where
    F: Future<Output = Result<Response, RequestError>>,
{
    let mut next = client_request.clone();
    for _ in 0..MOST_ROUNDS {
        match perform(next).await? {
            Response::InputRequired(needs) => {
                let continuation = answers(client, needs).await?;
                next = ClientRequest { continuation, ..client_request.clone() };
            }
            done @ Response::Done { .. } => return Ok(done),
        }
    }
    Err(RequestError::Internal(format!(
        "the backend still asks questions after {MOST_ROUNDS} rounds"
    )))
}

async fn answers(
    client: &Arc<dyn ClientHandle>,
    needs: InputRequired,
) -> Result<Continuation, RequestError> {
    let mut answers = RawObject::new();
    for (key, question) in needs.requests {
        let answer = client.request_input(question).await.map_err(fault)?;
        answers.set(key, std::borrow::Cow::Owned(answer));
    }
    Ok(Continuation { responses: Some(answers.to_raw()), state: needs.state })
}

/// The error of a request whose client refused to give input.
pub(crate) fn fault(error: InputError) -> RequestError {
    match error {
        InputError::NotDeclared { capability } => RequestError::MissingCapability { capability },
        InputError::Refused { code, message, data } => {
            RequestError::Upstream { code, message, data }
        }
        InputError::Disconnected => RequestError::Internal("the client is gone".to_owned()),
    }
}
