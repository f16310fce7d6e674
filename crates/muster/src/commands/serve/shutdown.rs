//! The shutdown that signals request: the first one drains the calls in flight, the second one cuts them off.

use std::{convert::Infallible, future, io, time::Duration};

use muster_core::call::Caller;
use muster_engine::engine::Engine;
use muster_mcp::{
    http::DrainOutcome,
    server::Server,
    stdio::{self, Input, Output, Shutdown},
};
use tokio::{sync::Notify, time::sleep};

use crate::process;

/// The user's requests to stop the gateway.
pub(super) struct StopSignals<S, K> {
    pub(super) stop: S,
    /// The second request, which cuts off the calls in flight.
    pub(super) skip_drain: K,
}

/// Waits for these requests from now on.
pub(super) fn stop_signals() -> StopSignals<impl Future<Output = ()>, impl Future<Output = ()>> {
    StopSignals { stop: process::stop_requested(), skip_drain: process::stop_requested_times(2) }
}

/// Notifies the endpoint after a second signal. Never returns.
pub(super) async fn notify_after(
    skip_drain: impl Future<Output = ()>,
    endpoint: &Notify,
) -> Infallible {
    skip_drain.await;
    endpoint.notify_one();
    future::pending().await
}

/// Serves the client on standard input until it leaves, or until a signal and the calls in flight have ended.
pub(super) async fn serve_stdio(
    server: Server,
    caller: Caller,
    engine: &Engine,
    drain_timeout: Duration,
    signals: StopSignals<impl Future<Output = ()>, impl Future<Output = ()>>,
) -> io::Result<DrainOutcome> {
    let pipes = (Input::standard()?, Output::standard()?);
    let shutdown = Shutdown::default();
    let stop = async {
        signals.stop.await;
        engine.prepare_end();
        shutdown.drain.cancel();
        tokio::select! {
            () = signals.skip_drain => (),
            () = sleep(drain_timeout) => (),
        }
        engine.interrupter()();
        shutdown.cut_off.cancel();
        future::pending::<Infallible>().await
    };
    tokio::select! {
        served = stdio::serve_until(server, caller, pipes, shutdown.clone()) => served,
        never = stop => match never {},
    }
}
