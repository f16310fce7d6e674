//! The protocol between the gateway and its launcher.
//!
//! A request is a length and that many bytes on a socket; the file descriptors of a spawn travel with its
//! first byte, so they have arrived when the request has. A reply has a fixed size and comes through a
//! pipe. Both ends are the same binary on the same machine, hence native byte order and no version.

use std::{ffi::OsString, os::unix::ffi::OsStringExt};

use crate::{
    command::{Command, Inherit, Stdin},
    launcher::StartStep,
};

/// Longer requests are rejected before they are sent: the kernel takes at most 6 MiB of arguments and environment.
pub(crate) const REQUEST_LIMIT: usize = 16 << 20;
pub(crate) const REPLY_SIZE: usize = 16;
const HEADER_SIZE: usize = 4;

/// A request to the launcher.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Request {
    Spawn(Spawn),
    /// Ends the process tree of a run; `pid` is its root process, or 0 if not known yet.
    Kill {
        id: u64,
        pid: i32,
    },
}

/// A command as the launcher receives it.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Spawn {
    pub(crate) id: u64,
    pub(crate) piped_stdin: bool,
    pub(crate) report: StartReport,
    pub(crate) working_dir: Option<OsString>,
    pub(crate) argv: Vec<OsString>,
    /// The names of inherited variables besides the basic ones; `None` to inherit all.
    pub(crate) inherit: Option<Vec<OsString>>,
    pub(crate) env: Vec<(OsString, OsString)>,
}

/// When the launcher reports that a process has started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum StartReport {
    /// At once.
    #[default]
    Immediate,
    /// After a short delay, or with its exit if that comes first.
    Deferred,
}

/// A reply of the launcher.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reply {
    Spawned { id: u64, pid: i32 },
    Failed { id: u64, errno: i32, step: StartStep },
    Exited { id: u64, end: ExitReport },
}

/// The exit of the root process of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ExitReport {
    pub(crate) status: ExitStatus,
    /// Whether other processes of the run may still be running. If not, none can start any more.
    pub(crate) has_leftovers: bool,
}

/// How a process exited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ExitStatus {
    Code(i32),
    Signal(i32),
}

const SPAWN: u8 = 1;
const KILL: u8 = 2;
const SPAWNED: u8 = 1;
const FAILED: u8 = 2;
const EXITED: u8 = 3;
const SIGNALLED: u8 = 4;

/// Encodes a spawn request; `None` if it is too long for any kernel.
pub(crate) fn spawn_frame(id: u64, command: &Command, report: StartReport) -> Option<Vec<u8>> {
    let mut frame = FrameWriter::new(SPAWN, id);
    frame.0.push(u8::from(command.stdin == Stdin::Piped));
    frame.0.push(u8::from(report == StartReport::Deferred));
    match &command.working_dir {
        Some(directory) => {
            frame.0.push(1);
            frame.text(directory.as_os_str().as_encoded_bytes());
        }
        None => frame.0.push(0),
    }
    frame.count(command.argv.len());
    for word in &command.argv {
        frame.text(word.as_bytes());
    }
    match &command.inherit {
        Inherit::All => frame.0.push(0),
        Inherit::Basic(names) => {
            frame.0.push(1);
            frame.count(names.len());
            for name in names {
                frame.text(name.as_bytes());
            }
        }
    }
    frame.count(command.env.len());
    for (key, value) in &command.env {
        frame.text(key.as_bytes());
        frame.text(value.as_bytes());
    }
    frame.finish()
}

/// Encodes a kill request.
pub(crate) fn kill_frame(id: u64, pid: i32) -> Vec<u8> {
    let mut frame = FrameWriter::new(KILL, id);
    frame.0.extend(pid.to_ne_bytes());
    frame.finish().unwrap_or_default()
}

struct FrameWriter(Vec<u8>);

impl FrameWriter {
    fn new(kind: u8, id: u64) -> Self {
        let mut bytes = Vec::with_capacity(256);
        bytes.extend([0; HEADER_SIZE]);
        bytes.push(kind);
        bytes.extend(id.to_ne_bytes());
        Self(bytes)
    }

    /// A count that does not fit makes the frame longer than `finish` accepts.
    fn count(&mut self, count: usize) {
        self.0.extend(u32::try_from(count).unwrap_or(u32::MAX).to_ne_bytes());
    }

    fn text(&mut self, text: &[u8]) {
        self.count(text.len());
        self.0.extend_from_slice(text);
    }

    fn finish(mut self) -> Option<Vec<u8>> {
        let length = self.0.len().checked_sub(HEADER_SIZE).filter(|&size| size <= REQUEST_LIMIT)?;
        let header = u32::try_from(length).ok()?.to_ne_bytes();
        self.0.get_mut(..HEADER_SIZE)?.copy_from_slice(&header);
        Some(self.0)
    }
}

/// Bytes that are not a request: the peer is not a gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the request is malformed")]
pub(crate) struct Malformed;

/// Decodes the first request and its length in bytes; `None` if it is incomplete.
pub(crate) fn next_request(bytes: &[u8]) -> Result<Option<(Request, usize)>, Malformed> {
    let Some((header, rest)) = bytes.split_first_chunk::<HEADER_SIZE>() else {
        return Ok(None);
    };
    let length = usize::try_from(u32::from_ne_bytes(*header)).map_err(|_| Malformed)?;
    if length > REQUEST_LIMIT {
        return Err(Malformed);
    }
    let Some(body) = rest.get(..length) else {
        return Ok(None);
    };
    let mut reader = FrameReader(body);
    let request = reader.request().filter(|_| reader.0.is_empty()).ok_or(Malformed)?;
    Ok(Some((request, HEADER_SIZE + length)))
}

struct FrameReader<'a>(&'a [u8]);

impl FrameReader<'_> {
    fn request(&mut self) -> Option<Request> {
        let [kind] = self.take()?;
        let id = u64::from_ne_bytes(self.take()?);
        match kind {
            SPAWN => self.spawn(id).map(Request::Spawn),
            KILL => Some(Request::Kill { id, pid: i32::from_ne_bytes(self.take()?) }),
            _ => None,
        }
    }

    fn spawn(&mut self, id: u64) -> Option<Spawn> {
        let [piped, deferred] = self.take()?;
        let report = if deferred == 0 { StartReport::Immediate } else { StartReport::Deferred };
        let working_dir = match self.take()? {
            [0] => None,
            [_] => Some(self.text()?),
        };
        let argv = (0..self.count()?).map(|_| self.text()).collect::<Option<_>>()?;
        let inherit = match self.take()? {
            [0] => None,
            [_] => Some((0..self.count()?).map(|_| self.text()).collect::<Option<_>>()?),
        };
        let env = (0..self.count()?)
            .map(|_| Some((self.text()?, self.text()?)))
            .collect::<Option<_>>()?;
        Some(Spawn { id, piped_stdin: piped != 0, report, working_dir, argv, inherit, env })
    }

    fn count(&mut self) -> Option<u32> {
        self.take().map(u32::from_ne_bytes)
    }

    fn text(&mut self) -> Option<OsString> {
        let length = usize::try_from(self.count()?).ok()?;
        let (text, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(OsString::from_vec(text.to_vec()))
    }

    fn take<const SIZE: usize>(&mut self) -> Option<[u8; SIZE]> {
        let (bytes, rest) = self.0.split_first_chunk::<SIZE>()?;
        self.0 = rest;
        Some(*bytes)
    }
}

impl Reply {
    pub(crate) fn encode(self) -> [u8; REPLY_SIZE] {
        let (kind, detail, number, id) = match self {
            Self::Spawned { id, pid } => (SPAWNED, 0, pid, id),
            Self::Failed { id, errno, step } => (FAILED, step as u8, errno, id),
            Self::Exited { id, end: ExitReport { status, has_leftovers } } => match status {
                ExitStatus::Code(code) => (EXITED, u8::from(has_leftovers), code, id),
                ExitStatus::Signal(signal) => (SIGNALLED, u8::from(has_leftovers), signal, id),
            },
        };
        let [n0, n1, n2, n3] = number.to_ne_bytes();
        let [i0, i1, i2, i3, i4, i5, i6, i7] = id.to_ne_bytes();
        [kind, detail, 0, 0, n0, n1, n2, n3, i0, i1, i2, i3, i4, i5, i6, i7]
    }

    pub(crate) fn decode(bytes: [u8; REPLY_SIZE]) -> Option<Self> {
        let [kind, detail, _, _, n0, n1, n2, n3, i0, i1, i2, i3, i4, i5, i6, i7] = bytes;
        let number = i32::from_ne_bytes([n0, n1, n2, n3]);
        let id = u64::from_ne_bytes([i0, i1, i2, i3, i4, i5, i6, i7]);
        let exited = |status| {
            let end = ExitReport { status, has_leftovers: detail != 0 };
            Self::Exited { id, end }
        };
        Some(match kind {
            SPAWNED => Self::Spawned { id, pid: number },
            FAILED => Self::Failed { id, errno: number, step: step_from(detail) },
            EXITED => exited(ExitStatus::Code(number)),
            SIGNALLED => exited(ExitStatus::Signal(number)),
            _ => return None,
        })
    }
}

const fn step_from(byte: u8) -> StartStep {
    match byte {
        0 => StartStep::Prepare,
        1 => StartStep::Directory,
        _ => StartStep::Program,
    }
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, option::of, prelude::*};

    use super::*;

    fn expected(id: u64, command: &Command) -> Request {
        Request::Spawn(Spawn {
            id,
            piped_stdin: command.stdin == Stdin::Piped,
            report: StartReport::Deferred,
            working_dir: command.working_dir.clone().map(Into::into),
            argv: command.argv.iter().map(Into::into).collect(),
            inherit: match &command.inherit {
                Inherit::All => None,
                Inherit::Basic(names) => Some(names.iter().map(Into::into).collect()),
            },
            env: command.env.iter().map(|(key, value)| (key.into(), value.into())).collect(),
        })
    }

    proptest! {
        #[test]
        fn spawn_requests_round_trip(
            id: u64,
            argv in vec(".{0,9}", 0..5),
            env in vec((".{0,9}", ".{0,9}"), 0..5),
            working_dir in of(".{0,9}"),
            piped: bool,
            inherited in of(vec(".{0,9}", 0..3)),
        ) {
            let stdin = if piped { Stdin::Piped } else { Stdin::Null };
            let inherit = inherited.map_or(Inherit::All, Inherit::Basic);
            let working_dir = working_dir.map(Into::into);
            let command = Command { argv, inherit, env, working_dir, stdin };
            let frame = spawn_frame(id, &command, StartReport::Deferred).unwrap();
            for cut in 0..frame.len() {
                prop_assert_eq!(next_request(&frame[..cut]), Ok(None));
            }
            let size = frame.len();
            prop_assert_eq!(next_request(&frame), Ok(Some((expected(id, &command), size))));
        }

        #[test]
        fn arbitrary_bytes_do_not_panic(bytes: Vec<u8>) {
            let _request = next_request(&bytes);
        }

        #[test]
        fn replies_round_trip(id: u64, number: i32, has_leftovers: bool, kind in 0..6) {
            let exited = |status| Reply::Exited { id, end: ExitReport { status, has_leftovers } };
            let reply = match kind {
                0 => Reply::Spawned { id, pid: number },
                1 => Reply::Failed { id, errno: number, step: StartStep::Prepare },
                2 => Reply::Failed { id, errno: number, step: StartStep::Directory },
                3 => Reply::Failed { id, errno: number, step: StartStep::Program },
                4 => exited(ExitStatus::Code(number)),
                _ => exited(ExitStatus::Signal(number)),
            };
            prop_assert_eq!(Reply::decode(reply.encode()), Some(reply));
        }
    }

    #[test]
    fn a_kill_request_leaves_the_following_bytes() {
        let mut bytes = kill_frame(7, 42);
        let size = bytes.len();
        bytes.extend([1, 2, 3]);
        assert_eq!(next_request(&bytes), Ok(Some((Request::Kill { id: 7, pid: 42 }, size))));
    }

    #[test]
    fn oversized_requests_are_refused() {
        let command = Command::new(["x".repeat(REQUEST_LIMIT)]);
        assert_eq!(spawn_frame(1, &command, StartReport::Immediate), None);
    }
}
