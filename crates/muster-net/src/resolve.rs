//! Name resolution.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

use muster_core::backend::BoxFuture;

/// Resolves host names to IP addresses.
pub trait Resolve: Send + Sync {
    /// Returns all addresses of a name.
    fn resolve<'a>(&'a self, name: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>>;
}

muster_core::opaque_debug!(Resolve);

/// The addresses of `localhost` where the system does not know the name, as in a container without `/etc/hosts`; `None`
/// for other names.
pub fn loopback_addresses(name: &str) -> Option<[IpAddr; 2]> {
    name.eq_ignore_ascii_case("localhost")
        .then_some([IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)])
}

/// The system's resolver.
#[derive(Debug)]
pub struct SystemResolver;

impl Resolve for SystemResolver {
    fn resolve<'a>(&'a self, name: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>> {
        Box::pin(async move {
            match (tokio::net::lookup_host((name, 0)).await, loopback_addresses(name)) {
                (Ok(found), _) => Ok(found.map(|address| address.ip()).collect()),
                (Err(_), Some(loopback)) => Ok(loopback.to_vec()),
                (Err(error), None) => Err(error),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::loopback_addresses;

    #[test]
    fn only_localhost_is_known_without_a_resolver() {
        let shown = |name| loopback_addresses(name).map(|all| all.map(|one| one.to_string()));
        assert_eq!(shown("LocalHost"), Some(["127.0.0.1".to_owned(), "::1".to_owned()]));
        assert_eq!(shown("localhost.example"), None);
    }
}
