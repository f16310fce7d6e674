//! Reserves ports for instances: each is checked first, and concurrent runs on one machine do not share any.

use std::{
    fs::{self, File},
    io,
    net::{Ipv4Addr, Ipv6Addr, TcpListener},
    sync::atomic::{AtomicU16, Ordering},
};

use rustix::{
    fs::{FlockOperation, flock},
    process::getuid,
};

const MAX_TRIES: u16 = 1000;
/// Ports from here on are the kernel's ephemeral range.
const LAST_PORT: u16 = 32_000;

/// Reserves ports from a number upwards, and wraps around.
#[derive(Debug)]
pub(super) struct Ports {
    first: u16,
    next: AtomicU16,
}

/// A reserved port, released when dropped.
#[derive(Debug)]
pub(super) struct Port {
    number: u16,
    /// Held while the port is in use, so that other runs skip it.
    _lock: PortLock,
}

impl Ports {
    pub(super) const fn from(first: u16) -> Self {
        Self { first, next: AtomicU16::new(first) }
    }

    pub(super) fn reserve(&self) -> io::Result<Port> {
        for _ in 0..MAX_TRIES {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            if number >= LAST_PORT.max(self.first.saturating_add(MAX_TRIES)) || number < self.first
            {
                self.next.store(self.first, Ordering::Relaxed);
                continue;
            }
            let lock = PortLock::of(number);
            if !matches!(lock, PortLock::Foreign) && is_free(number) {
                return Ok(Port { number, _lock: lock });
            }
        }
        let text = format!("no free port from {} upwards", self.first);
        Err(io::Error::new(io::ErrorKind::AddrInUse, text))
    }
}

impl Port {
    pub(super) const fn number(&self) -> u16 {
        self.number
    }

    /// Whether a process listens on it.
    pub(super) fn is_in_use(&self) -> bool {
        !is_free(self.number)
    }
}

/// The cross-process lock on a port.
#[derive(Debug)]
enum PortLock {
    /// Held by this run, as long as the file is open.
    Held { _file: File },
    /// Held by another run.
    Foreign,
    /// No lock file can be created; only the port itself is checked.
    Unknown,
}

impl PortLock {
    fn of(number: u16) -> Self {
        let dir = std::env::temp_dir().join(format!("muster-test-ports-{}", getuid().as_raw()));
        let file =
            fs::create_dir_all(&dir).and_then(|()| File::create(dir.join(number.to_string())));
        let Ok(file) = file else { return Self::Unknown };
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Self::Held { _file: file },
            Err(_) => Self::Foreign,
        }
    }
}

/// Checks all interfaces and both loopback addresses.
fn is_free(number: u16) -> bool {
    let free = |address: io::Result<TcpListener>| match address {
        Ok(_) => true,
        Err(err) => err.kind() != io::ErrorKind::AddrInUse,
    };
    free(TcpListener::bind((Ipv4Addr::UNSPECIFIED, number)))
        && free(TcpListener::bind((Ipv4Addr::LOCALHOST, number)))
        && free(TcpListener::bind((Ipv6Addr::LOCALHOST, number)))
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::Ports;

    #[test]
    fn ports_in_use_are_skipped() {
        let ports = Ports::from(23_100);
        let first = ports.reserve().unwrap();
        let occupied = TcpListener::bind(("127.0.0.1", first.number() + 1)).unwrap();
        let second = ports.reserve().unwrap();
        assert!(second.number() > occupied.local_addr().unwrap().port());
        // Another run starts at the same number and finds the lock.
        let other = Ports::from(23_100).reserve().unwrap();
        assert!(other.number() > second.number());
        drop(first);
    }
}
