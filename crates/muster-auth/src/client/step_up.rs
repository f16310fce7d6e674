//! Step-up: servers that require more scopes than were granted.
//!
//! Such a server may ask for another login with more scopes, a limited number of times. Scopes that were granted
//! before stay valid for other requests.

use std::collections::BTreeMap;

use muster_core::{call::Owner, logins::LoginError};

use super::{MAX_ENTRIES, scopes};
use crate::{lock::Lock, text::printable};

/// How many logins a server may ask for within [`WINDOW`].
const MAX_LOGINS: u32 = 3;
/// The window in which logins are counted, in seconds.
const WINDOW: u64 = 3600;

/// The scopes that servers require beyond those granted, by owner and server.
#[derive(Debug, Default)]
pub(super) struct StepUp(Lock<BTreeMap<(Owner, String), Pending>>);

#[derive(Debug, Default)]
struct Pending {
    /// The scopes that the next login requests.
    wanted: String,
    /// How many logins have requested more scopes since `since`.
    logins: u32,
    since: u64,
}

impl StepUp {
    /// Records that a server requires the scopes `wanted` beyond `granted`. Returns the error to report.
    pub(super) fn require(
        &self,
        (owner, server): (&Owner, &str),
        granted: &str,
        wanted: &str,
        now: u64,
    ) -> LoginError {
        let error = |consequence: &str| {
            let wanted = printable(wanted);
            LoginError::InsufficientScope(format!(
                "the server requires more scopes than were granted (insufficient_scope: `{wanted}`)\
                 {consequence}"
            ))
        };
        if scopes::covers(granted, wanted) {
            return error(", but names only granted ones");
        }
        let mut all = self.0.lock();
        if all.len() >= MAX_ENTRIES {
            all.clear();
        }
        let pending = all.entry((owner.clone(), server.to_owned())).or_default();
        if now >= pending.since.saturating_add(WINDOW) {
            pending.logins = 0;
        }
        if pending.logins >= MAX_LOGINS {
            return error(&format!(", even after {MAX_LOGINS} logins"));
        }
        pending.wanted = scopes::union(&pending.wanted, wanted);
        error(&format!("; call core_auth_login with server='{server}' to grant them"))
    }

    /// The scopes that the next login at a server requests beyond the usual ones.
    pub(super) fn wanted(&self, owner: &Owner, server: &str) -> Option<String> {
        let all = self.0.lock();
        let pending = all.get(&(owner.clone(), server.to_owned()))?;
        Some(pending.wanted.clone()).filter(|wanted| !wanted.is_empty())
    }

    /// Counts a login that requested more scopes, whether they were granted or not.
    pub(super) fn login_completed(&self, owner: &Owner, server: &str, now: u64) {
        let mut all = self.0.lock();
        let Some(pending) = all.get_mut(&(owner.clone(), server.to_owned())) else { return };
        if std::mem::take(&mut pending.wanted).is_empty() {
            return;
        }
        if pending.logins == 0 {
            pending.since = now;
        }
        pending.logins += 1;
    }

    /// Clears the scopes that one server, or every server, requires of an owner.
    pub(super) fn clear(&self, owner: &Owner, server: Option<&str>) {
        let matches = |other: &String| server.is_none_or(|server| server == other);
        self.0.lock().retain(|(whose, other), _| whose != owner || !matches(other));
    }
}
