//! Concurrent futures.

use std::{future::poll_fn, task::Poll};

use crate::backend::BoxFuture;

/// Waits for all futures. Results are in the order of the futures; dropping it drops them all.
pub async fn join_all<T>(futures: Vec<BoxFuture<'_, T>>) -> Vec<T> {
    let mut waiting: Vec<Option<BoxFuture<'_, T>>> = futures.into_iter().map(Some).collect();
    let mut done: Vec<Option<T>> = waiting.iter().map(|_| None).collect();
    poll_fn(|cx| {
        let mut all = true;
        for (place, result) in waiting.iter_mut().zip(&mut done) {
            let Some(future) = place else { continue };
            match future.as_mut().poll(cx) {
                Poll::Ready(value) => {
                    *result = Some(value);
                    *place = None;
                }
                Poll::Pending => all = false,
            }
        }
        if all { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    done.into_iter().flatten().collect()
}
