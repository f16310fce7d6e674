//! The standard streams of this process as asynchronous streams.
//!
//! Pipes and sockets are polled directly. A pipe is reopened, so that making it non-blocking does not
//! affect other processes that share it. Anything else, a terminal or a file, is read by a thread.

use std::{
    io,
    os::fd::{AsFd as _, BorrowedFd, OwnedFd},
    pin::Pin,
    task::{Context, Poll},
};

use rustix::fs::{FileType, fstat};
use tokio::{
    io::{AsyncRead, AsyncWriteExt as _, Interest, ReadBuf},
    net::{UnixStream, unix::pipe},
};

/// The stream that messages are read from.
#[derive(Debug)]
pub enum Input {
    /// A pipe.
    Pipe(pipe::Receiver),
    /// A socket.
    Socket(UnixStream),
    /// A terminal or a file.
    Other(tokio::io::Stdin),
}

/// The stream that messages are written to.
#[derive(Debug)]
pub enum Output {
    /// A pipe.
    Pipe(pipe::Sender),
    /// A socket.
    Socket(UnixStream),
    /// A terminal or a file.
    Other(tokio::io::Stdout),
}

impl Input {
    /// The standard input.
    pub fn standard() -> io::Result<Self> {
        let stdin = rustix::stdio::stdin();
        Ok(match file_type(stdin)? {
            FileType::Fifo => {
                Self::Pipe(match pipe::OpenOptions::new().open_receiver("/proc/self/fd/0") {
                    Ok(receiver) => receiver,
                    Err(_) => pipe::Receiver::from_owned_fd(duplicate(stdin)?)?,
                })
            }
            FileType::Socket => Self::Socket(socket(stdin)?),
            _ => Self::Other(tokio::io::stdin()),
        })
    }
}

impl Output {
    /// The standard output.
    pub fn standard() -> io::Result<Self> {
        let stdout = rustix::stdio::stdout();
        Ok(match file_type(stdout)? {
            FileType::Fifo => {
                Self::Pipe(match pipe::OpenOptions::new().open_sender("/proc/self/fd/1") {
                    Ok(sender) => sender,
                    Err(_) => pipe::Sender::from_owned_fd(duplicate(stdout)?)?,
                })
            }
            FileType::Socket => Self::Socket(socket(stdout)?),
            _ => Self::Other(tokio::io::stdout()),
        })
    }

    /// Writes all of `bytes`; a client that is gone is not an error.
    pub async fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        let written = match self {
            Self::Pipe(pipe) => pipe.write_all(bytes).await,
            Self::Socket(socket) => socket.write_all(bytes).await,
            Self::Other(stdout) => match stdout.write_all(bytes).await {
                Ok(()) => stdout.flush().await,
                Err(err) => Err(err),
            },
        };
        match written {
            // The client is gone, as connections usually end.
            Err(err) if err.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            written => written,
        }
    }

    /// Waits until the client is gone. Never completes for a terminal or a file.
    pub async fn closed(&self) {
        loop {
            let ready = match self {
                Self::Pipe(pipe) => pipe.ready(Interest::ERROR).await,
                Self::Socket(socket) => socket.ready(Interest::ERROR).await,
                Self::Other(_) => return std::future::pending().await,
            };
            match ready {
                Ok(ready) if ready.is_error() || ready.is_write_closed() => return,
                Ok(_) => tokio::task::yield_now().await,
                Err(_) => return,
            }
        }
    }
}

fn file_type(fd: BorrowedFd<'_>) -> io::Result<FileType> {
    Ok(FileType::from_raw_mode(fstat(fd)?.st_mode))
}

fn duplicate(fd: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    fd.as_fd().try_clone_to_owned()
}

fn socket(fd: BorrowedFd<'_>) -> io::Result<UnixStream> {
    let stream = std::os::unix::net::UnixStream::from(duplicate(fd)?);
    stream.set_nonblocking(true)?;
    UnixStream::from_std(stream)
}

impl AsyncRead for Input {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Pipe(pipe) => Pin::new(pipe).poll_read(cx, buf),
            Self::Socket(socket) => Pin::new(socket).poll_read(cx, buf),
            Self::Other(stdin) => Pin::new(stdin).poll_read(cx, buf),
        }
    }
}
