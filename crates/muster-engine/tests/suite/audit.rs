//! The audit log: one line per call.

use std::{
    fmt::{self, Write as _},
    sync::{Arc, Mutex},
};

use serde_json::json;
use tracing::{
    Event, Subscriber,
    field::{Field, Visit},
};
use tracing_subscriber::{
    layer::{Context, Layer, SubscriberExt as _},
    registry,
};

use crate::rig::{LOCAL, Rig};

/// Collects the lines of the audit log.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<String>>>);

#[derive(Default)]
struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() != "duration_ms" {
            write!(self.0, "{}={value:?} ", field.name()).unwrap();
        }
    }
}

impl<S: Subscriber> Layer<S> for Lines {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        if event.metadata().target() == "audit" {
            let mut line = Line::default();
            event.record(&mut line);
            self.0.lock().unwrap().push(line.0);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn every_call_leaves_a_line_without_values() {
    let lines = Lines::default();
    let _guard = tracing::subscriber::set_default(registry().with(lines.clone()));
    let rig = Rig::new(&[("mcpservers/a.yaml", LOCAL)]);
    rig.until_is("a", "running").await;
    // Without a subscriber tracing caches that the line is disabled; reset the cache.
    rig.call("x_a_echo", json!({})).await;
    tracing::callsite::rebuild_interest_cache();
    lines.0.lock().unwrap().clear();
    rig.call("x_a_echo", json!({"token": "s3cret", "x": 1})).await;
    rig.call("core_service_status", json!({"name": "s3cret"})).await;
    drop(rig.try_call("x_a_nothing", json!({})).await);
    {
        let mut call = Box::pin(rig.call("x_a_echo", json!({})));
        let started = std::future::poll_fn(|context| {
            std::task::Poll::Ready(call.as_mut().poll(context).is_pending())
        });
        assert!(started.await, "it takes a while");
    }
    let lines = lines.0.lock().unwrap();
    let line = |tool: &str, outcome: &str, arguments: &str| {
        format!(
            "message=call subject=local depth=0 tool={tool} outcome={outcome:?} arguments={arguments:?} "
        )
    };
    assert_eq!(
        *lines,
        [
            line("x_a_echo", "ok", "token,x"),
            line("core_service_status", "failed", "name"),
            line("x_a_nothing", "unknown", ""),
            line("x_a_echo", "cancelled", ""),
        ]
    );
}
