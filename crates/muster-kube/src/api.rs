//! Requests to the API server.

use std::{io, time::Duration};

use http::{Method, StatusCode};
use muster_net::{AddressPolicy, HttpError, HttpRequest, HttpStream};
use serde_json::{Value as Json, json};
use thiserror::Error;
use tokio::time::timeout;

use crate::access::ClusterAccess;

/// The timeout of a request. Watches have their own.
const TIMEOUT: Duration = Duration::from_secs(15);
/// The maximum size of a response: a page of a list.
const MAX_BODY: usize = 64 * 1024 * 1024;
/// The maximum size of an object: the API server stores none that is larger.
const MAX_OBJECT: usize = 3 * 512 * 1024;
/// The maximum number of bytes that are read of the reason why a watch is refused.
const MAX_REFUSAL: usize = 64 * 1024;
/// The number of objects on a page of a list: as many of the largest ones as fit into a response.
const PAGE: usize = 40;
const _: () = assert!(PAGE * MAX_OBJECT <= MAX_BODY, "a page fits into a response");
/// The maximum number of objects in a list.
pub(crate) const MAX_OBJECTS: usize = 10_000;

/// Why a request failed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(crate) enum ApiError {
    /// There is no such object, or no such kind.
    #[error("not found")]
    NotFound,
    /// There is such an object already.
    #[error("it exists already")]
    Exists,
    /// The object has changed since it was read.
    #[error("it was changed at the same time")]
    Conflict,
    /// The version that a watch begins with is too old.
    #[error("the resource version is too old")]
    Expired,
    /// The gateway has no right to do this.
    #[error("{0}")]
    Forbidden(String),
    /// The API server refuses the request.
    #[error("{0}")]
    Refused(String),
    /// The API server is unavailable.
    #[error("{0}")]
    Unavailable(String),
}

impl From<HttpError> for ApiError {
    fn from(error: HttpError) -> Self {
        Self::Unavailable(error.to_string())
    }
}

impl From<io::Error> for ApiError {
    fn from(error: io::Error) -> Self {
        Self::Unavailable(format!("the token cannot be read: {error}"))
    }
}

/// Whether the API server stores a definition or only validates it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WriteMode {
    /// It is stored.
    Store,
    /// It is only validated.
    DryRun,
}

/// The objects of a list, and the resource version that a watch starts from.
#[derive(Debug)]
pub(crate) struct ObjectList {
    pub(crate) items: Vec<Json>,
    pub(crate) version: String,
}

/// A client of the API server.
#[derive(Debug)]
pub(crate) struct ApiClient {
    access: ClusterAccess,
}

impl ApiClient {
    pub(crate) const fn new(access: ClusterAccess) -> Self {
        Self { access }
    }

    /// Reads an object.
    pub(crate) async fn get(&self, path: &str) -> Result<Json, ApiError> {
        self.send(path, None).await
    }

    /// Creates an object in a collection.
    pub(crate) async fn create(&self, path: &str, object: &Json) -> Result<Json, ApiError> {
        self.send(path, Some((Method::POST, JSON, object))).await
    }

    /// Replaces an object, unless it has changed since the version in `object`.
    pub(crate) async fn replace(&self, path: &str, object: &Json) -> Result<Json, ApiError> {
        self.send(path, Some((Method::PUT, JSON, object))).await
    }

    /// Creates a definition in a collection.
    ///
    /// Refuses fields that the CustomResourceDefinition does not have. By default the API server would drop them: with
    /// an older CustomResourceDefinition, `approval: pending` would be lost, and a server would be connected without
    /// approval.
    pub(crate) async fn create_definition(
        &self,
        path: &str,
        object: &Json,
        mode: WriteMode,
    ) -> Result<Json, ApiError> {
        self.create(&mode.target(path), object).await.map_err(with_hint)
    }

    /// Replaces a definition, unless it has changed since the version in `object`. Refuses unknown fields, like
    /// [`create_definition`](Self::create_definition).
    pub(crate) async fn replace_definition(
        &self,
        path: &str,
        object: &Json,
        mode: WriteMode,
    ) -> Result<Json, ApiError> {
        self.replace(&mode.target(path), object).await.map_err(with_hint)
    }

    /// Merges a patch into an object.
    pub(crate) async fn patch(&self, path: &str, patch: &Json) -> Result<Json, ApiError> {
        self.send(path, Some((Method::PATCH, MERGE_PATCH, patch))).await
    }

    /// Deletes the object with this uid. Fails if another object has its name now.
    pub(crate) async fn delete(&self, path: &str, uid: &str) -> Result<Json, ApiError> {
        let options = json!({
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": {"uid": uid},
        });
        self.send(path, Some((Method::DELETE, JSON, &options))).await
    }

    /// Lists a collection.
    pub(crate) async fn list(&self, path: &str) -> Result<ObjectList, ApiError> {
        let mut items = Vec::new();
        let version = self.list_pages(path, MAX_OBJECTS, |page| items.extend(page)).await?;
        Ok(ObjectList { items, version })
    }

    /// Lists a collection of at most `max` objects, page by page, and returns the resource version that a watch starts
    /// from.
    pub(crate) async fn list_pages(
        &self,
        path: &str,
        max: usize,
        mut take: impl FnMut(Vec<Json>) + Send,
    ) -> Result<String, ApiError> {
        let limit = PAGE.to_string();
        let (mut count, mut next) = (0, String::new());
        loop {
            let mut query = vec![("limit", limit.as_str())];
            if !next.is_empty() {
                query.push(("continue", next.as_str()));
            }
            let mut page = self.send(&with_query(path, &query), None).await?;
            let text = |page: &Json, key: &str| {
                let text = page.pointer(&format!("/metadata/{key}")).and_then(Json::as_str);
                text.unwrap_or_default().to_owned()
            };
            let (version, more) = (text(&page, "resourceVersion"), text(&page, "continue"));
            match page.get_mut("items").map(Json::take) {
                Some(Json::Array(found)) => {
                    count += found.len();
                    take(found);
                }
                _ => return Err(ApiError::Unavailable("the API server sent no list".to_owned())),
            }
            if count > max {
                let message = format!("there are more than {max} objects");
                return Err(ApiError::Refused(message));
            }
            if more.is_empty() {
                return Ok(version);
            }
            next = more;
        }
    }

    /// Watches a collection for at most `seconds`. `selection` has the query parameters that select objects and the
    /// version to start from.
    pub(crate) async fn watch(
        &self,
        path: &str,
        selection: &[(&str, &str)],
        seconds: u64,
    ) -> Result<HttpStream, ApiError> {
        let seconds = seconds.to_string();
        let mut query = vec![("watch", "true"), ("timeoutSeconds", seconds.as_str())];
        query.extend(selection);
        let request = self.request(&with_query(path, &query))?;
        let mut stream = self.access.http.open(request).await?;
        if stream.status() == StatusCode::OK {
            return Ok(stream);
        }
        let status = stream.status();
        let mut body = Vec::new();
        let reading = async {
            while let Ok(Some(part)) = stream.next().await
                && body.len() <= MAX_REFUSAL
            {
                body.extend_from_slice(&part);
            }
        };
        // Best effort: without the body, the status has to do.
        drop(timeout(TIMEOUT, reading).await);
        Err(refusal(status, &body))
    }

    fn request(&self, path: &str) -> Result<HttpRequest, ApiError> {
        let url = format!("{}{path}", self.access.server.as_str());
        let request =
            HttpRequest::get(url, AddressPolicy::Unrestricted).timeout(TIMEOUT).max_body(MAX_BODY);
        Ok(match self.access.credentials.token()? {
            Some(token) => request.bearer(token.reveal()),
            None => request,
        })
    }

    async fn send(
        &self,
        path: &str,
        body: Option<(Method, &'static str, &Json)>,
    ) -> Result<Json, ApiError> {
        let mut request = self.request(path)?;
        if let Some((method, kind, body)) = body {
            request = request.with_body(method, kind, body.to_string());
        }
        let response = self.access.http.send(request).await?;
        if !response.status.is_success() {
            return Err(refusal(response.status, &response.body));
        }
        serde_json::from_slice(&response.body).map_err(|error| {
            ApiError::Unavailable(format!(
                "the response of the API server is not valid JSON: {error}"
            ))
        })
    }
}

const JSON: &str = "application/json";
const MERGE_PATCH: &str = "application/merge-patch+json";

impl WriteMode {
    /// The path of a write, with its query parameters.
    fn target(self, path: &str) -> String {
        let strict = ("fieldValidation", "Strict");
        match self {
            Self::Store => with_query(path, &[strict]),
            Self::DryRun => with_query(path, &[strict, ("dryRun", "All")]),
        }
    }
}

/// Adds a hint to an error that an outdated CustomResourceDefinition causes.
fn with_hint(error: ApiError) -> ApiError {
    match error {
        ApiError::Refused(reason) if reason.contains("strict decoding error") => {
            ApiError::Refused(format!(
                "{reason}; apply the CustomResourceDefinitions of this version (`muster schema --crd`)"
            ))
        }
        error => error,
    }
}

fn with_query(path: &str, query: &[(&str, &str)]) -> String {
    let query = form_urlencoded::Serializer::new(String::new()).extend_pairs(query).finish();
    format!("{path}?{query}")
}

/// Converts an error response.
pub(crate) fn refusal(status: StatusCode, body: &[u8]) -> ApiError {
    let parsed: Json = serde_json::from_slice(body).unwrap_or_default();
    let field = |key: &str| parsed.get(key).and_then(Json::as_str).unwrap_or_default();
    let message = match field("message") {
        "" => format!("the API server answered {status}"),
        message => message.to_owned(),
    };
    match status {
        StatusCode::NOT_FOUND => ApiError::NotFound,
        StatusCode::CONFLICT if field("reason") == "AlreadyExists" => ApiError::Exists,
        StatusCode::CONFLICT => ApiError::Conflict,
        StatusCode::GONE => ApiError::Expired,
        StatusCode::FORBIDDEN | StatusCode::UNAUTHORIZED => ApiError::Forbidden(message),
        StatusCode::TOO_MANY_REQUESTS => ApiError::Unavailable(message),
        status if status.is_server_error() => ApiError::Unavailable(message),
        _ => ApiError::Refused(message),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use muster_core::lock::Lock;
    use serde_json::json;

    use super::{ApiError, WriteMode};
    use crate::testing::{Answer, api_that};

    #[tokio::test(start_paused = true)]
    async fn a_watch_that_is_refused_without_a_reason_ends_all_the_same() {
        let (api, _server) = api_that(|_, _, _| Answer::HeadOnly(410)).await;
        let refused = api.watch("/api/v1/namespaces/ns/secrets", &[], 290).await;
        assert_eq!(refused.unwrap_err(), ApiError::Expired);
    }

    #[tokio::test]
    async fn a_definition_is_not_stored_without_the_fields_that_its_schema_lacks() {
        let asked = Arc::new(Lock::new(Vec::new()));
        let seen = Arc::clone(&asked);
        let (api, _server) = api_that(move |method, path, _| {
            seen.lock().push(format!("{method} {path}"));
            let message = "strict decoding error: unknown field \"spec.approval\"";
            Answer::Reply(400, json!({"reason": "BadRequest", "message": message}))
        })
        .await;
        let created = api.create_definition("/c", &json!({}), WriteMode::Store).await;
        let message = created.unwrap_err().to_string();
        assert!(message.contains("unknown field \"spec.approval\""), "{message}");
        assert!(message.contains("apply the CustomResourceDefinitions"), "{message}");
        let replaced = api.replace_definition("/c/a", &json!({}), WriteMode::Store).await;
        assert!(matches!(replaced, Err(ApiError::Refused(_))), "{replaced:?}");
        let checked = api.create_definition("/c", &json!({}), WriteMode::DryRun).await;
        assert!(matches!(checked, Err(ApiError::Refused(_))), "{checked:?}");
        assert_eq!(
            *asked.lock(),
            [
                "POST /c?fieldValidation=Strict",
                "PUT /c/a?fieldValidation=Strict",
                "POST /c?fieldValidation=Strict&dryRun=All",
            ]
        );
    }
}
