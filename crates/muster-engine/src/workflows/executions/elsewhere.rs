//! Records of executions at other gateways and replicas.

use std::sync::Arc;

use muster_workflow::record::RunRecord;

use super::{Executions, GetError};
use crate::execution_store::ExecutionStore;

impl Executions {
    /// Also stores records where other gateways can read them.
    pub(crate) fn stored_in(self, stored: Option<Arc<dyn ExecutionStore>>) -> Self {
        Self { stored, ..self }
    }

    /// The record of an execution that did not end here, as other gateways know it. Fails if it cannot be read, unless
    /// there is also a record here.
    pub(super) async fn elsewhere(
        &self,
        id: &str,
        is_here: bool,
    ) -> Result<Option<RunRecord>, GetError> {
        if let Some(shared) = &self.shared
            && let Some(record) = shared.record(id).await
        {
            return Ok(Some(record));
        }
        let Some(stored) = &self.stored else { return Ok(None) };
        match stored.get(id).await {
            Err(error) if !is_here => {
                let reason = error.to_string();
                Err(GetError::Unreadable { id: id.to_owned(), reason })
            }
            record => Ok(record.unwrap_or_default()),
        }
    }
}
