//! Encodes responses and errors as the era of the client expects them.

use std::borrow::Cow;

use muster_core::{
    client::InputRequired,
    json::{Raw, RawObject, raw},
    request::{CacheControl, RequestError, Response, ServerInfo},
};
use serde::Serialize;
use serde_json::value::RawValue;

use super::{Method, handshake::server_info, invalid};
use crate::{
    headers::Mismatch,
    version::{Era, EraFault, MODERN, SERVER_INFO_KEY},
    wire::{RpcError, code},
};

/// The members that only modern results have.
const MODERN_KEYS: [&str; 3] = ["resultType", "ttlMs", "cacheScope"];

/// The default for cacheable results.
const NOT_CACHEABLE: CacheControl = CacheControl { ttl_ms: 0, shared: false };

/// An empty result.
pub(crate) fn empty() -> Raw {
    RawObject::new().to_raw()
}

/// Encodes the response to `method`.
pub(crate) fn result(
    era: Era,
    method: Method,
    info: &ServerInfo,
    response: Response,
) -> Result<Raw, RpcError> {
    match (era, response) {
        (Era::Legacy, Response::Done { result, .. }) => Ok(legacy(result)),
        (Era::Modern, Response::Done { result, cache }) => {
            let cache = cache.or_else(|| method.is_cacheable().then_some(NOT_CACHEABLE));
            Ok(modern(info, &result, cache))
        }
        (Era::Modern, Response::InputRequired(needs)) => {
            Ok(modern(info, &input_required(&needs), None))
        }
        (Era::Legacy, Response::InputRequired(_)) => Err(RpcError::new(
            code::INTERNAL_ERROR,
            "Internal error: this client cannot be asked by an answer",
        )),
    }
}

/// Removes the members that a modern upstream added. Those of a legacy upstream stay, even under the same
/// names.
fn legacy(result: Raw) -> Raw {
    if !result.get().contains("\"resultType\"") {
        return result;
    }
    let Some(mut object) = RawObject::parse(&result) else { return result };
    if object.get("resultType").is_none() {
        return result;
    }
    for key in MODERN_KEYS {
        object.remove(key);
    }
    let meta = object.get("_meta").map(ToOwned::to_owned);
    if let Some(mut members) = meta.as_deref().and_then(RawObject::parse)
        && members.get(SERVER_INFO_KEY).is_some()
    {
        members.remove(SERVER_INFO_KEY);
        if members.is_empty() {
            object.remove("_meta");
        } else {
            object.set("_meta", Cow::Owned(members.to_raw()));
        }
    }
    object.to_raw()
}

/// Adds the members that a modern result must have; those that the upstream set stay.
fn modern(info: &ServerInfo, result: &RawValue, cache: Option<CacheControl>) -> Raw {
    let Some(mut object) = RawObject::parse(result) else { return result.to_owned() };
    if object.get("resultType").is_none() {
        object.set_value("resultType", "complete");
    }
    if let Some(CacheControl { ttl_ms, shared }) = cache
        && object.get_text("resultType").as_deref() == Some("complete")
    {
        // The two belong together: replace both unless the upstream set both.
        if object.get("ttlMs").is_none() || object.get("cacheScope").is_none() {
            object.set_value("ttlMs", &ttl_ms);
            object.set_value("cacheScope", if shared { "public" } else { "private" });
        }
    }
    let meta = object.get("_meta").map(ToOwned::to_owned);
    let mut meta = meta.as_deref().and_then(RawObject::parse).unwrap_or_default();
    if meta.get(SERVER_INFO_KEY).is_none() {
        meta.set_value(SERVER_INFO_KEY, &server_info(info));
        object.set("_meta", Cow::Owned(meta.to_raw()));
    }
    object.to_raw()
}

/// Encodes input requests as a result. Other members that the upstream set stay.
fn input_required(needs: &InputRequired) -> Raw {
    let mut object = needs.result.as_deref().and_then(RawObject::parse).unwrap_or_default();
    let earlier = object.get("inputRequests").map(ToOwned::to_owned);
    let earlier = earlier.as_deref().and_then(RawObject::parse).unwrap_or_default();
    let mut requests = RawObject::new();
    for (key, question) in &needs.requests {
        let mut request = earlier.get(key).and_then(RawObject::parse).unwrap_or_default();
        request.set_value("method", &question.method);
        request.set("params", Cow::Borrowed(&*question.params));
        requests.set(key.as_str(), Cow::Owned(request.to_raw()));
    }
    object.set_value("resultType", "input_required");
    object.set("inputRequests", Cow::Owned(requests.to_raw()));
    match &needs.state {
        Some(state) => object.set("requestState", Cow::Borrowed(&**state)),
        None => object.remove("requestState"),
    }
    object.to_raw()
}

/// Encodes an error.
pub(crate) fn rpc_error(era: Era, error: RequestError) -> RpcError {
    #[derive(Serialize)]
    struct Uri<'a> {
        uri: &'a str,
    }
    let message = error.to_string();
    match error {
        RequestError::Upstream { code, message, data } => RpcError { code, message, data },
        RequestError::InvalidParams(_) => RpcError::new(code::INVALID_PARAMS, message),
        RequestError::Internal(_) => RpcError::new(code::INTERNAL_ERROR, message),
        RequestError::Unsupported(_) => RpcError::new(code::METHOD_NOT_FOUND, message),
        RequestError::ResourceNotFound { uri } => {
            let code = match era {
                Era::Legacy => code::NO_RESOURCE,
                Era::Modern => code::INVALID_PARAMS,
            };
            RpcError { code, message, data: Some(raw(&Uri { uri: &uri })) }
        }
        RequestError::MissingCapability { capability } => {
            RpcError { code: code::MISSING_CAPABILITY, message, data: Some(required(&capability)) }
        }
    }
}

/// `requiredCapabilities`: the capability `a` or `a.b`, as a client would declare it.
fn required(capability: &str) -> Raw {
    let capabilities = match capability.split_once('.') {
        None => within(capability, empty()),
        Some((outer, inner)) => within(outer, within(inner, empty())),
    };
    within("requiredCapabilities", capabilities)
}

fn within(key: &str, value: Raw) -> Raw {
    let mut object = RawObject::new();
    object.set(key, Cow::Owned(value));
    object.to_raw()
}

impl From<EraFault> for RpcError {
    fn from(fault: EraFault) -> Self {
        #[derive(Serialize)]
        struct Versions {
            supported: [&'static str; 1],
            requested: String,
        }
        match fault {
            EraFault::Incomplete { missing } => invalid(&format!("`_meta` lacks `{missing}`")),
            EraFault::Header(mismatch) => mismatch.into(),
            EraFault::Unsupported { requested } => Self {
                code: code::UNSUPPORTED_VERSION,
                message: "Unsupported protocol version".to_owned(),
                data: Some(raw(&Versions { supported: MODERN, requested })),
            },
        }
    }
}

impl From<Mismatch> for RpcError {
    fn from(mismatch: Mismatch) -> Self {
        Self::new(code::HEADER_MISMATCH, mismatch.to_string())
    }
}

#[cfg(test)]
mod tests {
    use muster_core::{
        client::{InputRequest, InputRequired},
        json::Raw,
        request::{CacheControl, RequestError, Response, ServerInfo},
    };

    use super::{result, rpc_error};
    use crate::{model::Method, version::Era};

    fn raw(text: &str) -> Raw {
        serde_json::from_str(text).unwrap()
    }

    fn encoded(era: Era, method: Method, response: Response) -> String {
        let info = ServerInfo { name: "n".to_owned(), version: "v".to_owned(), instructions: None };
        match result(era, method, &info, response) {
            Ok(raw) => raw.get().to_owned(),
            Err(error) => format!("{} {}", error.code, error.message),
        }
    }

    fn done(text: &str, cache: Option<CacheControl>) -> Response {
        Response::Done { result: raw(text), cache }
    }

    const INFO: &str = r#""io.modelcontextprotocol/serverInfo":{"name":"n","version":"v"}"#;

    #[test]
    fn a_legacy_result_has_no_modern_members() {
        let check = |from: &str, to: &str| {
            assert_eq!(encoded(Era::Legacy, Method::CallTool, done(from, None)), to);
        };
        check(r#"{ "content" : [], "ttlMs": 5 }"#, r#"{ "content" : [], "ttlMs": 5 }"#);
        check(
            r#"{"content":["\"resultType\""],"ttlMs":5}"#,
            r#"{"content":["\"resultType\""],"ttlMs":5}"#,
        );
        check(
            r#"{"resultType":"complete","content":[ 1.0 ],"ttlMs":5,"cacheScope":"public","x":null}"#,
            r#"{"content":[ 1.0 ],"x":null}"#,
        );
        check(
            r#"{"resultType":"complete","_meta":{"io.modelcontextprotocol/serverInfo":{},"a":1}}"#,
            r#"{"_meta":{"a":1}}"#,
        );
        check(
            r#"{"resultType":"complete","_meta":{"io.modelcontextprotocol/serverInfo":{}}}"#,
            "{}",
        );
    }

    #[test]
    fn a_modern_result_is_completed() {
        let check = |method, from: &str, cache, to: &str| {
            assert_eq!(encoded(Era::Modern, method, done(from, cache)), to);
        };
        let cache = Some(CacheControl { ttl_ms: 9, shared: true });
        check(
            Method::CallTool,
            r#"{"content":[]}"#,
            None,
            &format!(r#"{{"content":[],"resultType":"complete","_meta":{{{INFO}}}}}"#),
        );
        check(
            Method::CallTool,
            r#"{"resultType":"task","ttlMs":1,"_meta":{"a":1}}"#,
            None,
            &format!(r#"{{"resultType":"task","ttlMs":1,"_meta":{{"a":1,{INFO}}}}}"#),
        );
        check(
            Method::ListTools,
            r#"{"tools":[]}"#,
            cache,
            &format!(
                r#"{{"tools":[],"resultType":"complete","ttlMs":9,"cacheScope":"public","_meta":{{{INFO}}}}}"#
            ),
        );
        check(
            Method::Read,
            r#"{"contents":[]}"#,
            None,
            &format!(
                r#"{{"contents":[],"resultType":"complete","ttlMs":0,"cacheScope":"private","_meta":{{{INFO}}}}}"#
            ),
        );
        check(
            Method::Read,
            r#"{"contents":[],"ttlMs":7,"cacheScope":"public"}"#,
            cache,
            &format!(
                r#"{{"contents":[],"ttlMs":7,"cacheScope":"public","resultType":"complete","_meta":{{{INFO}}}}}"#
            ),
        );
    }

    #[test]
    fn input_requests_are_a_result_for_modern_clients_only() {
        let needs = |result: Option<&str>, state: Option<&str>| {
            let question = InputRequest {
                method: "elicitation/create".to_owned(),
                params: raw(r#"{ "m":1 }"#),
            };
            Response::InputRequired(InputRequired {
                requests: vec![("k".to_owned(), question)],
                state: state.map(raw),
                result: result.map(raw),
            })
        };
        assert_eq!(
            encoded(Era::Modern, Method::CallTool, needs(None, Some(r#""s\u0041""#))),
            format!(
                r#"{{"resultType":"input_required","inputRequests":{{"k":{{"method":"elicitation/create","params":{{ "m":1 }}}}}},"requestState":"s\u0041","_meta":{{{INFO}}}}}"#
            )
        );
        let result = r#"{"resultType":"input_required","inputRequests":{"k":{"method":"x","v":1}},"vendor":[1.0]}"#;
        assert_eq!(
            encoded(Era::Modern, Method::Read, needs(Some(result), None)),
            format!(
                r#"{{"resultType":"input_required","inputRequests":{{"k":{{"method":"elicitation/create","v":1,"params":{{ "m":1 }}}}}},"vendor":[1.0],"_meta":{{{INFO}}}}}"#
            )
        );
        assert!(encoded(Era::Legacy, Method::CallTool, needs(None, None)).starts_with("-32603"));
    }

    #[test]
    fn error_codes_depend_on_the_era() {
        let check = |era, given: RequestError, expected: &str| {
            let error = rpc_error(era, given);
            let data = error.data.map_or_else(String::new, |raw| format!(" {raw}"));
            assert_eq!(format!("{}{data}", error.code), expected);
        };
        let gone = || RequestError::ResourceNotFound { uri: "a:b".to_owned() };
        check(Era::Legacy, gone(), r#"-32002 {"uri":"a:b"}"#);
        check(Era::Modern, gone(), r#"-32602 {"uri":"a:b"}"#);
        let missing = RequestError::MissingCapability { capability: "elicitation".to_owned() };
        check(Era::Modern, missing, r#"-32021 {"requiredCapabilities":{"elicitation":{}}}"#);
        let missing = RequestError::MissingCapability { capability: "elicitation.url".to_owned() };
        check(
            Era::Modern,
            missing,
            r#"-32021 {"requiredCapabilities":{"elicitation":{"url":{}}}}"#,
        );
        check(Era::Legacy, RequestError::Unsupported(String::new()), "-32601");
        check(Era::Legacy, RequestError::Internal(String::new()), "-32603");
        check(Era::Legacy, RequestError::InvalidParams(String::new()), "-32602");
        let passed =
            RequestError::Upstream { code: -1, message: String::new(), data: Some(raw("[ 1.0 ]")) };
        check(Era::Modern, passed, "-1 [ 1.0 ]");
    }
}
