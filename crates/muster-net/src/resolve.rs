//! Name resolution.

use std::{fmt, io, net::IpAddr};

use muster_core::backend::BoxFuture;

/// Resolves host names to IP addresses.
pub trait Resolve: fmt::Debug + Send + Sync {
    /// Returns all addresses of a name.
    fn resolve<'a>(&'a self, name: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>>;
}

/// The system's resolver.
#[derive(Debug)]
pub struct SystemResolver;

impl Resolve for SystemResolver {
    fn resolve<'a>(&'a self, name: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>> {
        Box::pin(async move {
            Ok(tokio::net::lookup_host((name, 0)).await?.map(|address| address.ip()).collect())
        })
    }
}
