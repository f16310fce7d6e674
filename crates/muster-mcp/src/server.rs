//! One request in, one answer out, whatever carried it.

use std::sync::Arc;

use muster_core::{
    call::Caller,
    client::{Continuation, Nobody},
    json::Raw,
    request::Serve,
};
use serde_json::value::RawValue;

use crate::{
    model::{self, Asked, Own},
    version::Era,
    wire::{RpcError, error_line, result_line},
};

/// Serves requests of either era. It keeps nothing between them.
#[derive(Debug, Clone)]
pub struct Server {
    serve: Arc<dyn Serve>,
}

impl Server {
    /// A server in front of `serve`.
    pub fn new(serve: Arc<dyn Serve>) -> Self {
        Self { serve }
    }

    /// Answers one request with one line. Dropping the future cancels the work behind it.
    pub async fn answer(
        &self,
        caller: &Caller,
        id: &RawValue,
        method: &str,
        params: Option<&RawValue>,
    ) -> Vec<u8> {
        match self.result(caller, method, params).await {
            Ok(result) => result_line(id, &result),
            Err(error) => error_line(Some(id), &error),
        }
    }

    async fn result(
        &self,
        caller: &Caller,
        method: &str,
        params: Option<&RawValue>,
    ) -> Result<Raw, RpcError> {
        let era = Era::of(params)?;
        let identity = self.serve.identity();
        let reply = match model::asked(era, method, params)? {
            Asked::Own(Own::Initialize { version }) => {
                return Ok(model::initialized(identity, &version));
            }
            Asked::Own(Own::Ping) => {
                return Ok(RawValue::from_string("{}".to_owned())
                    .unwrap_or_else(|_| RawValue::NULL.to_owned()));
            }
            Asked::Own(Own::Discover) => model::discovered(identity),
            Asked::Served(request) => {
                let (meta, continuation) = (None, Continuation::default());
                let asked = muster_core::request::Asked { request, meta, continuation };
                self.serve.serve(caller, &Nobody::shared(), asked).await?
            }
        };
        Ok(model::result(era, identity, reply))
    }
}
