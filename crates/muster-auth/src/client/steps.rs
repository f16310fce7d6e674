//! Servers that want more scopes than a person has granted. They may ask for a login with more, but not for
//! ever; and what was granted is good for the rest all the same.

use std::collections::BTreeMap;

use muster_core::{call::Owner, logins::LoginError};

use super::{MOST, discovery::clean, places};
use crate::lock::Lock;

/// How many logins a server may ask for by that within [`SPAN`].
const LOGINS: u32 = 3;
/// In seconds.
const SPAN: u64 = 3600;

/// What servers asked for in vain, by owner and server.
#[derive(Debug, Default)]
pub(super) struct Steps(Lock<BTreeMap<(Owner, String), Step>>);

#[derive(Debug, Default)]
struct Step {
    /// What the next login is to ask for.
    wanted: String,
    /// How many logins have asked for more, and since when.
    logins: u32,
    since: u64,
}

impl Steps {
    /// A server refuses a request because what was `granted` does not cover what is `wanted`.
    pub(super) fn up(
        &self,
        (owner, server): (&Owner, &str),
        granted: &str,
        wanted: &str,
        now: u64,
    ) -> LoginError {
        let what = clean(wanted);
        let told = |so: &str| {
            let what =
                format!("the server wants more than was granted (insufficient_scope: `{what}`)");
            LoginError::InsufficientScope(format!("{what}{so}"))
        };
        if places::covers(granted, wanted) {
            return told(", but names nothing that was not");
        }
        let mut steps = self.0.lock();
        if steps.len() >= MOST {
            steps.clear();
        }
        let step = steps.entry((owner.clone(), server.to_owned())).or_default();
        if now >= step.since.saturating_add(SPAN) {
            step.logins = 0;
        }
        if step.logins >= LOGINS {
            return told(&format!(", also after {LOGINS} logins"));
        }
        step.wanted = places::union(&step.wanted, wanted);
        told(&format!("; call core_auth_login with server='{server}' to grant it"))
    }

    /// What the next login at a server is to ask for beside the usual.
    pub(super) fn wanted(&self, owner: &Owner, server: &str) -> Option<String> {
        let steps = self.0.lock();
        let step = steps.get(&(owner.clone(), server.to_owned()))?;
        Some(step.wanted.clone()).filter(|wanted| !wanted.is_empty())
    }

    /// Someone has come back from a login. Whether they and the issuer granted it or not, they have been asked.
    pub(super) fn asked(&self, owner: &Owner, server: &str, now: u64) {
        let mut steps = self.0.lock();
        let Some(step) = steps.get_mut(&(owner.clone(), server.to_owned())) else { return };
        if std::mem::take(&mut step.wanted).is_empty() {
            return;
        }
        if step.logins == 0 {
            step.since = now;
        }
        step.logins += 1;
    }

    /// Forgets what one server, or all of them, asked someone for.
    pub(super) fn forget(&self, owner: &Owner, server: Option<&str>) {
        let is_it = |other: &String| server.is_none_or(|server| server == other);
        self.0.lock().retain(|(whose, other), _| whose != owner || !is_it(other));
    }
}
