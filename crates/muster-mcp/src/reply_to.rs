//! The identity of a request, for an error response that is sent in place of its own.

use muster_core::json::Raw;

use crate::{
    incoming::ValidRequest,
    server::RpcResponse,
    version::Era,
    wire::{RpcError, code},
};

const CUT_OFF: &str = "the gateway is shutting down and cut off this request: it may have been carried out in part; \
                       repeat it only if that does no harm";

/// The id and the era of a request: what an error response needs when the request itself is gone.
pub(crate) struct ReplyTo {
    pub(crate) id: Raw,
    era: Era,
}

impl ReplyTo {
    pub(crate) fn of(request: &ValidRequest) -> Self {
        Self { id: request.id.clone(), era: request.era }
    }

    pub(crate) fn error(&self, error: RpcError) -> RpcResponse {
        RpcResponse::error(self.era, Some(&self.id), error)
    }

    /// The error for a request that the shutdown cut off.
    pub(crate) fn cut_off(&self) -> RpcResponse {
        self.error(RpcError::new(code::INTERNAL_ERROR, CUT_OFF))
    }
}
