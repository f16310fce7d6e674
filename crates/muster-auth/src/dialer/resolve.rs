//! From names to numbers.

use std::{fmt, io, net::IpAddr};

use muster_core::backend::BoxFuture;

use super::{DialError, Dialer, Reach, Target, target::Host};

/// Finds the numbers behind a name.
pub trait Resolve: fmt::Debug + Send + Sync {
    /// All of them.
    fn resolve<'a>(&'a self, name: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>>;
}

/// Asks the system.
#[derive(Debug)]
pub struct SystemResolver;

impl Resolve for SystemResolver {
    fn resolve<'a>(&'a self, name: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>> {
        Box::pin(async move {
            Ok(tokio::net::lookup_host((name, 0)).await?.map(|address| address.ip()).collect())
        })
    }
}

impl Dialer {
    /// The numbers to connect to. A name is asked for once, and one bad number among them spoils all:
    /// whoever gives such answers is not to be trusted with the next.
    pub(super) async fn addresses(
        &self,
        target: &Target,
        reach: Reach,
    ) -> Result<Vec<IpAddr>, DialError> {
        let name = match &target.host {
            Host::Number(number) => return Ok(vec![*number]),
            Host::Name(name) => name,
        };
        let host = || target.host().to_owned();
        let found = self
            .resolver
            .resolve(name)
            .await
            .map_err(|err| DialError::Unreachable { host: host(), reason: err.to_string() })?;
        if found.is_empty() {
            let reason = "the name has no address".to_owned();
            return Err(DialError::Unreachable { host: host(), reason });
        }
        for number in &found {
            target.judge(*number, reach)?;
        }
        Ok(found)
    }
}
