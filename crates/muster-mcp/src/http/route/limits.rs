//! Limits on the calls of a caller.

use http::StatusCode;
use muster_core::call::Caller;

use super::{
    super::{
        caller_limits::{CallPlace, CallerKey},
        responses,
    },
    Refusal, Router,
};
use crate::incoming::ValidRequest;

impl Router {
    /// The key by which the calls of a caller are limited.
    pub(super) fn key_of(&self, caller: &Caller) -> CallerKey {
        CallerKey::of(caller, self.peer.ip())
    }

    /// Counts a tool call, if its caller may make one now.
    pub(super) fn begin_call(
        &self,
        caller: &Caller,
        request: &ValidRequest,
    ) -> Result<Option<CallPlace>, Refusal> {
        if request.request.tool_call().is_none() {
            return Ok(None);
        }
        let key = || self.key_of(caller);
        self.app.call_limits.begin(key).map_err(|too_many| {
            let (status, message) = (StatusCode::TOO_MANY_REQUESTS, too_many.to_string());
            Box::new(responses::busy(status, Some(&request.id), &message))
        })
    }
}
