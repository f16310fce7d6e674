//! Lists of users in the configuration, by email address, group or domain.

use std::sync::Arc;

use muster_core::{credentials::Principal, lock::Lock};

/// A list of users. A principal is on the list if any of the three fields matches.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PrincipalList {
    /// Email addresses, or `ISSUER|SUBJECT`: a subject is unique only at its issuer.
    pub users: Vec<String>,
    /// Groups.
    pub groups: Vec<String>,
    /// Domains of email addresses.
    pub domains: Vec<String>,
}

impl PrincipalList {
    /// Whether the list is empty.
    pub const fn is_empty(&self) -> bool {
        self.users.is_empty() && self.groups.is_empty() && self.domains.is_empty()
    }

    /// Whether a principal is on the list.
    pub fn contains(&self, principal: &Principal) -> bool {
        self.has(&principal.id, principal.email.as_deref(), &principal.groups)
    }

    /// Whether a user is on the list.
    pub fn has(&self, id: &str, email: Option<&str>, groups: &[String]) -> bool {
        let is_email = |user: &String| email.is_some_and(|email| email.eq_ignore_ascii_case(user));
        let domain = email.and_then(|email| email.rsplit_once('@')).map(|(_, domain)| domain);
        let is_domain = |listed: &String| {
            let listed = listed.trim_start_matches('@');
            domain.is_some_and(|domain| domain.eq_ignore_ascii_case(listed))
        };
        self.users.iter().any(|user| user == id || is_email(user))
            || self.groups.iter().any(|group| groups.contains(group))
            || self.domains.iter().any(is_domain)
    }
}

/// A list that can be replaced while the gateway runs. Clones share the list.
#[derive(Debug, Clone, Default)]
pub struct SharedPrincipalList(Arc<Lock<Arc<PrincipalList>>>);

impl SharedPrincipalList {
    /// Returns the current list.
    pub fn now(&self) -> Arc<PrincipalList> {
        Arc::clone(&self.0.lock())
    }

    /// Replaces the list. Returns whether it differs from the one before.
    pub fn replace(&self, list: PrincipalList) -> bool {
        let list = Arc::new(list);
        let before = std::mem::replace(&mut *self.0.lock(), Arc::clone(&list));
        before != list
    }
}

impl From<PrincipalList> for SharedPrincipalList {
    fn from(list: PrincipalList) -> Self {
        Self(Arc::new(Lock::new(Arc::new(list))))
    }
}

#[cfg(test)]
mod tests {
    use super::PrincipalList;

    #[test]
    fn users_are_listed_by_address_group_or_domain() {
        let texts = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect::<Vec<_>>();
        let list = PrincipalList {
            users: texts(&["ada@a.example", "https://i.example|7"]),
            groups: texts(&["staff"]),
            domains: texts(&["b.example", "@c.example"]),
        };
        for (id, email, groups, expected) in [
            ("1", Some("Ada@A.example"), &[][..], true),
            ("https://i.example|7", None, &[], true),
            ("1", None, &["x", "staff"], true),
            ("1", Some("eve@B.example"), &[], true),
            ("1", Some("eve@c.example"), &[], true),
            ("1", Some("eve@a.example"), &[], false),
            ("1", Some("eve@sub.b.example"), &[], false),
            ("1", Some("eve@evilb.example"), &[], false),
            ("1", Some("b.example@evil.example"), &[], false),
            ("1", None, &["Staff"], false),
            ("https://other.example|7", None, &[], false),
            ("ada@a.example.evil", None, &[], false),
            ("", None, &[], false),
        ] {
            assert_eq!(list.has(id, email, &texts(groups)), expected, "{id} {email:?}");
        }
        assert!(PrincipalList::default().is_empty());
        assert!(!PrincipalList::default().has("1", Some("a@b"), &texts(&["g"])));
    }
}
