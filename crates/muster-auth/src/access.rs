//! Admission to the gateway: who is calling, and whether they may change it.

use bytes::Bytes;
use http::{HeaderMap, Response};
use muster_config::settings::AccessMode;
use muster_core::{
    backend::BoxFuture,
    call::Role,
    credentials::{Admission, Authenticator, Peer},
};

use crate::server::AuthServer;

/// Admits the requests of a gateway.
#[derive(Debug)]
pub struct AccessControl {
    mode: AccessMode,
    logins: Option<AuthServer>,
}

impl AccessControl {
    /// Admits with `logins`, if the gateway requires them.
    pub const fn new(mode: AccessMode, logins: Option<AuthServer>) -> Self {
        Self { mode, logins }
    }

    /// The role of a caller that proves nothing beyond being let in.
    pub const fn default_role(mode: AccessMode) -> Role {
        match mode {
            AccessMode::Private => Role::Agent,
            AccessMode::Open => Role::Operator,
        }
    }

    async fn admit(&self, headers: &HeaderMap, peer: &Peer) -> Result<Admission, Response<Bytes>> {
        let admission = match &self.logins {
            Some(logins) => logins.authenticate(headers, peer).await?,
            None => Admission::default(),
        };
        let role = admission.role.max(Self::default_role(self.mode));
        Ok(Admission { role, ..admission })
    }
}

impl Authenticator for AccessControl {
    fn authenticate<'a>(
        &'a self,
        headers: &'a HeaderMap,
        peer: &'a Peer,
    ) -> BoxFuture<'a, Result<Admission, Response<Bytes>>> {
        Box::pin(self.admit(headers, peer))
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, SocketAddr};

    use http::HeaderMap;
    use muster_config::settings::AccessMode;
    use muster_core::{
        call::Role,
        credentials::{Authenticator as _, Peer},
    };

    use super::AccessControl;

    #[tokio::test]
    async fn without_logins_the_mode_decides_the_role() {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 1));
        for (mode, expected) in
            [(AccessMode::Private, Role::Agent), (AccessMode::Open, Role::Operator)]
        {
            let peer = Peer::new(address, address);
            let admitted =
                AccessControl::new(mode, None).authenticate(&HeaderMap::new(), &peer).await;
            assert_eq!(admitted.unwrap().role, expected, "{mode:?}");
        }
    }
}
