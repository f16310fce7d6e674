//! Admission by token, operator file and peer.

use std::net::SocketAddr;

use http::{HeaderMap, HeaderValue, StatusCode, header};
use muster_config::settings::AccessMode;
use muster_core::{
    call::Role,
    caller_directory::TokenDraft,
    credentials::{Admission, Authenticator as _, Peer},
};
use rustix::process::geteuid;

use super::{
    AccessControl, AccessOptions, RemoteCallers,
    operator_file::{LOCAL_HEADER, OPERATOR_HEADER, OperatorFile},
    recent_logins::RecentLogins,
    tokens::{StaticTokens, TokenFile},
};
use crate::{clock::Clock, principal_list::SharedPrincipalList};

struct Rig {
    folder: tempfile::TempDir,
    operator: OperatorFile,
    mode: AccessMode,
    remote: RemoteCallers,
}

impl Rig {
    fn new(mode: AccessMode, remote: RemoteCallers) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let addresses = vec!["127.0.0.1:8090".parse().unwrap()];
        let operator = OperatorFile::publish(&folder.path().join("state"), addresses).unwrap();
        Self { folder, operator, mode, remote }
    }

    fn file(&self) -> TokenFile {
        TokenFile::of(self.folder.path(), Clock::system())
    }

    async fn admit(
        &self,
        peer: Peer,
        sent: &[(&'static str, &str)],
    ) -> Result<Admission, StatusCode> {
        let options = AccessOptions {
            mode: self.mode,
            logins: None,
            operators: SharedPrincipalList::default(),
            remote: self.remote,
            tokens: StaticTokens::new(self.file()),
            recent: RecentLogins::default(),
        };
        let access = AccessControl::new(options, Some(&self.operator));
        let headers: HeaderMap = sent
            .iter()
            .map(|(name, value)| {
                (header::HeaderName::from_static(name), HeaderValue::from_str(value).unwrap())
            })
            .collect();
        access.authenticate(&headers, &peer).await.map_err(|refusal| refusal.status())
    }
}

/// A peer whose user is known to be `user`.
fn peer(remote: &str, user: Option<u32>) -> Peer {
    let local: SocketAddr = "127.0.0.1:8090".parse().unwrap();
    let peer = Peer::new(remote.parse().unwrap(), local);
    assert_eq!(peer.user(|_, _| user), user);
    peer
}

#[tokio::test]
async fn processes_of_the_same_user_are_agents() {
    let own = geteuid().as_raw();
    let rig = Rig::new(AccessMode::Private, RemoteCallers::NeedToken);
    for (user, expected) in [
        (Some(own), Ok(Role::Agent)),
        (Some(0), Ok(Role::Agent)),
        (Some(own + 1), Err(StatusCode::FORBIDDEN)),
        (None, Err(StatusCode::FORBIDDEN)),
    ] {
        let admitted = rig.admit(peer("127.0.0.1:5", user), &[]).await;
        assert_eq!(admitted.map(|admission| admission.role), expected, "{user:?}");
    }
    let open = Rig::new(AccessMode::Open, RemoteCallers::Anonymous);
    let admitted = open.admit(peer("127.0.0.1:5", Some(own + 1)), &[]).await.unwrap();
    assert_eq!(admitted.role, Role::Operator);
    let admitted = open.admit(peer("192.0.2.1:5", None), &[]).await.unwrap();
    assert_eq!(admitted.role, Role::Agent, "open is about this machine");
}

#[tokio::test]
async fn the_users_own_clients_need_no_word_of_the_system() {
    let own = geteuid().as_raw();
    for (mode, user, without) in [
        (AccessMode::Private, None, Err(StatusCode::FORBIDDEN)),
        (AccessMode::Token, None, Err(StatusCode::UNAUTHORIZED)),
        (AccessMode::Token, Some(own), Err(StatusCode::UNAUTHORIZED)),
    ] {
        let rig = Rig::new(mode, RemoteCallers::NeedToken);
        let (local, operator) = (rig.operator.local().reveal(), rig.operator.operator().reveal());
        for (sent, expected) in [
            (&[][..], without),
            (&[(LOCAL_HEADER, "x")], without),
            (&[(LOCAL_HEADER, operator.as_str())], without),
            (&[(OPERATOR_HEADER, local.as_str())], without),
            (&[(LOCAL_HEADER, local.as_str())], Ok(Role::Agent)),
            (&[(OPERATOR_HEADER, operator.as_str())], Ok(Role::Operator)),
        ] {
            let admitted = rig.admit(peer("127.0.0.1:5", user), sent).await;
            assert_eq!(admitted.map(|admission| admission.role), expected, "{mode:?} {sent:?}");
        }
        let elsewhere = rig.admit(peer("192.0.2.1:5", None), &[(LOCAL_HEADER, local)]).await;
        assert_eq!(elsewhere.map(drop), Err(StatusCode::UNAUTHORIZED));
    }
}

#[tokio::test]
async fn callers_from_other_machines_need_a_token_unless_the_operator_insists() {
    let rig = Rig::new(AccessMode::Private, RemoteCallers::NeedToken);
    let refused = rig.admit(peer("192.0.2.1:5", None), &[]).await;
    assert_eq!(refused.map(drop), Err(StatusCode::UNAUTHORIZED));
    let insisted = Rig::new(AccessMode::Private, RemoteCallers::Anonymous);
    let admitted = insisted.admit(peer("192.0.2.1:5", None), &[]).await.unwrap();
    assert_eq!(admitted.role, Role::Agent);
}

#[tokio::test]
async fn the_operator_token_makes_an_operator_of_anybody() {
    let rig = Rig::new(AccessMode::Private, RemoteCallers::NeedToken);
    let token = rig.operator.operator().reveal().clone();
    for peer in [peer("127.0.0.1:5", Some(0)), peer("192.0.2.1:5", None)] {
        let admitted = rig.admit(peer, &[(OPERATOR_HEADER, &token)]).await.unwrap();
        assert_eq!(admitted.role, Role::Operator);
    }
    let wrong = rig.admit(peer("127.0.0.1:5", Some(0)), &[(OPERATOR_HEADER, "x")]).await.unwrap();
    assert_eq!(wrong.role, Role::Agent);
    let wrong = rig.admit(peer("192.0.2.1:5", None), &[(OPERATOR_HEADER, "x")]).await;
    assert_eq!(wrong.map(drop), Err(StatusCode::UNAUTHORIZED));
}

#[tokio::test]
async fn a_static_token_is_a_principal_with_its_toolset() {
    let rig = Rig::new(AccessMode::Private, RemoteCallers::NeedToken);
    let draft = TokenDraft {
        name: "ci".to_owned(),
        toolset: Some("build".to_owned()),
        ..TokenDraft::default()
    };
    let token = rig.file().create(&draft).unwrap();
    let admin = TokenDraft { name: "admin".to_owned(), operator: true, ..TokenDraft::default() };
    let admin = rig.file().create(&admin).unwrap();
    let bearer = |token: &str| format!("Bearer {token}");
    let sent = bearer(token.reveal());
    let admitted = rig.admit(peer("192.0.2.1:5", None), &[("authorization", &sent)]).await.unwrap();
    let principal = admitted.principal.unwrap();
    assert_eq!(&*principal.id, "muster:token|ci");
    assert_eq!(admitted.token.as_deref(), Some("ci"));
    assert_eq!(admitted.toolset.as_deref(), Some("build"));
    assert_eq!(admitted.role, Role::Agent);
    let sent = bearer(admin.reveal());
    let admitted = rig.admit(peer("192.0.2.1:5", None), &[("authorization", &sent)]).await.unwrap();
    assert_eq!(admitted.role, Role::Operator);
    // An invalid token is refused even if the caller would be admitted without one.
    for wrong in ["Bearer mst_x", "bearer  mst_"] {
        let refused = rig.admit(peer("127.0.0.1:5", Some(0)), &[("authorization", wrong)]).await;
        assert_eq!(refused.map(drop), Err(StatusCode::UNAUTHORIZED), "{wrong}");
    }
}
