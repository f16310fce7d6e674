//! Where clients come in.

use std::{
    io,
    net::{SocketAddr, ToSocketAddrs as _},
};

use listenfd::ListenFd;
use tokio::net::TcpListener;

use crate::error::CommandError;

/// Listens on what the service manager passed on, else on every address of `host`. `setting` is what
/// chooses the port.
pub(crate) async fn open(
    host: &str,
    port: u16,
    setting: &str,
) -> Result<Vec<TcpListener>, CommandError> {
    let passed = from_service_manager()?;
    if !passed.is_empty() {
        return Ok(passed);
    }
    let cannot = |reason: String| {
        CommandError::new(format!("cannot listen on {host}:{port}: {reason}"))
            .hint(format!("choose another {setting}, or stop what uses this one"))
    };
    let addresses: Vec<SocketAddr> =
        (host, port).to_socket_addrs().map_err(|err| cannot(err.to_string()))?.collect();
    let mut listeners: Vec<TcpListener> = Vec::new();
    let mut refused = None;
    for address in addresses {
        // Of a name with two addresses, both have to have one port.
        let port = listeners.first().and_then(|first| first.local_addr().ok()).map(|a| a.port());
        let address = port.map_or(address, |port| SocketAddr::new(address.ip(), port));
        match TcpListener::bind(address).await {
            Ok(listener) => listeners.push(listener),
            // A machine without one of the two families is served on the other.
            Err(err) if err.kind() == io::ErrorKind::AddrNotAvailable => refused = Some(err),
            Err(err) => return Err(cannot(err.to_string())),
        }
    }
    if listeners.is_empty() {
        return Err(cannot(refused.map_or("no address".to_owned(), |err| err.to_string())));
    }
    Ok(listeners)
}

fn from_service_manager() -> io::Result<Vec<TcpListener>> {
    let mut passed = ListenFd::from_env();
    let mut listeners = Vec::new();
    for number in 0..passed.len() {
        if let Some(listener) = passed.take_tcp_listener(number)? {
            listener.set_nonblocking(true)?;
            listeners.push(TcpListener::from_std(listener)?);
        }
    }
    Ok(listeners)
}

/// The address that clients use.
pub(crate) fn url(host: &str, listeners: &[TcpListener]) -> String {
    let port = listeners.first().and_then(|first| first.local_addr().ok()).map_or(0, |a| a.port());
    let host = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
    format!("http://{host}:{port}/mcp")
}
