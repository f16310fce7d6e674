//! The record of work that began at this replica.
//!
//! Work begins once: a message is repeated until it has an effect, and somebody who can write to the shared state may
//! send recorded messages again, long after the claims of their work have expired. Each replica numbers the work that it
//! requests, so that the record is bounded and still complete: numbers older than those that are kept are refused.

use std::collections::{BTreeSet, VecDeque};

/// The numbers that are kept for each replica that asks.
const NUMBERS: usize = 4096;
/// The replicas that are kept. Each start of a gateway is another one.
const REPLICAS: usize = 256;

/// The numbers of the work that began here, by the replica that asked.
#[derive(Debug, Default)]
pub(super) struct BegunWork(VecDeque<Numbers>);

#[derive(Debug)]
struct Numbers {
    replica: String,
    /// The first number that may still begin.
    floor: u64,
    begun: BTreeSet<u64>,
}

impl BegunWork {
    /// Whether work did not begin before.
    pub(super) fn may_begin(&self, replica: &str, number: u64) -> bool {
        let numbers = self.0.iter().find(|numbers| numbers.replica == replica);
        numbers.is_none_or(|numbers| number >= numbers.floor && !numbers.begun.contains(&number))
    }

    /// Notes that work begins.
    pub(super) fn note(&mut self, replica: &str, number: u64) {
        let place = self.0.iter().position(|numbers| numbers.replica == replica);
        let mut numbers = place.and_then(|place| self.0.remove(place)).unwrap_or_else(|| Numbers {
            replica: replica.to_owned(),
            floor: 0,
            begun: BTreeSet::new(),
        });
        numbers.begun.insert(number);
        if numbers.begun.len() > NUMBERS
            && let Some(oldest) = numbers.begun.pop_first()
        {
            numbers.floor = oldest + 1;
        }
        // Those that ask remain; the ones that died long ago are forgotten.
        self.0.push_back(numbers);
        if self.0.len() > REPLICAS {
            self.0.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{BegunWork, NUMBERS, REPLICAS};

    #[test]
    fn a_number_begins_once_and_never_when_it_is_too_old() {
        let mut begun = BegunWork::default();
        let numbers = u64::try_from(NUMBERS).unwrap();
        for number in [2, 1, 3] {
            assert!(begun.may_begin("a", number));
            begun.note("a", number);
            assert!(!begun.may_begin("a", number));
        }
        assert!(begun.may_begin("b", 1));
        for number in 5..=numbers + 4 {
            begun.note("a", number);
        }
        // Number 4 never began. It may, until a later one has been forgotten.
        assert!(begun.may_begin("a", 4));
        begun.note("a", numbers + 5);
        for number in 0..=5 {
            assert!(!begun.may_begin("a", number), "{number}");
        }
    }

    #[test]
    fn replicas_that_ask_are_kept() {
        let mut begun = BegunWork::default();
        begun.note("dead", 1);
        for number in 0..2 * REPLICAS {
            begun.note("alive", 1);
            begun.note(&format!("other{number}"), 1);
        }
        assert_eq!(begun.0.len(), REPLICAS);
        assert!(!begun.may_begin("alive", 1));
        assert!(begun.may_begin("dead", 1));
    }
}
