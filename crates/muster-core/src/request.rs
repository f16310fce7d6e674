//! The inbound port: what a client may ask, whatever wire it came over.
//!
//! Transports turn bytes into a [`Request`] and a [`Reply`] into bytes. Which protocol era the client
//! speaks ends with them: nothing behind this port knows.

use std::fmt;

use thiserror::Error;

use crate::{backend::BoxFuture, call::Caller, json::Raw};

/// Something a client asks for.
#[derive(Debug)]
pub enum Request {
    /// The tools shown to this client.
    ListTools {
        /// Where an earlier page ended.
        cursor: Option<String>,
    },
    /// One tool to be run.
    CallTool {
        /// Its name.
        name: String,
        /// Its arguments: a JSON object, or nothing.
        arguments: Option<Raw>,
    },
}

/// An answer: the result object, without anything that belongs to a protocol era.
#[derive(Debug)]
pub struct Reply {
    /// The object.
    pub result: Raw,
    /// How long a client may keep it; none for answers that are made anew each time.
    pub keep: Option<Keep>,
}

/// How long and for whom an answer may be kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Keep {
    /// Milliseconds.
    pub ttl_ms: u64,
    /// Whether others may be given the same answer.
    pub shared: bool,
}

/// The request could not be served. What a *tool* reports is not a fault but a reply.
#[derive(Debug, Error)]
pub enum Fault {
    /// The parameters do not fit the method.
    #[error("{0}")]
    InvalidParams(String),
    /// Something went wrong on our side.
    #[error("{0}")]
    Internal(String),
}

/// Who we say we are.
#[derive(Debug, Clone)]
pub struct Identity {
    /// The server's name.
    pub name: String,
    /// The server's version.
    pub version: String,
    /// What an agent should know before its first call.
    pub instructions: Option<String>,
}

/// The server behind the transports.
pub trait Serve: fmt::Debug + Send + Sync {
    /// Who we say we are.
    fn identity(&self) -> &Identity;

    /// Serves one request. Dropping the future cancels it.
    fn serve<'a>(
        &'a self,
        caller: &'a Caller,
        request: Request,
    ) -> BoxFuture<'a, Result<Reply, Fault>>;
}
