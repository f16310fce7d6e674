//! A request as it came in, and as it can be served.

use std::sync::Arc;

use muster_core::json::{Raw, RawObject};
use serde_json::value::RawValue;
use tokio::sync::mpsc;

use crate::{
    back::{Back, Who},
    headers::{Headers, name_param},
    level::Level,
    model::{self, Asked, Method, invalid},
    server::Answer,
    session::Session,
    version::{self, Era, LOG_LEVEL_KEY},
    wire::{RpcError, code},
};

/// A request as it came in.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Incoming<'a> {
    pub(crate) id: &'a RawValue,
    pub(crate) method: &'a str,
    pub(crate) params: Option<&'a RawValue>,
    /// What its headers say; none where there are no headers.
    pub(crate) headers: Option<&'a Headers<'a>>,
}

/// A request that was read and can be served.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub(crate) id: Raw,
    pub(crate) era: Era,
    pub(crate) method: Method,
    pub(crate) asked: Asked,
    /// What a modern client says about itself.
    introduction: Option<(Raw, Option<Level>)>,
}

impl Prepared {
    /// The way back to its client; `session` is what a legacy one has settled.
    pub(crate) fn back(
        &mut self,
        session: Option<&Arc<Session>>,
        out: Option<mpsc::Sender<Vec<u8>>>,
    ) -> Back {
        let who = match (self.introduction.take(), session) {
            (None, Some(session)) => Who::Legacy(Arc::clone(session)),
            (Some((capabilities, level)), _) => Who::Modern { capabilities, level },
            (None, None) => Who::Modern { capabilities: model::empty(), level: None },
        };
        Back::new(who, out)
    }
}

impl Incoming<'_> {
    /// Reads a request. The order of the refusals is part of the protocol.
    pub(crate) fn prepare(self) -> Result<Prepared, Answer> {
        let Incoming { id, method, params: raw, headers } = self;
        let raw = raw.filter(|raw| raw.get() != "null");
        let params = raw.map_or_else(|| Some(RawObject::new()), RawObject::parse);
        let is_object = params.is_some();
        let params = params.unwrap_or_default();
        let meta = params.get("_meta").and_then(RawObject::parse).unwrap_or_default();
        let era = Era::judge(method, &meta, headers);
        let prepared = || {
            if era == Era::Modern {
                version::check(&meta, headers)?;
                headers.map_or(Ok(()), |headers| headers.check_method(method))?;
            }
            let known = Method::of(era, method).ok_or_else(|| unknown_method(method))?;
            if !is_object {
                return Err(invalid("`params` must be an object"));
            }
            if era == Era::Modern
                && let Some(headers) = headers
                && let Some(name) = name_param(method).and_then(|key| params.get_text(key))
            {
                headers.check_name(&name)?;
            }
            let introduction = match era {
                Era::Legacy => None,
                Era::Modern => Some((version::capabilities(&meta), log_level(&meta)?)),
            };
            let asked = model::asked(known, &params, raw)?;
            Ok(Prepared { id: id.to_owned(), era, method: known, asked, introduction })
        };
        prepared().map_err(|error| Answer::error(era, Some(id), error))
    }
}

fn log_level(meta: &RawObject<'_>) -> Result<Option<Level>, RpcError> {
    let Some(level) = meta.get(LOG_LEVEL_KEY) else { return Ok(None) };
    let named = meta.get_text(LOG_LEVEL_KEY).and_then(|name| Level::named(&name));
    named.map(Some).ok_or_else(|| invalid(&format!("`{LOG_LEVEL_KEY}` must not be {level}")))
}

fn unknown_method(method: &str) -> RpcError {
    RpcError::new(code::METHOD_NOT_FOUND, format!("Method not found: {method}"))
}
