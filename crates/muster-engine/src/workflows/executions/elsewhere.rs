//! Records of executions that are not those of this gateway alone.

use std::sync::Arc;

use muster_workflow::record::RunRecord;

use super::{Executions, GetError};
use crate::execution_store::ExecutionStore;

impl Executions {
    /// The same executions, whose records other gateways read as well.
    pub(crate) fn stored_in(self, stored: Option<Arc<dyn ExecutionStore>>) -> Self {
        Self { stored, ..self }
    }

    /// The record of an execution that did not end here, as other gateways know it. If there is one here, it counts where
    /// theirs cannot be read.
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
