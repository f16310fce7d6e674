//! Ports for instances: each is looked at before it is given out, and two runs on one machine do not
//! give out the same.

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

/// How many ports are tried before giving up.
const TRIES: u16 = 1000;
/// Ports from here on belong to the kernel, which gives them to anybody.
const LAST: u16 = 32_000;

/// Gives out ports from a number upwards, and begins again when it is through.
#[derive(Debug)]
pub(super) struct Ports {
    first: u16,
    next: AtomicU16,
}

/// A port that is ours until this is dropped.
#[derive(Debug)]
pub(super) struct Port {
    number: u16,
    /// Held while the port is used; other runs see it.
    _lock: Lock,
}

impl Ports {
    pub(super) const fn from(first: u16) -> Self {
        Self { first, next: AtomicU16::new(first) }
    }

    pub(super) fn take(&self) -> io::Result<Port> {
        for _ in 0..TRIES {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            if number >= LAST.max(self.first.saturating_add(TRIES)) || number < self.first {
                self.next.store(self.first, Ordering::Relaxed);
                continue;
            }
            let lock = Lock::of(number);
            if !matches!(lock, Lock::Theirs) && is_free(number) {
                return Ok(Port { number, _lock: lock });
            }
        }
        let text = format!("no free port from {} on", self.first);
        Err(io::Error::new(io::ErrorKind::AddrInUse, text))
    }
}

impl Port {
    pub(super) const fn number(&self) -> u16 {
        self.number
    }

    /// Whether somebody listens on it.
    pub(super) fn is_taken(&self) -> bool {
        !is_free(self.number)
    }
}

/// Who has a port, as far as runs on this machine agree about it.
#[derive(Debug)]
enum Lock {
    /// This run, as long as the file is open.
    Ours { _file: File },
    /// Another run.
    Theirs,
    /// No lock file can be made; a look at the port has to do.
    Unknown,
}

impl Lock {
    fn of(number: u16) -> Self {
        let dir = std::env::temp_dir().join(format!("muster-test-ports-{}", getuid().as_raw()));
        let file =
            fs::create_dir_all(&dir).and_then(|()| File::create(dir.join(number.to_string())));
        let Ok(file) = file else { return Self::Unknown };
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Self::Ours { _file: file },
            Err(_) => Self::Theirs,
        }
    }
}

/// On all interfaces, and on both loopbacks.
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
    fn taken_ports_are_passed_over() {
        let ports = Ports::from(23_100);
        let first = ports.take().unwrap();
        let occupied = TcpListener::bind(("127.0.0.1", first.number() + 1)).unwrap();
        let second = ports.take().unwrap();
        assert!(second.number() > occupied.local_addr().unwrap().port());
        // Another run begins at the same number and finds the lock.
        let other = Ports::from(23_100).take().unwrap();
        assert!(other.number() > second.number());
        drop(first);
    }
}
