//! Records when the tools of service classes become available or missing.

use std::collections::BTreeMap;

use super::{Services, missing_tools};
use crate::events::Reason;

/// Runs until shutdown.
pub(super) async fn follow(services: Services) {
    let deps = &services.inner.deps;
    let (mut views, mut states) = (deps.view.clone(), deps.state.clone());
    let mut known: BTreeMap<String, Vec<String>> = BTreeMap::new();
    loop {
        let (view, state) = (views.borrow_and_update().clone(), states.borrow_and_update().clone());
        for (name, file) in &*view.classes {
            let missing = missing_tools(&state, &file.class.spec);
            let tell = |reason: Reason, detail: &str| {
                deps.journal.tell(reason, name, &file.class.namespace, detail);
            };
            let before = known.get(name);
            if before == Some(&missing) {
                continue;
            }
            let was_whole = before.map(Vec::is_empty);
            match (was_whole, missing.is_empty()) {
                (None, true) => {
                    tell(Reason::ServiceClassToolsDiscovered, "");
                    tell(Reason::ServiceClassAvailable, "");
                }
                (Some(_), true) => {
                    tell(Reason::ServiceClassToolsRestored, "");
                    tell(Reason::ServiceClassAvailable, "");
                }
                (None | Some(true), false) => {
                    tell(Reason::ServiceClassToolsMissing, &missing.join(", "));
                    tell(Reason::ServiceClassUnavailable, "");
                }
                (Some(false), false) => {
                    tell(Reason::ServiceClassToolsMissing, &missing.join(", "));
                }
            }
            known.insert(name.clone(), missing);
        }
        known.retain(|name, _| view.classes.contains_key(name));
        tokio::select! {
            changed = views.changed() => if changed.is_err() { return },
            changed = states.changed() => if changed.is_err() { return },
        }
    }
}
