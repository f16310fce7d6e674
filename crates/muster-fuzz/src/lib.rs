//! Fuzzing on stable Rust: mutated inputs for everything that reads text from outside.
//!
//! There is no coverage feedback. Inputs that a target accepts are kept and mutated further, which
//! leads deep into grammars, and runs with the same seed are the same. A target fails if it panics,
//! takes too long, or breaks a property of its own. Time is processor time, so that a busy machine makes nothing slow.

pub mod mutator;
pub mod targets;

use std::{
    panic::{self, AssertUnwindSafe},
    time::Duration,
};

use muster_exec::thread_clock;
use mutator::Mutator;
use targets::FuzzTarget;

/// The report of a run.
#[derive(Debug)]
pub struct FuzzReport {
    /// The number of executions.
    pub executions: u64,
    /// The number of inputs that the target accepted.
    pub accepted: u64,
    /// The longest execution, in processor time.
    pub slowest: Duration,
    /// The first failure, which ended the run.
    pub failure: Option<FuzzFailure>,
}

/// An input that a target fails on.
#[derive(Debug)]
pub struct FuzzFailure {
    /// The input.
    pub input: String,
    /// What happened.
    pub reason: String,
}

/// Executes a target `runs` times, or until it fails.
pub fn run(target: &FuzzTarget, runs: u64, seed: u64, time_limit: Duration) -> FuzzReport {
    let mut mutator = Mutator::new(target.seeds, target.tokens, seed);
    let mut report =
        FuzzReport { executions: 0, accepted: 0, slowest: Duration::ZERO, failure: None };
    // The seeds themselves come first.
    let mut seeds = target.seeds.iter();
    while report.executions < runs {
        let input = seeds.next().map_or_else(|| mutator.next_input(), |seed| (*seed).to_owned());
        let (done, took) = timed(target, &input);
        report.executions += 1;
        report.slowest = report.slowest.max(took);
        let reason = match done {
            Ok(Ok(accepted)) => {
                if accepted {
                    report.accepted += 1;
                    mutator.keep(&input);
                }
                (took > time_limit).then(|| format!("it took {took:?}"))
            }
            Ok(Err(reason)) => Some(reason),
            Err(_) => Some("it panicked".to_owned()),
        };
        if let Some(reason) = reason {
            report.failure = Some(FuzzFailure { input, reason });
            break;
        }
    }
    report
}

/// Executes a target; what it returned, unless it panicked, and how long it took.
fn timed(
    target: &FuzzTarget,
    input: &str,
) -> (std::thread::Result<Result<bool, String>>, Duration) {
    let started = thread_clock::cpu_time();
    let done = panic::catch_unwind(AssertUnwindSafe(|| (target.execute)(input)));
    (done, thread_clock::cpu_time().saturating_sub(started))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{run, targets::FuzzTarget};

    fn execute(input: &str) -> Result<bool, String> {
        assert!(!input.contains("ab"), "as asked");
        match input.contains("ac") {
            true => Err("it broke a property".to_owned()),
            false => Ok(input.contains('a')),
        }
    }

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn failures_are_found_and_repeatable() {
        let target = |tokens| FuzzTarget { name: "test", seeds: &["a", "x"], tokens, execute };
        let panicked = run(&target(&["b"]), 10_000, 1, SECOND).failure.unwrap();
        assert_eq!(panicked.reason, "it panicked");
        let broken = run(&target(&["c"]), 10_000, 1, SECOND);
        let again = run(&target(&["c"]), 10_000, 1, SECOND);
        assert_eq!(broken.executions, again.executions);
        assert_eq!(broken.failure.unwrap().input, again.failure.unwrap().input);
    }

    #[test]
    fn a_run_without_failures_ends_after_its_executions() {
        let target = FuzzTarget { name: "test", seeds: &[""], tokens: &[], execute: |_| Ok(false) };
        let report = run(&target, 500, 7, SECOND);
        assert_eq!((report.executions, report.accepted), (500, 0));
        assert!(report.failure.is_none());
    }

    #[test]
    fn slow_inputs_are_failures() {
        let target = FuzzTarget { name: "test", seeds: &["a"], tokens: &[], execute: |_| Ok(true) };
        let report = run(&target, 500, 7, Duration::ZERO);
        assert!(report.failure.unwrap().reason.starts_with("it took"));
    }
}
