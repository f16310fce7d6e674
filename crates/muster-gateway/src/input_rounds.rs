//! Questions that stand between a request and its answer, asked in the way the client understands.
//!
//! A backend may *answer* with questions (it is modern) or *ask* in the middle of a call (it is
//! legacy). A client may be asked by a request of ours (legacy) or by reply (modern). Where the two
//! agree, nothing is done here. Where a modern backend meets a legacy client, the client is asked and
//! the request repeated with the answers ([`ask_and_repeat`]). Where a legacy backend meets a modern
//! client, the call is parked while the client fetches the answers ([`crate::suspended_calls`]).

use std::sync::Arc;

use muster_core::{
    client::{ClientHandle, Continuation, InputError, InputRequired},
    json::RawObject,
    request::{ClientRequest, RequestError, Response},
};

/// A backend that still asks after this many rounds will never be satisfied.
const MOST_ROUNDS: usize = 10;

/// Serves a request by `perform`, asking the client whatever has to be known first.
pub(crate) async fn ask_and_repeat<F>(
    client: &Arc<dyn ClientHandle>,
    asked: ClientRequest,
    perform: impl Fn(ClientRequest) -> F,
) -> Result<Response, RequestError>
where
    F: Future<Output = Result<Response, RequestError>>,
{
    let mut next = asked.clone();
    for _ in 0..MOST_ROUNDS {
        match perform(next).await? {
            Response::InputRequired(needs) => {
                let continuation = answers(client, needs).await?;
                next = ClientRequest { continuation, ..asked.clone() };
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

/// What a client's refusal means for the request it made.
pub(crate) fn fault(error: InputError) -> RequestError {
    match error {
        InputError::NotDeclared { capability } => RequestError::MissingCapability { capability },
        InputError::Refused { code, message, data } => {
            RequestError::Upstream { code, message, data }
        }
        InputError::Disconnected => RequestError::Internal("the client is gone".to_owned()),
    }
}
