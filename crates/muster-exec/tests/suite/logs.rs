//! The log lines of a run, verbatim.

use std::{
    fmt::{self, Write},
    path::PathBuf,
    sync::{
        Arc,
        mpsc::{self, Sender},
    },
};

use muster_exec::{
    command::Command,
    run::{RunLimits, run},
};
use tracing::{
    Event, Level, Metadata, Subscriber,
    field::{Field, Visit},
    span,
};

use crate::support::{launcher, sh, within};

/// Forwards log events; ignores spans.
struct Recorder(Sender<(Level, String)>);

impl Subscriber for Recorder {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("muster_exec")
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut message = Message(String::new());
        event.record(&mut message);
        self.0.send((*event.metadata().level(), message.0)).unwrap();
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

struct Message(String);

impl Visit for Message {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "message" {
            write!(self.0, "{value:?}").unwrap();
        }
    }
}

#[tokio::test]
async fn every_stage_of_a_run_is_logged() {
    let launcher = launcher();
    let (sender, log) = mpsc::channel();
    let guard = tracing::subscriber::set_default(Arc::new(Recorder(sender)));
    let here = Command { working_dir: Some(PathBuf::from("/")), ..sh("exit 0") };
    let first = run(&launcher, here, None, RunLimits::default()).await.pid.unwrap();
    let second = run(&launcher, sh("exec sleep 1000"), None, within(0.5)).await.pid.unwrap();
    let third = run(&launcher, sh("exec sleep 1000"), None, within(0.0)).await.pid.unwrap();
    let missing = Command::new(["no-such-program-xyz", "word"]);
    run(&launcher, missing, None, RunLimits::default()).await;
    drop(guard);
    launcher.shut_down().await;
    let expected = [
        (Level::DEBUG, "Spawning: sh (cwd=/)".to_owned()),
        (Level::DEBUG, format!("Process started (pid={first})")),
        (Level::DEBUG, "Spawning: sh (cwd=<inherited>)".to_owned()),
        (Level::DEBUG, format!("Process started (pid={second})")),
        (Level::WARN, format!("⏱ Timeout after 0.5s (pid={second}, cmd=sh) — killing process")),
        (Level::DEBUG, "Spawning: sh (cwd=<inherited>)".to_owned()),
        (Level::WARN, format!("⏱ Timeout after 0.0s (pid={third}, cmd=sh) — killing process")),
        (Level::DEBUG, "Spawning: no-such-program-xyz (cwd=<inherited>)".to_owned()),
        (Level::ERROR, "Command not found: no-such-program-xyz".to_owned()),
    ];
    assert_eq!(log.try_iter().collect::<Vec<_>>(), expected);
}
