//! The user whose process is at the other end of a loopback connection.
//!
//! The kernel knows the owner of a socket: `sock_diag` looks up one connection. Where it is not available,
//! `/proc/net/tcp` lists all connections.
//!
//! **Invariant:** a socket that its process has closed has no owner. The kernel reports user 0 for such a socket, so
//! the user counts only while the socket has an inode. Otherwise any user could send a request, close the connection
//! and pass for root.

use std::{
    fs::File,
    io::{BufRead as _, BufReader},
    net::{IpAddr, SocketAddr},
};

use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink, recv, sendto,
    socket_with,
};

/// The owner of a socket, as the kernel reports it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct SocketOwner {
    user: u32,
    /// 0 once the process has closed it.
    inode: u32,
}

impl SocketOwner {
    const fn user(self) -> Option<u32> {
        if self.inode == 0 { None } else { Some(self.user) }
    }
}

/// Looks up the user id of the process that connected from `remote` to `local`; `None` if it is not known.
pub fn lookup(remote: SocketAddr, local: SocketAddr) -> Option<u32> {
    let (remote, local) = (canonical(remote), canonical(local));
    match by_sock_diag(remote, local) {
        Some(owner) => owner.user(),
        None => by_proc(remote, local),
    }
}

fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

const HEADER: usize = 16;
const REQUEST: usize = HEADER + 56;
const RESPONSE: usize = HEADER + 72;
const SOCK_DIAG_BY_FAMILY: u16 = 20;
const NLM_F_REQUEST: u16 = 1;
const TCP: u8 = 6;
/// The TCP states of a connection: all but `TIME_WAIT` and `LISTEN`.
const IS_CONNECTED: [u8; 7] = [1, 2, 3, 4, 5, 8, 11];

/// Asks the kernel for one socket. `None` if it is not found or the kernel cannot be asked.
fn by_sock_diag(remote: SocketAddr, local: SocketAddr) -> Option<SocketOwner> {
    let kernel = socket_with(
        AddressFamily::NETLINK,
        SocketType::DGRAM,
        SocketFlags::CLOEXEC,
        Some(netlink::SOCK_DIAG),
    )
    .ok()?;
    let id = socket_id(remote, local);
    let request = request(remote, &id);
    sendto(&kernel, &request, SendFlags::empty(), &netlink::SocketAddrNetlink::new(0, 0)).ok()?;
    let mut response = [0; 512];
    // The kernel queues its response before `sendto` returns, so there is nothing to wait for.
    let (length, _) = recv(&kernel, &mut response, RecvFlags::DONTWAIT).ok()?;
    owner(response.get(..length)?, &id)
}

/// `inet_diag_sockid` without the interface and the cookie: ports and addresses, from the side of the client.
fn socket_id(remote: SocketAddr, local: SocketAddr) -> [u8; 36] {
    let mut id = [0; 36];
    let mut put = |at: usize, bytes: &[u8]| {
        for (place, byte) in id.iter_mut().skip(at).zip(bytes) {
            *place = *byte;
        }
    };
    put(0, &remote.port().to_be_bytes());
    put(2, &local.port().to_be_bytes());
    for (at, address) in [(4, remote.ip()), (20, local.ip())] {
        match address {
            IpAddr::V4(ip) => put(at, &ip.octets()),
            IpAddr::V6(ip) => put(at, &ip.octets()),
        }
    }
    id
}

/// A `nlmsghdr` with an `inet_diag_req_v2`.
fn request(remote: SocketAddr, id: &[u8; 36]) -> Vec<u8> {
    let family = if remote.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let length = u32::try_from(REQUEST).unwrap_or_default();
    let mut request = Vec::with_capacity(REQUEST);
    request.extend(length.to_ne_bytes());
    request.extend(SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    request.extend(NLM_F_REQUEST.to_ne_bytes());
    request.extend([0; 8]);
    request.extend([u8::try_from(family.as_raw()).unwrap_or_default(), TCP, 0, 0]);
    // All states.
    request.extend(u32::MAX.to_ne_bytes());
    request.extend(id);
    // Any interface, no cookie.
    request.extend(0_u32.to_ne_bytes());
    request.extend([0xff; 8]);
    request
}

/// The owner in an `inet_diag_msg`, if it is about the connection that was asked for.
fn owner(response: &[u8], id: &[u8; 36]) -> Option<SocketOwner> {
    let number = |at: usize| {
        let bytes = response.get(at..at + 4)?;
        Some(u32::from_ne_bytes(bytes.try_into().ok()?))
    };
    let kind = response.get(4..6)?;
    // A lookup that finds no connection falls back to listening sockets.
    let is_ours = kind == SOCK_DIAG_BY_FAMILY.to_ne_bytes()
        && response.len() >= RESPONSE
        && response.get(HEADER + 1).is_some_and(|state| IS_CONNECTED.contains(state))
        && response.get(HEADER + 4..HEADER + 8) == id.get(..4);
    is_ours.then_some(SocketOwner { user: number(HEADER + 64)?, inode: number(HEADER + 68)? })
}

/// Searches the kernel's tables of connections.
fn by_proc(remote: SocketAddr, local: SocketAddr) -> Option<u32> {
    let find = || {
        ["/proc/net/tcp", "/proc/net/tcp6"].into_iter().find_map(|table| {
            let lines = BufReader::new(File::open(table).ok()?).lines().map_while(Result::ok);
            let wide = table.ends_with('6');
            let (client, gateway) = (in_table(remote, wide)?, in_table(local, wide)?);
            lines.skip(1).find_map(|line| entry(&line, &client, &gateway))
        })
    };
    // The kernel does not read user and inode of a line atomically: trust them only if a second read finds the same.
    let owner = find()?;
    (find() == Some(owner)).then(|| owner.user()).flatten()
}

/// An address as a table writes it; `None` if this table has no such addresses.
fn in_table(address: SocketAddr, wide: bool) -> Option<String> {
    let words = |bytes: &[u8]| -> String {
        let word = |chunk: &[u8]| chunk.try_into().map(u32::from_ne_bytes).unwrap_or_default();
        bytes.chunks(4).map(|chunk| format!("{:08X}", word(chunk))).collect()
    };
    let ip = match (address.ip(), wide) {
        (IpAddr::V4(ip), false) => words(&ip.octets()),
        (IpAddr::V4(ip), true) => words(&ip.to_ipv6_mapped().octets()),
        (IpAddr::V6(ip), true) => words(&ip.octets()),
        (IpAddr::V6(_), false) => return None,
    };
    Some(format!("{ip}:{:04X}", address.port()))
}

/// The owner in a line, if it is about this connection.
fn entry(line: &str, client: &str, gateway: &str) -> Option<SocketOwner> {
    let mut words = line.split_ascii_whitespace().skip(1);
    if words.next()? != client || words.next()? != gateway {
        return None;
    }
    let mut words = words.skip(4);
    let user = words.next()?.parse().ok()?;
    let inode = words.nth(1)?.parse().ok()?;
    Some(SocketOwner { user, inode })
}

#[cfg(test)]
mod tests {
    use std::net::{SocketAddr, TcpListener, TcpStream};

    use rustix::process::geteuid;

    use super::{SocketOwner, by_proc, entry, in_table, lookup};

    fn connected(host: &str) -> Option<(TcpStream, TcpStream)> {
        let listener = TcpListener::bind((host, 0)).ok()?;
        let client = TcpStream::connect(listener.local_addr().ok()?).ok()?;
        let (served, _) = listener.accept().ok()?;
        Some((client, served))
    }

    #[test]
    fn the_user_of_an_open_connection_is_known() {
        let own = geteuid().as_raw();
        for host in ["127.0.0.1", "::1"] {
            // A machine may lack one of the families.
            let Some((client, served)) = connected(host) else { continue };
            let ends = (served.peer_addr().unwrap(), served.local_addr().unwrap());
            assert_eq!(lookup(ends.0, ends.1), Some(own), "{host}");
            assert_eq!(by_proc(ends.0, ends.1), Some(own), "{host}");
            assert_eq!(lookup(ends.1, SocketAddr::new(ends.0.ip(), 1)), None, "{host}");
            drop(client);
            // The kernel reports root as the owner of the closed socket.
            assert_eq!(lookup(ends.0, ends.1), None, "{host}");
            assert_eq!(by_proc(ends.0, ends.1), None, "{host}");
        }
    }

    #[test]
    fn lines_of_the_table() {
        let client = in_table("127.0.0.1:50000".parse().unwrap(), false).unwrap();
        let gateway = in_table("127.0.0.1:8090".parse().unwrap(), false).unwrap();
        let line = |inode: &str| {
            format!(
                "   1: {client} {gateway} 01 00000000:00000000 00:00000000 00000000  1000        0 {inode} 1 0000000000000000 20 4 30 10 -1"
            )
        };
        let open = entry(&line("4711"), &client, &gateway);
        assert_eq!(open, Some(SocketOwner { user: 1000, inode: 4711 }));
        assert_eq!(open.unwrap().user(), Some(1000));
        assert_eq!(entry(&line("0"), &client, &gateway).unwrap().user(), None);
        assert_eq!(entry(&line("4711"), &gateway, &client), None);
        assert_eq!(entry("", &client, &gateway), None);
    }
}
