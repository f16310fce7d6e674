//! What a client is shown of the catalog, and how it calls what is there.

pub mod classic;
pub mod discovery;
mod texts;

use std::fmt;

use muster_core::{
    backend::BoxFuture,
    call::{Caller, Outcome},
    json::Raw,
};

use crate::dispatch::{Dispatcher, State};

/// A way to show the catalog.
pub trait Surface: fmt::Debug + Send + Sync {
    /// The tools a client sees, as `tools/list` gives them.
    fn tools(&self, state: &State) -> Vec<Raw>;

    /// Runs one of the tools shown. Whatever goes wrong is told in the outcome.
    fn call<'a>(
        &'a self,
        dispatcher: &'a Dispatcher,
        caller: &'a Caller,
        name: String,
        arguments: Raw,
    ) -> BoxFuture<'a, Outcome>;
}
