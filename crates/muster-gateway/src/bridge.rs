//! Questions that stand between a request and its answer, asked in the way the client understands.
//!
//! A backend may *answer* with questions (it is modern) or *ask* in the middle of a call (it is
//! legacy). A client may be asked by a request of ours (legacy) or by reply (modern). Where the two
//! agree, nothing is done here. Where a modern backend meets a legacy client, the client is asked and
//! the request repeated with the answers ([`ask_and_repeat`]). Where a legacy backend meets a modern
//! client, the call is parked while the client fetches the answers ([`crate::parking`]).

use std::sync::Arc;

use muster_core::{
    client::{AskError, Client, Continuation, NeedsInput},
    json::Object,
    request::{Asked, Fault, Reply},
};

/// A backend that still asks after this many rounds will never be satisfied.
const MOST_ROUNDS: usize = 10;

/// Serves a request by `perform`, asking the client whatever has to be known first.
pub(crate) async fn ask_and_repeat<F>(
    client: &Arc<dyn Client>,
    asked: Asked,
    perform: impl Fn(Asked) -> F,
) -> Result<Reply, Fault>
where
    F: Future<Output = Result<Reply, Fault>>,
{
    let mut next = asked.clone();
    for _ in 0..MOST_ROUNDS {
        match perform(next).await? {
            Reply::NeedsInput(needs) => {
                let continuation = answers(client, needs).await?;
                next = Asked { continuation, ..asked.clone() };
            }
            done @ Reply::Done { .. } => return Ok(done),
        }
    }
    Err(Fault::Internal(format!("the backend still asks questions after {MOST_ROUNDS} rounds")))
}

async fn answers(client: &Arc<dyn Client>, needs: NeedsInput) -> Result<Continuation, Fault> {
    let mut answers = Object::new();
    for (key, question) in needs.questions {
        let answer = client.ask(question).await.map_err(fault)?;
        answers.set(key, std::borrow::Cow::Owned(answer));
    }
    Ok(Continuation { answers: Some(answers.to_raw()), state: needs.state })
}

/// What a client's refusal means for the request it made.
pub(crate) fn fault(error: AskError) -> Fault {
    match error {
        AskError::NotDeclared { capability } => Fault::MissingCapability { capability },
        AskError::Refused { code, message, data } => Fault::Passed { code, message, data },
        AskError::Gone => Fault::Internal("the client is gone".to_owned()),
    }
}
