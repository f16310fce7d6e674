//! The port to a store of execution records that several gateways share, in addition to the files of this gateway.

use std::io;

use jiff::SignedDuration;
use muster_core::backend::BoxFuture;
use muster_workflow::record::{RunRecord, RunSummary};

/// The retention of records.
pub const RETENTION: SignedDuration = SignedDuration::from_hours(21 * 24);
/// The number of records beyond which the oldest are deleted.
pub const MAX_RECORDS: usize = 10_000;

/// Records of executions that several gateways read and write.
///
/// No execution waits for the store or fails because of it: it only reports what has happened.
pub trait ExecutionStore: Send + Sync {
    /// Stores the record of an execution of this gateway, in the background. A running execution stays stored as
    /// running until another record replaces it, it is [released](Self::release), or this gateway ends.
    fn store(&self, record: RunRecord);

    /// Hands the record of an execution over to another gateway, which writes it from now on.
    fn release(&self, id: &str);

    /// The executions of all gateways, in no order, as far as they are known.
    fn list(&self) -> Vec<RunSummary>;

    /// The record of an execution of any gateway.
    fn get<'a>(&'a self, id: &'a str) -> BoxFuture<'a, io::Result<Option<RunRecord>>>;
}

muster_core::opaque_debug!(ExecutionStore);
