//! The store for long results of one caller.

use std::sync::Arc;

use muster_core::call::{Caller, Owner};

use crate::outputs::Outputs;

/// The store for long results of one caller.
#[derive(Debug, Clone)]
pub(in crate::surface) struct OutputSink {
    pub(in crate::surface::meta) outputs: Arc<Outputs>,
    /// The subject that may read the results.
    pub(in crate::surface::meta) subject: Arc<str>,
    /// The owner of background jobs: each owner has one job at a time.
    pub(in crate::surface::meta) owner: Owner,
}

impl OutputSink {
    /// The store of a caller.
    pub(in crate::surface) fn new(outputs: &Arc<Outputs>, caller: &Caller) -> Self {
        let subject = Arc::clone(&caller.subject);
        Self { outputs: Arc::clone(outputs), subject, owner: caller.owner() }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use muster_core::call::Caller;

    use super::OutputSink;
    use crate::outputs::Outputs;

    #[test]
    fn clients_without_a_login_do_not_wait_for_each_other() {
        let outputs = Arc::new(Outputs::default());
        let [one, other] = ["1", "2"].map(|session| {
            let caller = Caller { session: Some(session.into()), ..Caller::local() };
            OutputSink::new(&outputs, &caller)
        });
        assert_ne!(one.owner, other.owner);
        assert_eq!(one.subject, other.subject);
    }
}
