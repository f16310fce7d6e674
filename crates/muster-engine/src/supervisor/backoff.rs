//! Exponential backoff.

use std::time::Duration;

/// `first`, doubled with each failure after the first, up to `max`.
pub(crate) fn backoff(first: Duration, max: Duration, failures: u64) -> Duration {
    let doublings = u32::try_from(failures.saturating_sub(1)).unwrap_or(u32::MAX).min(31);
    first.saturating_mul(1 << doublings).min(max)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::backoff;

    #[test]
    fn doubles_up_to_the_maximum() {
        let check = |failures: u64, seconds: u64| {
            let (first, longest) = (Duration::from_secs(30), Duration::from_secs(1800));
            assert_eq!(
                backoff(first, longest, failures),
                Duration::from_secs(seconds),
                "{failures}"
            );
        };
        check(0, 30);
        check(1, 30);
        check(2, 60);
        check(3, 120);
        check(6, 960);
        check(7, 1800);
        check(u64::MAX, 1800);
    }
}
