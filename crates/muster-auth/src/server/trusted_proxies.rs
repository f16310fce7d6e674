//! Client addresses behind reverse proxies. Only trusted proxies may report them.

use std::net::IpAddr;

use http::HeaderMap;

/// The networks of trusted reverse proxies.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TrustedProxies(Vec<(IpAddr, u8)>);

impl TrustedProxies {
    /// Parses networks such as `10.0.0.0/8`. Returns the first invalid one as the error.
    pub fn parse(networks: &[String]) -> Result<Self, String> {
        let parse = |text: &String| {
            let (address, length) =
                text.split_once('/').map_or((text.as_str(), None), |(a, l)| (a, Some(l)));
            let address: IpAddr = address.parse().ok()?;
            let max = if address.is_ipv4() { 32 } else { 128 };
            let length = length.map_or(Some(max), |length| length.parse().ok())?;
            (length <= max).then_some((address, length))
        };
        let networks = networks.iter().map(|text| parse(text).ok_or_else(|| text.clone()));
        Ok(Self(networks.collect::<Result<_, _>>()?))
    }

    /// The client's address: the last one in `X-Forwarded-For` that is not a trusted proxy.
    pub(super) fn client_ip(&self, headers: &HeaderMap, peer: IpAddr) -> IpAddr {
        if !self.contains(peer) {
            return peer;
        }
        let lines = headers.get_all("x-forwarded-for").iter().filter_map(|line| line.to_str().ok());
        let chain: Vec<&str> = lines.flat_map(|line| line.split(',')).map(str::trim).collect();
        let mut client = peer;
        for link in chain.iter().rev() {
            let Ok(address) = link.parse::<IpAddr>() else { break };
            client = address.to_canonical();
            if !self.contains(client) {
                break;
            }
        }
        client
    }

    fn contains(&self, address: IpAddr) -> bool {
        self.0.iter().any(|(network, length)| match (network, address) {
            (IpAddr::V4(network), IpAddr::V4(address)) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(*length)).unwrap_or(0);
                (network.to_bits() ^ address.to_bits()) & mask == 0
            }
            (IpAddr::V6(network), IpAddr::V6(address)) => {
                let mask = u128::MAX.checked_shl(128 - u32::from(*length)).unwrap_or(0);
                (network.to_bits() ^ address.to_bits()) & mask == 0
            }
            (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => false,
        })
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderMap;

    use super::TrustedProxies;

    #[test]
    fn only_trusted_proxies_set_the_client_address() {
        let networks = ["10.0.0.0/8", "fd00::/8", "192.0.2.9"].map(str::to_owned);
        let proxies = TrustedProxies::parse(&networks).unwrap();
        for (peer, forwarded, expected) in [
            ("198.51.100.1", "203.0.113.9", "198.51.100.1"),
            ("10.1.2.3", "203.0.113.9", "203.0.113.9"),
            ("10.1.2.3", "1.1.1.1, 203.0.113.9", "203.0.113.9"),
            ("10.1.2.3", "203.0.113.9, 10.9.9.9", "203.0.113.9"),
            ("10.1.2.3", "", "10.1.2.3"),
            ("10.1.2.3", "unknown", "10.1.2.3"),
            ("192.0.2.9", "203.0.113.9", "203.0.113.9"),
            ("192.0.2.8", "203.0.113.9", "192.0.2.8"),
            ("fd00::1", "2001:db8::1", "2001:db8::1"),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert("x-forwarded-for", forwarded.parse().unwrap());
            let client = proxies.client_ip(&headers, peer.parse().unwrap());
            assert_eq!(client.to_string(), expected, "{peer} {forwarded}");
        }
        let everyone = TrustedProxies::parse(&["0.0.0.0/0".to_owned()]).unwrap();
        assert!(everyone.contains("198.51.100.1".parse().unwrap()));
        for bad in ["10.0.0.0/33", "x", "10.0.0.0/", "fd00::/129"] {
            assert_eq!(TrustedProxies::parse(&[bad.to_owned()]), Err(bad.to_owned()));
        }
    }
}
