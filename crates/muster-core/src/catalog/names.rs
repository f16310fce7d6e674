//! Resolution of tool names, as a persistent map.

use std::sync::Arc;

use rpds::RedBlackTreeMapSync;

use super::{NameCollision, ToolEntry};
use crate::name::{BackendName, ToolName};

/// The claims of sources on tool names.
#[derive(Debug, Clone, Default)]
pub(super) struct ToolNames {
    collision: NameCollision,
    /// The claims on each name, at least one, in source order.
    claims: RedBlackTreeMapSync<ToolName, Arc<[Claim]>>,
    former: RedBlackTreeMapSync<ToolName, BackendName>,
    /// The number of claims that lost a collision.
    shadowed: usize,
}

#[derive(Debug, Clone)]
struct Claim {
    /// The insertion order of the source.
    order: u64,
    entry: Arc<ToolEntry>,
}

impl ToolNames {
    /// An empty map with a collision rule.
    pub(super) fn with_collisions(collision: NameCollision) -> Self {
        Self { collision, ..Self::default() }
    }

    /// Replaces the tools of one source.
    pub(super) fn replace(
        &mut self,
        order: u64,
        before: &[Arc<ToolEntry>],
        after: &[Arc<ToolEntry>],
    ) {
        for entry in before {
            self.withdraw(order, entry);
        }
        for entry in after {
            self.claim(order, entry);
        }
    }

    /// The tool with this name.
    pub(super) fn get(&self, name: &str) -> Option<&Arc<ToolEntry>> {
        self.winner(self.claims.get(name)?)
    }

    /// The number of names.
    pub(super) fn len(&self) -> usize {
        self.claims.size()
    }

    /// The callable tools, sorted by name.
    pub(super) fn winners(&self) -> impl Iterator<Item = &Arc<ToolEntry>> {
        self.claims.values().filter_map(|claims| self.winner(claims))
    }

    /// Whether a tool is the one that its name resolves to.
    pub(super) fn is_callable(&self, entry: &Arc<ToolEntry>) -> bool {
        self.shadowed == 0
            || self.get(entry.name.as_str()).is_some_and(|winner| Arc::ptr_eq(winner, entry))
    }

    /// Returns the backend that last offered a tool that has since been removed.
    pub(super) fn former_backend(&self, name: &str) -> Option<&BackendName> {
        self.former.get(name)
    }

    /// Forgets the former tools of some backends.
    pub(super) fn forget_former(&mut self, of: impl Fn(&BackendName) -> bool) {
        let gone = self.former.iter().filter(|(_, backend)| of(backend));
        for name in gone.map(|(name, _)| name.clone()).collect::<Vec<_>>() {
            self.former.remove_mut(&name);
        }
    }

    fn winner<'a>(&self, claims: &'a [Claim]) -> Option<&'a Arc<ToolEntry>> {
        let winner = match self.collision {
            NameCollision::LastWins => claims.last(),
            NameCollision::FirstWins => claims.first(),
        };
        winner.map(|claim| &claim.entry)
    }

    /// Inserts a claim after earlier ones of the same source.
    fn claim(&mut self, order: u64, entry: &Arc<ToolEntry>) {
        let claim = Claim { order, entry: Arc::clone(entry) };
        let claims = match self.claims.get(&entry.name) {
            None => Arc::from([claim]),
            Some(others) => {
                self.shadowed += 1;
                let at = others.partition_point(|other| other.order <= order);
                let mut claims = others.to_vec();
                claims.insert(at, claim);
                claims.into()
            }
        };
        self.former.remove_mut(&entry.name);
        self.claims.insert_mut(entry.name.clone(), claims);
    }

    fn withdraw(&mut self, order: u64, entry: &Arc<ToolEntry>) {
        let Some(claims) = self.claims.get(&entry.name) else { return };
        let winner = self.winner(claims).map(|winner| winner.backend.clone());
        let stays = |claim: &&Claim| claim.order != order || !Arc::ptr_eq(&claim.entry, entry);
        let left: Vec<Claim> = claims.iter().filter(stays).cloned().collect();
        if !left.is_empty() {
            self.shadowed -= claims.len() - left.len();
            self.claims.insert_mut(entry.name.clone(), left.into());
            return;
        }
        self.claims.remove_mut(&entry.name);
        if let Some(backend) = winner {
            self.former.insert_mut(entry.name.clone(), backend);
        }
    }
}
