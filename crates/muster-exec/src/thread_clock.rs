//! The clock of a thread.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// The processor time that the calling thread has used.
pub fn cpu_time() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::{thread, time::Duration};

    use super::cpu_time;

    #[test]
    fn a_thread_has_a_clock_of_its_own() {
        let begun = cpu_time();
        while cpu_time() - begun < Duration::from_millis(5) {}
        assert!(thread::spawn(cpu_time).join().unwrap() < cpu_time());
    }
}
