//! The SSRF guard: which networks a connection may reach.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::{Url, UrlError};

/// The networks that a connection may reach (SSRF guard).
///
/// Use [`Public`](Self::Public) for URLs from untrusted sources, [`Unrestricted`](Self::Unrestricted)
/// only for those an operator has configured. All other policies require TLS except on this machine, and
/// refuse spellings of a host that programs interpret differently.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AddressPolicy {
    /// Public addresses only.
    Public,
    /// Also this machine, if the URL itself says so: not by a name that merely resolves to it.
    Loopback,
    /// Also private networks, but never link-local or cloud metadata addresses.
    Private,
    /// Any address, with or without TLS.
    Unrestricted,
}

impl AddressPolicy {
    /// Parses a URL and checks it as far as its text allows. The addresses behind a name are checked
    /// when it is dialed.
    pub fn parse(self, url: &str) -> Result<Url, UrlError> {
        let url = Url::parse(url)?;
        self.check_url(&url)?;
        Ok(url)
    }

    /// Checks a URL as far as its text allows.
    pub fn check_url(self, url: &Url) -> Result<(), UrlError> {
        if self == Self::Unrestricted {
            return Ok(());
        }
        if !url.is_canonical() {
            return Err(UrlError::new("the URL has a host that is not written in a plain form"));
        }
        if url.is_loopback() && self == Self::Public {
            return Err(UrlError::new("the URL leads to this machine"));
        }
        if !url.is_secure() && !url.is_loopback() {
            return Err(UrlError::new(
                "the URL must begin with `https://`; `http://` is only for this machine",
            ));
        }
        url.ip().map_or(Ok(()), |ip| self.check_ip(url, ip))
    }

    /// Checks the target of a redirect from `from`: it must not drop TLS or lead to this machine.
    pub(crate) fn check_redirect(self, from: &Url, to: &Url) -> Result<(), UrlError> {
        self.check_url(to)?;
        if from.is_secure() && !to.is_secure() {
            return Err(UrlError::new("a redirect leads away from TLS"));
        }
        if to.is_loopback() && !from.is_loopback() {
            return Err(UrlError::new("a redirect leads to this machine"));
        }
        Ok(())
    }

    /// Checks an address that the host of `url` resolved to.
    pub(crate) fn check_ip(self, url: &Url, ip: IpAddr) -> Result<(), UrlError> {
        let local = url.is_loopback();
        let allowed = match (AddressClass::of(ip), self) {
            (_, Self::Unrestricted) => true,
            (AddressClass::Loopback, Self::Loopback | Self::Private) => local,
            (AddressClass::Public, _) | (AddressClass::Private, Self::Private) => !local,
            (AddressClass::Loopback, Self::Public)
            | (AddressClass::Private, Self::Public | Self::Loopback)
            | (AddressClass::Reserved, _) => false,
        };
        if allowed {
            return Ok(());
        }
        let host = url.host();
        Err(UrlError::new(format!("`{host}` leads to a network that requests may not go to")))
    }
}

/// The kind of network that an IP address belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AddressClass {
    /// The public internet.
    Public,
    /// This machine.
    Loopback,
    /// A private network.
    Private,
    /// Link-local, cloud metadata, multicast, and ranges reserved for special purposes.
    Reserved,
}

/// Cloud metadata services in ranges that would otherwise be ordinary.
const METADATA_V4: [Ipv4Addr; 2] =
    [Ipv4Addr::new(100, 100, 100, 200), Ipv4Addr::new(168, 63, 129, 16)];
const METADATA_V6: [Ipv6Addr; 3] = [
    Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254),
    // Credentials of pods.
    Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x23),
    Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254),
];

impl AddressClass {
    /// Classifies an IP address.
    pub fn of(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(address) => of_v4(address),
            IpAddr::V6(address) => of_v6(address),
        }
    }
}

fn of_v4(address: Ipv4Addr) -> AddressClass {
    if METADATA_V4.contains(&address) {
        return AddressClass::Reserved;
    }
    match address.octets() {
        [127, ..] => AddressClass::Loopback,
        [10, ..] | [192, 168, ..] => AddressClass::Private,
        [172, second, ..] if second & 0xf0 == 16 => AddressClass::Private,
        // Carrier-grade NAT; some clouds assign it to machines.
        [100, second, ..] if second & 0xc0 == 64 => AddressClass::Private,
        [0 | 224..=255, ..] | [169, 254, ..] => AddressClass::Reserved,
        // Protocol assignments, documentation, 6to4 relays, benchmarking.
        [192, 0, 0 | 2, _] | [192, 88, 99, _] | [198, 18 | 19, ..] => AddressClass::Reserved,
        [198, 51, 100, _] | [203, 0, 113, _] => AddressClass::Reserved,
        _ => AddressClass::Public,
    }
}

fn of_v6(address: Ipv6Addr) -> AddressClass {
    if address.is_loopback() {
        return AddressClass::Loopback;
    }
    if METADATA_V6.contains(&address) {
        return AddressClass::Reserved;
    }
    if let Some(inner) = address.to_ipv4_mapped() {
        return of_v4(inner);
    }
    match address.segments() {
        // NAT64: classified by the IPv4 address that it is translated to.
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => {
            let [[a, b], [c, d]] = [high.to_be_bytes(), low.to_be_bytes()];
            match of_v4(Ipv4Addr::new(a, b, c, d)) {
                AddressClass::Public => AddressClass::Public,
                AddressClass::Loopback | AddressClass::Private | AddressClass::Reserved => {
                    AddressClass::Reserved
                }
            }
        }
        [first, ..] if first & 0xfe00 == 0xfc00 => AddressClass::Private,
        // Tunnels, which hide their destination, and documentation.
        [0x2001, second, ..] if second < 0x200 || second == 0xdb8 => AddressClass::Reserved,
        [0x2002, ..] => AddressClass::Reserved,
        [0x3fff, second, ..] if second < 0x1000 => AddressClass::Reserved,
        [first, ..] if first & 0xe000 == 0x2000 => AddressClass::Public,
        _ => AddressClass::Reserved,
    }
}
