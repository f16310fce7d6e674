//! The operator file: tokens by which the user's own programs authenticate at a gateway on this machine.
//!
//! A gateway writes two random tokens to a file that only its user can read and that is named after its port. One token
//! authenticates a command as an operator, the other a client as an agent. The gateway removes the file when it ends.
//!
//! Both tokens are sent only to the addresses in the file, because another user's program can listen on the same
//! port of another loopback address.

use std::{
    fs, io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    path::{Path, PathBuf},
};

use muster_core::credentials::BearerToken;
use serde::{Deserialize, Serialize};

use crate::{
    private_file::{self, FilePrivacy},
    random,
    secret::Secret,
};

/// The header with the operator token.
pub const OPERATOR_HEADER: &str = "muster-operator";

/// The header with the token of the user's own clients, which are agents.
pub const LOCAL_HEADER: &str = "muster-local";

#[derive(Serialize, Deserialize)]
struct OperatorRecord {
    /// The addresses that the gateway listens on.
    addresses: Vec<SocketAddr>,
    operator: Secret,
    /// The token of the user's own clients.
    #[serde(default)]
    local: Option<Secret>,
}

impl OperatorRecord {
    /// Whether the gateway listens on this address.
    fn listens_on(&self, ip: IpAddr, port: u16) -> bool {
        let any = |of: IpAddr| self.addresses.contains(&SocketAddr::new(of, port));
        any(ip)
            || any(Ipv6Addr::UNSPECIFIED.into())
            || (ip.is_ipv4() && any(Ipv4Addr::UNSPECIFIED.into()))
    }
}

/// The operator file of a running gateway, removed when dropped.
#[derive(Debug)]
pub struct OperatorFile {
    path: PathBuf,
    operator: Secret,
    local: Secret,
}

impl OperatorFile {
    /// Writes new tokens for a gateway that listens on `addresses` to the state directory.
    pub fn publish(state: &Path, addresses: Vec<SocketAddr>) -> io::Result<Self> {
        let Some(port) = addresses.first().map(SocketAddr::port) else {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "there is no address"));
        };
        let token = || random::token().map(Secret::new).map_err(io::Error::other);
        let (operator, local) = (token()?, token()?);
        private_file::create_dir(state)?;
        private_file::create_dir(&folder(state))?;
        let path = path(state, port);
        let record =
            OperatorRecord { addresses, operator: operator.clone(), local: Some(local.clone()) };
        private_file::write(&path, &serde_json::to_string(&record)?)?;
        Ok(Self { path, operator, local })
    }

    /// The operator token, to compare with the tokens that callers present.
    pub const fn operator(&self) -> &Secret {
        &self.operator
    }

    /// The token of the user's own clients, to compare with the tokens that callers present.
    pub const fn local(&self) -> &Secret {
        &self.local
    }

    /// The path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for OperatorFile {
    fn drop(&mut self) {
        // Another gateway on this port may have replaced the file: remove it only if it is still ours.
        let is_ours = load(&self.path).is_some_and(|record| record.operator == self.operator);
        if is_ours {
            let _removed = fs::remove_file(&self.path);
        }
    }
}

/// The credentials of the operator of a gateway on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OperatorCredentials {
    /// The one address that the token may be sent to.
    pub address: SocketAddr,
    /// The token.
    pub token: BearerToken,
}

impl OperatorCredentials {
    /// Finds the credentials for the gateway at a host and port, if this user runs one there.
    pub fn find(state: &Path, host: &str, port: u16) -> Option<Self> {
        let wanted = match host.to_ascii_lowercase().as_str() {
            "localhost" => None,
            host => Some(host.parse::<IpAddr>().ok().filter(IpAddr::is_loopback)?),
        };
        let record = load(&path(state, port))?;
        let candidates: Vec<IpAddr> = match wanted {
            Some(ip) => vec![ip],
            None => vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()],
        };
        let ip = candidates.into_iter().find(|ip| record.listens_on(*ip, port))?;
        let token = BearerToken::new(record.operator.reveal().as_str());
        Some(Self { address: SocketAddr::new(ip, port), token })
    }
}

/// The token of agents at the gateway that listens on an address, if this user runs it.
pub fn local_token(state: &Path, address: SocketAddr) -> Option<BearerToken> {
    let ip = Some(address.ip().to_canonical()).filter(IpAddr::is_loopback)?;
    let record = load(&path(state, address.port()))?;
    let token = record.local.as_ref().filter(|_| record.listens_on(ip, address.port()))?;
    Some(BearerToken::new(token.reveal().as_str()))
}

fn load(path: &Path) -> Option<OperatorRecord> {
    match private_file::read(path, FilePrivacy::OwnerOnly) {
        Ok(text) => serde_json::from_str(&text?).ok(),
        Err(err) => {
            tracing::warn!("{} is ignored: {err}", path.display());
            None
        }
    }
}

fn folder(state: &Path) -> PathBuf {
    state.join("gateways")
}

fn path(state: &Path, port: u16) -> PathBuf {
    folder(state).join(format!("{port}.json"))
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt as _};

    use super::{OperatorCredentials, OperatorFile, local_token};

    #[test]
    fn the_token_is_found_for_the_addresses_of_its_gateway_only() {
        let state = tempfile::tempdir().unwrap();
        let state = &state.path().join("muster");
        let addresses = vec!["127.0.0.1:8090".parse().unwrap()];
        let file = OperatorFile::publish(state, addresses).unwrap();
        let mode = fs::metadata(file.path()).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o600);
        let find = |host: &str, port| {
            OperatorCredentials::find(state, host, port).map(|found| found.address.to_string())
        };
        assert_eq!(find("127.0.0.1", 8090).unwrap(), "127.0.0.1:8090");
        assert_eq!(find("LocalHost", 8090).unwrap(), "127.0.0.1:8090");
        for (host, port) in [
            ("127.0.0.1", 8091),
            ("127.0.0.2", 8090),
            ("::1", 8090),
            ("10.0.0.1", 8090),
            ("localhost.example", 8090),
            ("", 8090),
        ] {
            assert_eq!(find(host, port), None, "{host}:{port}");
        }
        let token = OperatorCredentials::find(state, "localhost", 8090).unwrap().token;
        assert_eq!(token.reveal(), file.operator().reveal());
        assert!(!format!("{file:?} {token:?}").contains(token.reveal()));
        let local = |address: &str| local_token(state, address.parse().unwrap());
        assert_eq!(local("127.0.0.1:8090").unwrap().reveal(), file.local().reveal());
        assert_ne!(file.local().reveal(), file.operator().reveal());
        for other in ["127.0.0.1:8091", "127.0.0.2:8090", "[::1]:8090", "10.0.0.1:8090"] {
            assert_eq!(local(other), None, "{other}");
        }

        fs::set_permissions(file.path(), fs::Permissions::from_mode(0o644)).unwrap();
        assert_eq!(find("127.0.0.1", 8090), None, "others could have read it");
        fs::set_permissions(file.path(), fs::Permissions::from_mode(0o600)).unwrap();

        let next = OperatorFile::publish(state, vec!["[::]:8090".parse().unwrap()]).unwrap();
        drop(file);
        assert!(next.path().exists(), "it belongs to the next gateway");
        assert_eq!(find("127.0.0.9", 8090).unwrap(), "127.0.0.9:8090");
        drop(next);
        assert_eq!(find("localhost", 8090), None);
    }
}
