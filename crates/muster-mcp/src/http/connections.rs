//! The open connections: how many, of which peers, and which of them make room for new ones.
//!
//! A connection without a request in service or a response to read is closed when another needs its place, so that
//! silent clients cannot keep others out. A request whose body has not arrived is not in service yet. If there is none, the newest event stream on which no client waits for a
//! response is closed: in a flood of streams, it is part of the flood. A few connections beyond the limit are still
//! accepted, to answer `/health` and to tell other clients that the server is busy.

use std::{
    collections::BTreeMap,
    net::{IpAddr, Ipv6Addr},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::sessions::HttpSession;
use crate::lock::Lock;

/// The number of connections beyond the limit.
const RESERVE: usize = 32;

/// How long a client may stop reading its response before another connection may take its place.
const READ_TIMEOUT: Duration = Duration::from_secs(30);

/// Counts the connections and sessions of a server.
#[derive(Debug, Default)]
pub struct ConnectionCounter {
    open: AtomicUsize,
    accepted: AtomicU64,
    sessions: AtomicUsize,
}

impl ConnectionCounter {
    /// The connections that are open.
    pub fn open(&self) -> usize {
        self.open.load(Ordering::Relaxed)
    }

    /// The connections that were ever accepted.
    pub fn accepted(&self) -> u64 {
        self.accepted.load(Ordering::Relaxed)
    }

    /// The sessions of legacy clients.
    pub fn sessions(&self) -> usize {
        self.sessions.load(Ordering::Relaxed)
    }

    pub(super) fn session_began(&self) {
        self.sessions.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn session_ended(&self) {
        self.sessions.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The open connections of a server.
#[derive(Debug)]
pub(super) struct Connections {
    limit: usize,
    counter: Arc<ConnectionCounter>,
    table: Lock<Table>,
}

#[derive(Debug, Default)]
struct Table {
    next: u64,
    /// In the order of their beginning.
    open: BTreeMap<u64, OpenConnection>,
    by_peer: BTreeMap<IpAddr, usize>,
}

#[derive(Debug)]
struct OpenConnection {
    peer: IpAddr,
    busy: Busy,
    evicted: CancellationToken,
}

/// How a connection is served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Service {
    /// Every request, one after another.
    Full,
    /// One request: `/health` is answered, all others are refused for now.
    HealthOnly,
}

/// The place of a connection, until it is dropped.
#[derive(Debug)]
pub(super) struct ConnectionPlace {
    connections: Arc<Connections>,
    id: u64,
    peer: IpAddr,
    pub(super) service: Service,
    pub(super) busy: Busy,
    /// Cancelled when another connection needs the place.
    pub(super) evicted: CancellationToken,
}

/// The activity of a connection: the requests that it serves, and whether its client has yet to read a response.
#[derive(Debug, Clone, Default)]
pub(super) struct Busy(Arc<Activity>);

#[derive(Debug, Default)]
struct Activity {
    requests: AtomicUsize,
    /// Whether the body of the request has not arrived completely.
    is_receiving: AtomicBool,
    /// Since when the socket accepts no further bytes; `None` if it accepts them.
    blocked: Lock<Option<Instant>>,
    is_blocked: AtomicBool,
    /// The event stream without an end of its own that the connection carries, if there is one.
    standing: Lock<Option<StandingStream>>,
    is_standing: AtomicBool,
}

/// An event stream without an end of its own.
#[derive(Debug)]
pub(super) enum StandingStream {
    /// It carries change notifications.
    Changes,
    /// It carries all messages of a session, including responses.
    Session(Arc<HttpSession>),
}

impl StandingStream {
    /// Whether its client waits for no response on it.
    fn is_quiet(&self) -> bool {
        match self {
            Self::Changes => true,
            Self::Session(session) => session.is_quiet(),
        }
    }
}

/// A request in service, until it is dropped.
#[derive(Debug)]
pub(super) struct InService(Busy);

/// A request whose body is arriving, until it is dropped.
#[derive(Debug)]
pub(super) struct Receiving<'a>(&'a Busy);

impl Busy {
    pub(super) fn begin(&self) -> InService {
        self.0.requests.fetch_add(1, Ordering::Relaxed);
        InService(self.clone())
    }

    /// Records that the body of the request is arriving.
    pub(super) fn receive(&self) -> Receiving<'_> {
        self.0.is_receiving.store(true, Ordering::Relaxed);
        Receiving(self)
    }

    /// Whether the connection may be closed to make room for another one.
    pub(super) fn makes_room(&self) -> bool {
        self.is_idle() || self.is_quiet()
    }

    /// Whether the connection serves nothing but an event stream on which no response is awaited.
    fn is_quiet(&self) -> bool {
        self.0.is_standing.load(Ordering::Relaxed)
            && self.0.standing.lock().as_ref().is_some_and(StandingStream::is_quiet)
    }

    /// Records that the socket accepts no bytes now, although some are left.
    pub(super) fn write_blocked(&self) {
        if !self.0.is_blocked.swap(true, Ordering::Relaxed) {
            *self.0.blocked.lock() = Some(Instant::now());
        }
    }

    /// Records that the socket has accepted bytes.
    pub(super) fn write_proceeded(&self) {
        if self.0.is_blocked.load(Ordering::Relaxed) {
            self.0.is_blocked.store(false, Ordering::Relaxed);
            *self.0.blocked.lock() = None;
        }
    }

    /// Whether no request is in service and no response is being read. A client that has stopped reading, or does not
    /// send what it has announced, does not keep its place.
    pub(super) fn is_idle(&self) -> bool {
        self.is_idle_at(Instant::now())
    }

    fn is_idle_at(&self, now: Instant) -> bool {
        let is_reading = || {
            let blocked = *self.0.blocked.lock();
            blocked.is_some_and(|since| now < since + READ_TIMEOUT)
        };
        let is_serving = self.0.requests.load(Ordering::Relaxed) > 0
            && !self.0.is_receiving.load(Ordering::Relaxed);
        let is_read = self.0.is_blocked.load(Ordering::Relaxed) && is_reading();
        !(is_serving || is_read)
    }
}

impl InService {
    /// Records that the request has become an event stream without an end of its own.
    pub(super) fn stands(&self, stream: StandingStream) {
        *self.0.0.standing.lock() = Some(stream);
        self.0.0.is_standing.store(true, Ordering::Relaxed);
    }
}

impl Drop for InService {
    fn drop(&mut self) {
        if self.0.0.is_standing.load(Ordering::Relaxed) {
            self.0.0.is_standing.store(false, Ordering::Relaxed);
            *self.0.0.standing.lock() = None;
        }
        self.0.0.requests.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Drop for Receiving<'_> {
    fn drop(&mut self) {
        self.0.0.is_receiving.store(false, Ordering::Relaxed);
    }
}

impl Connections {
    pub(super) fn new(limit: usize, counter: Arc<ConnectionCounter>) -> Arc<Self> {
        Arc::new(Self { limit: limit.max(1), counter, table: Lock::default() })
    }

    /// Returns a place for a new connection of a peer; `None` if even the reserve is used up.
    pub(super) fn admit(self: &Arc<Self>, address: IpAddr) -> Option<ConnectionPlace> {
        let peer = peer_of(address);
        let mut table = self.table.lock();
        let has_share = self.has_share(&table, peer);
        let has_room = table.open.len() < self.limit && !has_share;
        let service = if has_room || table.evict(has_share.then_some(peer)) {
            Service::Full
        } else if table.open.len() < self.limit + RESERVE {
            Service::HealthOnly
        } else {
            return None;
        };
        let id = table.next;
        table.next += 1;
        let (busy, evicted) = (Busy::default(), CancellationToken::new());
        let open = OpenConnection { peer, busy: busy.clone(), evicted: evicted.clone() };
        table.open.insert(id, open);
        *table.by_peer.entry(peer).or_default() += 1;
        drop(table);
        self.counter.open.fetch_add(1, Ordering::Relaxed);
        self.counter.accepted.fetch_add(1, Ordering::Relaxed);
        Some(ConnectionPlace { connections: Arc::clone(self), id, peer, service, busy, evicted })
    }

    /// Closes an idle connection, because the system has no descriptors left.
    pub(super) fn make_room(&self) {
        self.table.lock().evict(None);
    }

    /// Whether a peer has used up its share of the connections. Loopback peers have no such limit, because local
    /// clients and clients behind a proxy on this machine cannot be told apart.
    fn has_share(&self, table: &Table, peer: IpAddr) -> bool {
        let share = (self.limit / 2).max(1);
        !peer.is_loopback() && table.by_peer.get(&peer).is_some_and(|open| *open >= share)
    }
}

impl Table {
    /// Closes the oldest idle connection, or else the newest one with a quiet stream, of the peer `of`. Without
    /// `of`, each of the two searches tries the peer with the most connections, then all others. In a flood of
    /// connections, the search ends with the first ones.
    fn evict(&mut self, of: Option<IpAddr>) -> bool {
        let most = self.by_peer.iter().max_by_key(|(_, open)| **open).map(|(peer, _)| *peer);
        let is_of = |open: &&OpenConnection, peer: Option<IpAddr>| {
            peer.is_none_or(|peer| peer == open.peer) && !open.evicted.is_cancelled()
        };
        let oldest_idle = |peer| {
            let mut oldest = self.open.values();
            oldest.find(|open| is_of(open, peer) && open.busy.is_idle())
        };
        let newest_quiet = |peer| {
            let mut newest = self.open.values().rev();
            newest.find(|open| is_of(open, peer) && open.busy.is_quiet())
        };
        let anybody = || if of.is_none() { oldest_idle(None) } else { None };
        let found = oldest_idle(of.or(most))
            .or_else(anybody)
            .or_else(|| newest_quiet(of.or(most)))
            .or_else(|| if of.is_none() { newest_quiet(None) } else { None });
        if let Some(open) = found {
            open.evicted.cancel();
        }
        found.is_some()
    }
}

impl Drop for ConnectionPlace {
    fn drop(&mut self) {
        self.connections.counter.open.fetch_sub(1, Ordering::Relaxed);
        let mut table = self.connections.table.lock();
        table.open.remove(&self.id);
        if let Some(open) = table.by_peer.get_mut(&self.peer) {
            *open -= 1;
            if *open == 0 {
                table.by_peer.remove(&self.peer);
            }
        }
    }
}

/// Returns the peer that an address belongs to. An IPv6 peer is a /64 network, because a host has a whole network of
/// addresses.
pub(super) fn peer_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) if !address.is_loopback() => {
            IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX)))
        }
        address => address,
    }
}

#[cfg(test)]
mod tests {
    use std::{net::IpAddr, sync::Arc};

    use tokio::time::Instant;

    use super::{Connections, READ_TIMEOUT, RESERVE, Service, StandingStream};

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn connections_whose_body_does_not_arrive_make_room() {
        let connections = Connections::new(2, Arc::default());
        let local = ip("127.0.0.1");
        let (first, second) =
            (connections.admit(local).unwrap(), connections.admit(local).unwrap());
        let _requests = [first.busy.begin(), second.busy.begin()];
        let receiving = second.busy.receive();
        assert_eq!(connections.admit(local).unwrap().service, Service::Full);
        assert!(second.evicted.is_cancelled() && !first.evicted.is_cancelled());
        drop(receiving);
        assert!(!second.busy.makes_room(), "it is served before the connection ends");
    }

    #[test]
    fn idle_connections_make_room() {
        let connections = Connections::new(2, Arc::default());
        let local = ip("127.0.0.1");
        let first = connections.admit(local).unwrap();
        let second = connections.admit(local).unwrap();
        let request = first.busy.begin();
        let third = connections.admit(local).unwrap();
        assert_eq!(third.service, Service::Full);
        assert!(second.evicted.is_cancelled() && !first.evicted.is_cancelled());
        drop(second);
        let another = third.busy.begin();
        let busy = connections.admit(local).unwrap();
        assert_eq!(busy.service, Service::HealthOnly);
        drop((busy, request, another));
        assert_eq!(connections.admit(local).unwrap().service, Service::Full);
    }

    #[test]
    fn a_connection_whose_response_is_being_read_is_not_idle() {
        let connections = Connections::new(1, Arc::default());
        let local = ip("127.0.0.1");
        let reading = connections.admit(local).unwrap();
        reading.busy.write_blocked();
        assert_eq!(connections.admit(local).unwrap().service, Service::HealthOnly);
        assert!(!reading.evicted.is_cancelled());
        // A client that does not read loses its place after a while.
        assert!(reading.busy.is_idle_at(Instant::now() + READ_TIMEOUT));
        reading.busy.write_proceeded();
        assert_eq!(connections.admit(local).unwrap().service, Service::Full);
        assert!(reading.evicted.is_cancelled());
    }

    #[test]
    fn the_newest_quiet_stream_makes_room_where_nothing_is_idle() {
        let connections = Connections::new(2, Arc::default());
        let local = ip("127.0.0.1");
        let streams = [(), ()].map(|()| {
            let place = connections.admit(local).unwrap();
            let request = place.busy.begin();
            request.stands(StandingStream::Changes);
            (place, request)
        });
        let third = connections.admit(local).unwrap();
        assert_eq!(third.service, Service::Full);
        let evicted = streams.each_ref().map(|(place, _)| place.evicted.is_cancelled());
        assert_eq!(evicted, [false, true]);
        assert!(streams[1].0.busy.makes_room());
        // The other one answers a request again.
        let [(first, stream), _] = streams;
        drop(stream);
        let _request = (first.busy.begin(), third.busy.begin());
        assert!(!first.busy.makes_room());
        assert_eq!(connections.admit(local).unwrap().service, Service::HealthOnly);
    }

    #[test]
    fn beyond_the_reserve_nothing_is_accepted() {
        let connections = Connections::new(1, Arc::default());
        let local = ip("::1");
        let places: Vec<_> = std::iter::from_fn(|| {
            let place = connections.admit(local)?;
            let busy = place.busy.begin();
            Some((place, busy))
        })
        .collect();
        assert_eq!(places.len(), 1 + RESERVE);
    }

    #[test]
    fn a_remote_peer_has_half_of_the_places() {
        let connections = Connections::new(4, Arc::default());
        let (one, same, other) = (ip("2001:db8::1"), ip("2001:db8::2"), ip("192.0.2.1"));
        let first = connections.admit(one).unwrap();
        let second = connections.admit(same).unwrap();
        let _request = first.busy.begin();
        let third = connections.admit(one).unwrap();
        assert!(second.evicted.is_cancelled(), "its own idle one ends");
        let _others = (third.busy.begin(), connections.admit(other).unwrap());
        drop(second);
        assert_eq!(connections.admit(same).unwrap().service, Service::HealthOnly);
        assert_eq!(connections.admit(other).unwrap().service, Service::Full);
    }
}
