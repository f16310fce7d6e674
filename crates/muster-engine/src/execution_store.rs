//! The port to records of executions beside the files of this gateway, where other gateways read them.

use std::{fmt, io};

use jiff::SignedDuration;
use muster_core::backend::BoxFuture;
use muster_workflow::record::{RunRecord, RunSummary};

/// The retention of records.
pub const RETENTION: SignedDuration = SignedDuration::from_hours(21 * 24);
/// The number of records, beyond which the oldest are deleted.
pub const MAX_RECORDS: usize = 10_000;

/// Records of executions that several gateways read and write.
///
/// No execution waits for it or fails because of it: what is stored is what happened.
pub trait ExecutionStore: fmt::Debug + Send + Sync {
    /// Stores the record of an execution of this gateway, in the background. One that is running is stored as running until
    /// another record takes its place, it is [released](Self::release), or this gateway ends.
    fn store(&self, record: RunRecord);

    /// Leaves an execution to another gateway, which writes its record from now on.
    fn release(&self, id: &str);

    /// The executions of all gateways, in no order, as far as they are known.
    fn list(&self) -> Vec<RunSummary>;

    /// The record of an execution of any gateway.
    fn get<'a>(&'a self, id: &'a str) -> BoxFuture<'a, io::Result<Option<RunRecord>>>;
}
