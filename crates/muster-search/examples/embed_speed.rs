//! How long the encoder takes for questions and tools, and how much memory it needs.
//!
//!     cargo run --release -p muster-search --example embed_speed FOLDER

use std::{
    env,
    error::Error,
    fs,
    io::{self, Write as _},
    path::PathBuf,
    time::{Duration, Instant},
};

use muster_search::encoder::Model;

const QUESTION: &str = "open a pull request for the branch I am on";
const ROUNDS: u32 = 50;
/// Tools in one call, as the gateway embeds them.
const TOGETHER: usize = 16;

fn main() -> Result<(), Box<dyn Error>> {
    let folder = env::args_os().nth(1).map(PathBuf::from).ok_or("usage: embed_speed FOLDER")?;
    let begin = Instant::now();
    let model = Model::load(&folder)?;
    let loaded = begin.elapsed();
    let tools: Vec<String> = (0..TOGETHER).map(tool).collect();
    let tools: Vec<&str> = tools.iter().map(String::as_str).collect();
    let question = mean(|| drop(model.embed(&[QUESTION])));
    let first: Vec<&str> = tools.iter().take(1).copied().collect();
    let alone = mean(|| drop(model.embed(&first)));
    let together = mean(|| drop(model.embed(&tools))) / u32::try_from(TOGETHER)?;
    let mut out = io::stdout().lock();
    writeln!(out, "load {loaded:.1?}")?;
    writeln!(out, "question {question:.2?}, tool {alone:.2?}, tool of {TOGETHER} {together:.2?}")?;
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let resident = status.lines().find(|line| line.starts_with("VmRSS")).unwrap_or("VmRSS unknown");
    writeln!(out, "{resident}")?;
    Ok(())
}

/// The text of a tool of about 60 word pieces.
fn tool(number: usize) -> String {
    format!(
        "create pull request. github. Creates a new pull request number {number} in a repository. The head branch \
         must have commits that the base branch does not have, and the caller needs push access to it. Returns the \
         number, the address and the state of the pull request, with its reviewers and labels."
    )
}

/// The processor time of a round, the mean of some: other work on the machine prolongs it little. Where the kernel does not tell,
/// the time on the clock.
fn mean(mut work: impl FnMut()) -> Duration {
    let (clock, cpu) = (Instant::now(), cpu_time());
    for _ in 0..ROUNDS {
        work();
    }
    let cpu = cpu_time().zip(cpu).map(|(after, before)| after.saturating_sub(before));
    cpu.unwrap_or_else(|| clock.elapsed()) / ROUNDS
}

/// The processor time of this thread so far.
fn cpu_time() -> Option<Duration> {
    let times = fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    times.split_whitespace().next()?.parse().ok().map(Duration::from_nanos)
}
