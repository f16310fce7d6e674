//! Runs the fuzz targets: `muster-fuzz [RUNS] [SEED] [TARGET…]`.
//!
//! Prints a line for each target. The exit status is 1 if one failed.

use std::{
    io::{self, Write as _},
    process::ExitCode,
    time::Duration,
};

use muster_fuzz::{run, targets::TARGETS};

/// The executions of each target by default: a few seconds.
const DEFAULT_RUNS: u64 = 20_000;
/// How much processor time one execution may take, also without optimization.
const TIME_LIMIT: Duration = Duration::from_secs(5);

fn main() -> ExitCode {
    let mut words = std::env::args().skip(1).peekable();
    let mut number = |default: u64| match words.peek().and_then(|word| word.parse().ok()) {
        Some(number) => {
            words.next();
            number
        }
        None => default,
    };
    let (runs, seed) = (number(DEFAULT_RUNS), number(1));
    let wanted: Vec<String> = words.collect();
    // The reports of panics would repeat what is printed here.
    std::panic::set_hook(Box::new(|_| ()));
    let (mut passed, mut failed) = (0, 0);
    for target in TARGETS
        .iter()
        .filter(|target| wanted.is_empty() || wanted.iter().any(|name| name == target.name))
    {
        let report = run(target, runs, seed, TIME_LIMIT);
        print(&format!(
            "{}: {} executions, {} accepted, slowest {:.1} ms",
            target.name,
            report.executions,
            report.accepted,
            report.slowest.as_secs_f64() * 1e3,
        ));
        match report.failure {
            None => passed += 1,
            Some(failure) => {
                failed += 1;
                print(&format!("  FAILED: {}\n  input: {:?}", failure.reason, failure.input));
            }
        }
    }
    print(&format!("{passed} passed, {failed} failed"));
    if failed == 0 && passed > 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn print(line: &str) {
    // Nobody reads a closed standard output.
    drop(writeln!(io::stdout(), "{line}"));
}
