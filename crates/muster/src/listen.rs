//! The listening sockets of a gateway.

use std::{
    io,
    net::{SocketAddr, ToSocketAddrs as _},
};

use listenfd::ListenFd;
use muster_net::loopback_addresses;
use tokio::net::TcpListener;

use crate::error::CommandError;

/// Takes the sockets that the service manager passed, or else listens on every address of `host`. `setting` is the name
/// of the port's setting in errors.
pub(crate) async fn open(
    host: &str,
    port: u16,
    setting: &str,
) -> Result<Vec<TcpListener>, CommandError> {
    let passed = from_service_manager()?;
    if !passed.is_empty() {
        return Ok(passed);
    }
    let refusal =
        |reason: String| CommandError::new(format!("cannot listen on {host}:{port}: {reason}"));
    let cannot = |reason: String| {
        refusal(reason).hint(format!("choose another {setting}, or stop what uses this one"))
    };
    let addresses: Vec<SocketAddr> =
        match ((host, port).to_socket_addrs(), loopback_addresses(host)) {
            (Ok(found), _) => found.collect(),
            (Err(_), Some(loopback)) => loopback.map(|ip| SocketAddr::new(ip, port)).to_vec(),
            (Err(err), None) => {
                return Err(refusal(err.to_string()).hint("name an address of this machine"));
            }
        };
    let mut listeners: Vec<TcpListener> = Vec::new();
    let mut refused = None;
    for address in addresses {
        // A name may have several addresses: with port 0, use the port that the first one got for all of them.
        let port = listeners.first().and_then(|first| first.local_addr().ok()).map(|a| a.port());
        let address = port.map_or(address, |port| SocketAddr::new(address.ip(), port));
        match TcpListener::bind(address).await {
            Ok(listener) => listeners.push(listener),
            // IPv4 or IPv6 may be missing on this machine, and the other is enough.
            Err(err) if is_missing_protocol(&err) => refused = Some(err),
            Err(err) => return Err(cannot(err.to_string())),
        }
    }
    if listeners.is_empty() {
        return Err(cannot(refused.map_or("no address".to_owned(), |err| err.to_string())));
    }
    Ok(listeners)
}

fn is_missing_protocol(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::AddrNotAvailable
        || error.raw_os_error() == Some(rustix::io::Errno::AFNOSUPPORT.raw_os_error())
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

/// The URL that clients use.
pub(crate) fn url(host: &str, listeners: &[TcpListener]) -> String {
    let port = listeners.first().and_then(|first| first.local_addr().ok()).map_or(0, |a| a.port());
    let host = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
    format!("http://{host}:{port}/mcp")
}
