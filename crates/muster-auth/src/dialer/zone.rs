//! What a number on the network belongs to.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// What an address belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Zone {
    /// The open network.
    Public,
    /// This machine.
    Loopback,
    /// A network of someone's own.
    Private,
    /// Nothing a request should go to: link-local, machine metadata, multicast, ranges with a special
    /// meaning.
    Forbidden,
}

/// Where clouds tell machines who they are, in ranges that would otherwise be ordinary.
const METADATA_4: [Ipv4Addr; 2] =
    [Ipv4Addr::new(100, 100, 100, 200), Ipv4Addr::new(168, 63, 129, 16)];
const METADATA_6: [Ipv6Addr; 2] = [
    Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254),
    Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254),
];

impl Zone {
    /// What an address belongs to.
    pub fn of(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(address) => of_v4(address),
            IpAddr::V6(address) => of_v6(address),
        }
    }
}

fn of_v4(address: Ipv4Addr) -> Zone {
    if METADATA_4.contains(&address) {
        return Zone::Forbidden;
    }
    match address.octets() {
        [127, ..] => Zone::Loopback,
        [10, ..] | [192, 168, ..] => Zone::Private,
        [172, second, ..] if second & 0xf0 == 16 => Zone::Private,
        // Carriers' networks; some clouds number machines by it.
        [100, second, ..] if second & 0xc0 == 64 => Zone::Private,
        [0 | 224..=255, ..] | [169, 254, ..] => Zone::Forbidden,
        // Protocols, documentation, relays, measuring.
        [192, 0, 0 | 2, _] | [192, 88, 99, _] | [198, 18 | 19, ..] => Zone::Forbidden,
        [198, 51, 100, _] | [203, 0, 113, _] => Zone::Forbidden,
        _ => Zone::Public,
    }
}

fn of_v6(address: Ipv6Addr) -> Zone {
    if address.is_loopback() {
        return Zone::Loopback;
    }
    if METADATA_6.contains(&address) {
        return Zone::Forbidden;
    }
    if let Some(inner) = address.to_ipv4_mapped() {
        return of_v4(inner);
    }
    match address.segments() {
        // What is translated to IPv4 goes there.
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => {
            let [[a, b], [c, d]] = [high.to_be_bytes(), low.to_be_bytes()];
            match of_v4(Ipv4Addr::new(a, b, c, d)) {
                Zone::Public => Zone::Public,
                Zone::Loopback | Zone::Private | Zone::Forbidden => Zone::Forbidden,
            }
        }
        [first, ..] if first & 0xfe00 == 0xfc00 => Zone::Private,
        // Tunnels, which hide where they lead, and documentation.
        [0x2001, second, ..] if second < 0x200 || second == 0xdb8 => Zone::Forbidden,
        [0x2002, ..] => Zone::Forbidden,
        [0x3fff, second, ..] if second < 0x1000 => Zone::Forbidden,
        [first, ..] if first & 0xe000 == 0x2000 => Zone::Public,
        _ => Zone::Forbidden,
    }
}
