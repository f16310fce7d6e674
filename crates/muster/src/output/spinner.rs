//! A spinner on standard error while a request runs, on a terminal only.

use std::{
    io::{self, IsTerminal as _, Write as _},
    pin::pin,
    time::Duration,
};

const FRAMES: [char; 10] = ['⠋', '⠙', '⠹', '⠸', '⠼', '⠴', '⠦', '⠧', '⠇', '⠏'];
const STEP: Duration = Duration::from_millis(100);

/// Awaits `work`, showing a spinner with a label meanwhile.
pub async fn around<T>(label: &str, quiet: bool, work: impl Future<Output = T>) -> T {
    if quiet || !io::stderr().is_terminal() {
        return work.await;
    }
    let mut work = pin!(work);
    let mut frames = FRAMES.iter().cycle();
    let mut ticks = tokio::time::interval(STEP);
    // Skip the first tick, which is immediate, so that work that is done at once shows no spinner.
    ticks.tick().await;
    let mut shown = false;
    let done = loop {
        tokio::select! {
            done = &mut work => break done,
            _ = ticks.tick() => {
                let frame = frames.next().unwrap_or(&' ');
                draw(&format!("\r{frame} {label}"));
                shown = true;
            }
        }
    };
    if shown {
        draw("\r\u{1b}[K");
    }
    done
}

fn draw(text: &str) {
    let mut to = io::stderr();
    // Ignore errors: if standard error is closed, there is no spinner.
    drop(to.write_all(text.as_bytes()).and_then(|()| to.flush()));
}
