//! A sign of life while something is waited for, on a terminal only.

use std::{
    io::{self, IsTerminal as _, Write as _},
    pin::pin,
    time::Duration,
};

const FRAMES: [char; 10] = ['⠋', '⠙', '⠹', '⠸', '⠼', '⠴', '⠦', '⠧', '⠇', '⠏'];
const STEP: Duration = Duration::from_millis(100);

/// Waits for `work`, and shows that it does so.
pub async fn around<T>(what: &str, quiet: bool, work: impl Future<Output = T>) -> T {
    if quiet || !io::stderr().is_terminal() {
        return work.await;
    }
    let mut work = pin!(work);
    let mut frames = FRAMES.iter().cycle();
    let mut ticks = tokio::time::interval(STEP);
    // What is over at once needs no sign.
    ticks.tick().await;
    let mut shown = false;
    let done = loop {
        tokio::select! {
            done = &mut work => break done,
            _ = ticks.tick() => {
                let frame = frames.next().unwrap_or(&' ');
                draw(&format!("\r{frame} {what}"));
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
    // Whoever closed standard error sees no sign.
    drop(to.write_all(text.as_bytes()).and_then(|()| to.flush()));
}
