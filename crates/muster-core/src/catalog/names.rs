//! Which tool a name stands for, as an immutable value that is cheap to change.

use std::sync::Arc;

use rpds::RedBlackTreeMapSync;

use super::{NameCollision, ToolEntry};
use crate::name::{BackendName, ToolName};

/// Who claims each name, and whose the names were that nobody claims any more.
#[derive(Debug, Clone, Default)]
pub(super) struct Names {
    collision: NameCollision,
    /// For each name at least one claim, in the order of their sources.
    claims: RedBlackTreeMapSync<ToolName, Arc<[Claim]>>,
    gone: RedBlackTreeMapSync<ToolName, BackendName>,
    /// How many claims are beaten by another.
    beaten: usize,
}

#[derive(Debug, Clone)]
struct Claim {
    /// When its source was added.
    order: u64,
    entry: Arc<ToolEntry>,
}

impl Names {
    /// No names yet.
    pub(super) fn with_collisions(collision: NameCollision) -> Self {
        Self { collision, ..Self::default() }
    }

    /// A source has these tools in place of those.
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

    /// The tool that a name stands for.
    pub(super) fn get(&self, name: &str) -> Option<&Arc<ToolEntry>> {
        self.winner(self.claims.get(name)?)
    }

    /// How many names there are.
    pub(super) fn len(&self) -> usize {
        self.claims.size()
    }

    /// The tools that names stand for, sorted by name.
    pub(super) fn winners(&self) -> impl Iterator<Item = &Arc<ToolEntry>> {
        self.claims.values().filter_map(|claims| self.winner(claims))
    }

    /// Whether a tool is the one that its name stands for.
    pub(super) fn is_callable(&self, entry: &Arc<ToolEntry>) -> bool {
        self.beaten == 0
            || self.get(entry.name.as_str()).is_some_and(|winner| Arc::ptr_eq(winner, entry))
    }

    /// Whose tool it was, if it is no longer there.
    pub(super) fn former_backend(&self, name: &str) -> Option<&BackendName> {
        self.gone.get(name)
    }

    fn winner<'a>(&self, claims: &'a [Claim]) -> Option<&'a Arc<ToolEntry>> {
        let winner = match self.collision {
            NameCollision::LastWins => claims.last(),
            NameCollision::FirstWins => claims.first(),
        };
        winner.map(|claim| &claim.entry)
    }

    /// Of one source, the tool that is named later stands behind the others.
    fn claim(&mut self, order: u64, entry: &Arc<ToolEntry>) {
        let claim = Claim { order, entry: Arc::clone(entry) };
        let claims = match self.claims.get(&entry.name) {
            None => Arc::from([claim]),
            Some(others) => {
                self.beaten += 1;
                let at = others.partition_point(|other| other.order <= order);
                let mut claims = others.to_vec();
                claims.insert(at, claim);
                claims.into()
            }
        };
        self.gone.remove_mut(&entry.name);
        self.claims.insert_mut(entry.name.clone(), claims);
    }

    fn withdraw(&mut self, order: u64, entry: &Arc<ToolEntry>) {
        let Some(claims) = self.claims.get(&entry.name) else { return };
        let winner = self.winner(claims).map(|winner| winner.backend.clone());
        let stays = |claim: &&Claim| claim.order != order || !Arc::ptr_eq(&claim.entry, entry);
        let left: Vec<Claim> = claims.iter().filter(stays).cloned().collect();
        if !left.is_empty() {
            self.beaten -= claims.len() - left.len();
            self.claims.insert_mut(entry.name.clone(), left.into());
            return;
        }
        self.claims.remove_mut(&entry.name);
        if let Some(backend) = winner {
            self.gone.insert_mut(entry.name.clone(), backend);
        }
    }
}
