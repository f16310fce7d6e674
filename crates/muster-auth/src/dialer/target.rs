//! An address that a request may be sent to, as far as its text shows.
//!
//! Only one spelling of a host is taken: a name of letters, digits and hyphens, four decimal numbers, or
//! IPv6 in brackets. Whatever programs read in different ways is refused, not normalised.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use http::{HeaderValue, Uri};

use super::{DialError, Reach, Zone};

/// Where a request goes.
#[derive(Debug, Clone)]
pub struct Target {
    pub(super) secure: bool,
    pub(super) host: Host,
    pub(super) port: u16,
    pub(super) authority: HeaderValue,
    pub(super) path: Uri,
    text: String,
}

/// Who is addressed.
#[derive(Debug, Clone)]
pub(super) enum Host {
    Name(String),
    Number(IpAddr),
}

impl Target {
    /// Judges an address by its text. The numbers behind a name are judged when it is connected to.
    pub fn parse(url: &str, reach: Reach) -> Result<Self, DialError> {
        let target = Self::read(url)?;
        let here = target.is_here();
        if here && reach == Reach::Public {
            return refuse("the address leads to this machine");
        }
        if !target.secure && !here {
            return refuse(
                "the address must begin with `https://`; `http://` is only for this machine",
            );
        }
        if let Host::Number(number) = &target.host {
            target.judge(*number, reach)?;
        }
        Ok(target)
    }

    /// Judges where a redirect leads. TLS is not given up on the way.
    pub(super) fn join(&self, place: &str, reach: Reach) -> Result<Self, DialError> {
        let scheme = if self.secure { "https" } else { "http" };
        let authority = self.authority.to_str().unwrap_or_default();
        let url = if place.contains("://") {
            place.to_owned()
        } else if place.starts_with("//") {
            format!("{scheme}:{place}")
        } else if place.starts_with('/') {
            format!("{scheme}://{authority}{place}")
        } else {
            return refuse("a redirect must name a whole address or path");
        };
        let there = Self::parse(&url, reach)?;
        if self.secure && !there.secure {
            return refuse("a redirect leads away from TLS");
        }
        if there.is_here() && !self.is_here() {
            return refuse("a redirect leads to this machine");
        }
        Ok(there)
    }

    /// Whether a number may be connected to on behalf of this address.
    pub(super) fn judge(&self, number: IpAddr, reach: Reach) -> Result<(), DialError> {
        let fine = match (Zone::of(number), reach) {
            (Zone::Loopback, Reach::Loopback | Reach::Private) => self.is_here(),
            (Zone::Public, _) | (Zone::Private, Reach::Private) => !self.is_here(),
            (Zone::Loopback, Reach::Public)
            | (Zone::Private, Reach::Public | Reach::Loopback)
            | (Zone::Forbidden, _) => false,
        };
        if fine {
            return Ok(());
        }
        refuse(&format!("`{}` leads to a network that requests may not go to", self.host()))
    }

    /// The host as written, without brackets.
    pub fn host(&self) -> &str {
        let text = self.authority.to_str().unwrap_or_default();
        match text.strip_prefix('[') {
            Some(rest) => rest.split(']').next().unwrap_or(rest),
            None => text.split(':').next().unwrap_or(text),
        }
    }

    /// The address as written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    fn is_here(&self) -> bool {
        match &self.host {
            Host::Name(name) => name == "localhost" || name.ends_with(".localhost"),
            Host::Number(number) => Zone::of(*number) == Zone::Loopback,
        }
    }

    fn read(url: &str) -> Result<Self, DialError> {
        if !url.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\') {
            return refuse("the address holds characters that an address cannot have");
        }
        let (scheme, rest) = url.split_once("://").unwrap_or_default();
        let secure = match scheme.to_ascii_lowercase().as_str() {
            "https" => true,
            "http" => false,
            _ => return refuse("the address must begin with `https://`"),
        };
        let rest = rest.split('#').next().unwrap_or(rest);
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at_checked(end).unwrap_or_default();
        let (host, port) = split_port(authority)?;
        let host = read_host(host)?;
        let port = port.unwrap_or(if secure { 443 } else { 80 });
        let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
        let (Ok(path), Ok(authority)) = (path.parse(), HeaderValue::from_str(authority)) else {
            return refuse("the address cannot be read");
        };
        Ok(Self { secure, host, port, authority, path, text: url.to_owned() })
    }
}

fn split_port(authority: &str) -> Result<(&str, Option<u16>), DialError> {
    let (host, port) = match authority.strip_prefix('[') {
        Some(rest) => match rest.split_once(']') {
            Some((inner, after)) => {
                let host = authority.get(..inner.len() + 2).unwrap_or_default();
                (host, after.strip_prefix(':').or((!after.is_empty()).then_some("")))
            }
            None => return refuse("the address has a host that cannot be read"),
        },
        None => match authority.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (authority, None),
        },
    };
    let Some(port) = port else { return Ok((host, None)) };
    let digits = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
    match port.parse() {
        Ok(port) if digits && port > 0 => Ok((host, Some(port))),
        _ => refuse("the address has a port that cannot be read"),
    }
}

fn read_host(host: &str) -> Result<Host, DialError> {
    if let Some(inner) = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        return match inner.parse::<Ipv6Addr>() {
            Ok(number) => Ok(Host::Number(number.into())),
            Err(_) => refuse("the address has a host that cannot be read"),
        };
    }
    if let Ok(number) = host.parse::<Ipv4Addr>() {
        return Ok(Host::Number(number.into()));
    }
    let name = host.to_ascii_lowercase();
    let label = |label: &str| {
        let inner = label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
        inner && (1..=63).contains(&label.len()) && !label.starts_with('-') && !label.ends_with('-')
    };
    // Numbers are read as addresses by some, in many bases: a name ends in a word.
    let word =
        name.rsplit('.').next().is_some_and(|last| last.starts_with(|c: char| c.is_alphabetic()));
    if name.len() <= 253 && word && name.split('.').all(label) {
        return Ok(Host::Name(name));
    }
    refuse("the address has a host that cannot be read")
}

fn refuse<T>(reason: &str) -> Result<T, DialError> {
    Err(DialError::Refused(reason.to_owned()))
}
