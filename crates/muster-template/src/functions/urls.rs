//! `urlParse` and `urlJoin`, by the rules of Go's `net/url`.

use std::collections::BTreeMap;

use super::{Args, Function, ParamType, plain};
use crate::{
    state::{EvalError, EvalResult, RenderState},
    text::{Text, lossy},
    value::{Map, Value},
};

pub(super) const FUNCTIONS: &[Function] = &[
    plain("urlParse", &[ParamType::Text], |state, args| {
        let url = Url::parse(args.bytes(0)).map_err(|problem| {
            let url = crate::quote::quote(args.bytes(0), false);
            EvalError::new(format!("unable to parse url: parse {url}: {problem}"))
        })?;
        let host = url.hostname();
        let parts: [(&str, &[u8]); 8] = [
            ("scheme", &url.scheme),
            ("host", &url.host),
            ("hostname", host),
            ("path", &url.path),
            ("query", &url.query),
            ("opaque", &url.opaque),
            ("fragment", &url.fragment),
            ("userinfo", url.user.as_deref().unwrap_or_default()),
        ];
        let mut entries = BTreeMap::new();
        for (name, value) in parts {
            entries.insert(name.into(), state.text(value)?);
        }
        state.map(entries)
    }),
    plain("urlJoin", &[ParamType::Map], join),
];

#[derive(Default)]
struct Url {
    scheme: Vec<u8>,
    opaque: Vec<u8>,
    /// The escaped user information before the `@`.
    user: Option<Vec<u8>>,
    host: Vec<u8>,
    path: Vec<u8>,
    query: Vec<u8>,
    fragment: Vec<u8>,
}

type Parsed<T> = Result<T, String>;

impl Url {
    fn parse(text: &[u8]) -> Parsed<Self> {
        let (rest, fragment) = cut(text, b'#');
        if rest.iter().any(u8::is_ascii_control) {
            return Err("net/url: invalid control character in URL".to_owned());
        }
        let mut url = Self { fragment: unescape(fragment, UrlPart::Fragment)?, ..Self::default() };
        if rest == b"*" {
            url.path = b"*".to_vec();
            return Ok(url);
        }
        let (scheme, rest) = scheme(rest)?;
        url.scheme = scheme.to_ascii_lowercase();
        let (rest, query) = cut(rest, b'?');
        url.query = query.to_vec();
        if !rest.starts_with(b"/") {
            if !scheme.is_empty() {
                url.opaque = rest.to_vec();
                return Ok(url);
            }
            if cut(rest, b'/').0.contains(&b':') {
                return Err("first path segment in URL cannot contain colon".to_owned());
            }
        }
        let mut path = rest;
        let local = scheme.is_empty() && rest.starts_with(b"///");
        if let Some(authority) = rest.strip_prefix(b"//").filter(|_| !local) {
            let end = authority.iter().position(|byte| *byte == b'/').unwrap_or(authority.len());
            let (authority, after) = authority.split_at_checked(end).unwrap_or((authority, b""));
            path = after;
            url.authority(authority)?;
        }
        url.path = unescape(path, UrlPart::Path)?;
        Ok(url)
    }

    fn authority(&mut self, authority: &[u8]) -> Parsed<()> {
        let Some(at) = authority.iter().rposition(|byte| *byte == b'@') else {
            self.host = host(authority)?;
            return Ok(());
        };
        let (user, rest) = authority.split_at_checked(at).unwrap_or((authority, b""));
        self.host = host(rest.get(1..).unwrap_or_default())?;
        let allowed =
            |byte: &u8| byte.is_ascii_alphanumeric() || b"-._:~!$&'()*+,;=%@".contains(byte);
        if !user.iter().all(allowed) {
            return Err("net/url: invalid userinfo".to_owned());
        }
        let (name, password) = cut(user, b':');
        let mut userinfo = escape(&unescape(name, UrlPart::User)?, UrlPart::User);
        if user.contains(&b':') {
            userinfo.push(b':');
            userinfo.extend(escape(&unescape(password, UrlPart::User)?, UrlPart::User));
        }
        self.user = Some(userinfo);
        Ok(())
    }

    fn hostname(&self) -> &[u8] {
        let colon = self.host.iter().rposition(|byte| *byte == b':');
        let port = colon.filter(|at| self.host.get(*at..).is_some_and(is_port));
        let host = port.and_then(|at| self.host.get(..at)).unwrap_or(&self.host);
        host.strip_prefix(b"[").and_then(|host| host.strip_suffix(b"]")).unwrap_or(host)
    }

    fn shown(&self) -> Vec<u8> {
        let mut out = Vec::new();
        if !self.scheme.is_empty() {
            out.extend_from_slice(&self.scheme);
            out.push(b':');
        }
        if self.opaque.is_empty() {
            let located = !self.host.is_empty() || self.user.is_some();
            if located || !self.scheme.is_empty() && !self.path.is_empty() {
                out.extend_from_slice(b"//");
            }
            if let Some(user) = &self.user {
                out.extend_from_slice(user);
                out.push(b'@');
            }
            out.extend(escape(&self.host, UrlPart::Host));
            let path =
                if self.path == b"*" { b"*".to_vec() } else { escape(&self.path, UrlPart::Path) };
            if !path.is_empty() && !path.starts_with(b"/") && !self.host.is_empty() {
                out.push(b'/');
            }
            if out.is_empty() && cut(&path, b'/').0.contains(&b':') {
                out.extend_from_slice(b"./");
            }
            out.extend(path);
        } else {
            out.extend_from_slice(&self.opaque);
        }
        if !self.query.is_empty() {
            out.push(b'?');
            out.extend_from_slice(&self.query);
        }
        if !self.fragment.is_empty() {
            out.push(b'#');
            out.extend(escape(&self.fragment, UrlPart::Fragment));
        }
        out
    }
}

fn join(state: &RenderState<'_>, args: Args<'_>) -> EvalResult {
    let Some(map) = args.map(0) else { return state.text("") };
    let user = part(map, "userinfo")?;
    let user = if user.is_empty() {
        None
    } else {
        let text = [b"proto://", &*user, b"@host"].concat();
        let problem =
            |problem| EvalError::new(format!("unable to parse userinfo in dict: {problem}"));
        Url::parse(&text).map_err(problem)?.user
    };
    let url = Url {
        scheme: part(map, "scheme")?,
        opaque: part(map, "opaque")?,
        user,
        host: part(map, "host")?,
        path: part(map, "path")?,
        query: part(map, "query")?,
        fragment: part(map, "fragment")?,
    };
    state.text(url.shown())
}

fn part(map: &Map, key: &str) -> EvalResult<Vec<u8>> {
    match map.entries.borrow().get(&Text::from(key)) {
        None => Ok(Vec::new()),
        Some(Value::Text(text)) => Ok(text.to_vec()),
        Some(other) => {
            let kind = other.kind_name();
            Err(EvalError::new(format!(
                "unable to parse {key} key, must be of type string, but {kind} found"
            )))
        }
    }
}

/// The parts before and after the first `at`.
fn cut(text: &[u8], at: u8) -> (&[u8], &[u8]) {
    match text.iter().position(|byte| *byte == at) {
        Some(i) => (text.get(..i).unwrap_or(text), text.get(i + 1..).unwrap_or_default()),
        None => (text, b""),
    }
}

fn scheme(text: &[u8]) -> Parsed<(&[u8], &[u8])> {
    for (i, byte) in text.iter().enumerate() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' => {}
            b'0'..=b'9' | b'+' | b'-' | b'.' if i > 0 => {}
            b':' if i == 0 => return Err("missing protocol scheme".to_owned()),
            b':' => return Ok(cut(text, b':')),
            _ => break,
        }
    }
    Ok((b"", text))
}

fn is_port(text: &[u8]) -> bool {
    match text.split_first() {
        None => true,
        Some((b':', digits)) => digits.iter().all(u8::is_ascii_digit),
        Some(_) => false,
    }
}

fn host(text: &[u8]) -> Parsed<Vec<u8>> {
    let port = if text.starts_with(b"[") {
        let end = text.iter().rposition(|byte| *byte == b']');
        let end = end.ok_or_else(|| "missing ']' in host".to_owned())?;
        text.get(end + 1..).unwrap_or_default()
    } else {
        let colon = text.iter().rposition(|byte| *byte == b':');
        colon.and_then(|at| text.get(at..)).unwrap_or_default()
    };
    if !is_port(port) {
        let port = crate::quote::quote(port, false);
        return Err(format!("invalid port {port} after host"));
    }
    unescape(text, UrlPart::Host)
}

/// The part of a URL, which decides what is escaped.
#[derive(Clone, Copy, PartialEq, Eq)]
enum UrlPart {
    Path,
    User,
    Host,
    Query,
    Fragment,
}

fn must_be_escaped(byte: u8, place: UrlPart) -> bool {
    if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
        return false;
    }
    if place == UrlPart::Host && b"!$&'()*+,;=:[]<>\"".contains(&byte) {
        return false;
    }
    match byte {
        b'$' | b'&' | b'+' | b',' | b'/' | b':' | b';' | b'=' | b'?' | b'@' => match place {
            UrlPart::Path => byte == b'?',
            UrlPart::User => matches!(byte, b'@' | b'/' | b'?' | b':'),
            UrlPart::Query => true,
            UrlPart::Fragment => false,
            UrlPart::Host => true,
        },
        b'!' | b'(' | b')' | b'*' => place != UrlPart::Fragment,
        _ => true,
    }
}

fn escape(text: &[u8], place: UrlPart) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    for byte in text {
        if *byte == b' ' && place == UrlPart::Query {
            out.push(b'+');
        } else if must_be_escaped(*byte, place) {
            out.extend_from_slice(format!("%{byte:02X}").as_bytes());
        } else {
            out.push(*byte);
        }
    }
    out
}

/// `url.QueryEscape`.
pub(super) fn query_escape(text: &[u8]) -> Vec<u8> {
    escape(text, UrlPart::Query)
}

fn unescape(text: &[u8], place: UrlPart) -> Parsed<Vec<u8>> {
    let (mut out, mut rest) = (Vec::with_capacity(text.len()), text);
    while let Some((byte, after)) = rest.split_first() {
        if *byte != b'%' {
            if place == UrlPart::Host && byte.is_ascii() && must_be_escaped(*byte, place) {
                let byte = char::from(*byte);
                return Err(format!("invalid character {byte:?} in host name"));
            }
            out.push(*byte);
            rest = after;
            continue;
        }
        let code = after.get(..2).unwrap_or(after);
        let hex = code.iter().all(u8::is_ascii_hexdigit).then(|| lossy(code));
        let code =
            hex.filter(|_| code.len() == 2).and_then(|hex| u8::from_str_radix(&hex, 16).ok());
        match code {
            Some(code) if place != UrlPart::Host || !code.is_ascii() || code == b'%' => {
                out.push(code);
            }
            _ => {
                let bad = rest.get(..3).unwrap_or(rest);
                let bad = crate::quote::quote(bad, false);
                return Err(format!("invalid URL escape {bad}"));
            }
        }
        rest = after.get(2..).unwrap_or_default();
    }
    Ok(out)
}
