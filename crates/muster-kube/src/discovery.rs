//! Discovery of the kinds that the API server has.
//!
//! A 404 for a list may come from a proxy, or from an API server that is starting. Cached definitions, and with them
//! policies, are dropped only if the API server's own discovery says that it has no such kind.

use muster_config::kinds::{API_GROUP, API_VERSION};
use serde_json::Value as Json;

use crate::api::{ApiClient, ApiError};

/// Whether the API server's discovery lists a kind, named by its plural.
pub(crate) async fn is_served(api: &ApiClient, plural: &str) -> Result<bool, ApiError> {
    match api.get(&format!("/apis/{API_GROUP}/{API_VERSION}")).await {
        Ok(found) => {
            let resources = entries(&found, "APIResourceList", "resources")?;
            Ok(resources.iter().any(|known| is(known, "name", plural)))
        }
        // Perhaps the whole group is not installed.
        Err(ApiError::NotFound) => {
            let found = api.get("/apis").await.map_err(|error| match error {
                ApiError::NotFound => not_an_api_server(),
                error => error,
            })?;
            let groups = entries(&found, "APIGroupList", "groups")?;
            let group = groups.iter().find(|known| is(known, "name", API_GROUP));
            let versions = group.and_then(|group| group.get("versions")).and_then(Json::as_array);
            Ok(versions.into_iter().flatten().any(|known| is(known, "version", API_VERSION)))
        }
        Err(error) => Err(error),
    }
}

/// The entries of a discovery list.
fn entries<'a>(found: &'a Json, kind: &str, key: &str) -> Result<&'a [Json], ApiError> {
    let entries = found.get(key).and_then(Json::as_array).filter(|_| is(found, "kind", kind));
    entries.map(Vec::as_slice).ok_or_else(not_an_api_server)
}

fn is(value: &Json, key: &str, expected: &str) -> bool {
    value.get(key).and_then(Json::as_str) == Some(expected)
}

fn not_an_api_server() -> ApiError {
    ApiError::Unavailable("the answer is not that of an API server".to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value as Json, json};

    use super::is_served;
    use crate::testing::{Answer, api_that};

    /// The result of discovery with these responses for the resources of the version and for the list of groups.
    async fn found(version: (u16, Json), groups: (u16, Json)) -> Option<bool> {
        let (api, _server) = api_that(move |method, path, _| {
            assert_eq!(method, "GET");
            let (status, body) = match path {
                "/apis/muster.giantswarm.io/v1alpha1" => version.clone(),
                "/apis" => groups.clone(),
                path => panic!("{path} was asked for"),
            };
            Answer::Reply(status, body)
        })
        .await;
        is_served(&api, "toolpolicies").await.ok()
    }

    #[tokio::test]
    async fn only_the_api_server_can_say_that_there_is_no_such_kind() {
        let resources = |names: &[&str]| {
            let names: Vec<Json> = names.iter().map(|name| json!({"name": name})).collect();
            (200, json!({"kind": "APIResourceList", "resources": names}))
        };
        let groups = |name: &str| {
            let versions = [json!({"groupVersion": "g/v1alpha1", "version": "v1alpha1"})];
            let group = json!({"name": name, "versions": versions});
            (200, json!({"kind": "APIGroupList", "groups": [group]}))
        };
        let lost = || (404, json!({"message": "page not found"}));
        let (other, own) = (groups("apps"), groups("muster.giantswarm.io"));
        for (version, groups, expected) in [
            (resources(&["mcpservers", "toolpolicies"]), lost(), Some(true)),
            (resources(&["mcpservers", "toolpolicies/status"]), lost(), Some(false)),
            (lost(), other.clone(), Some(false)),
            (lost(), own, Some(true)),
            // A proxy that knows no path, or responds to every path with its own page.
            (lost(), lost(), None),
            ((200, json!({"hello": []})), other.clone(), None),
            (lost(), (200, json!({"kind": "Status"})), None),
            ((503, json!({})), other, None),
        ] {
            let said = format!("{version:?} {groups:?}");
            assert_eq!(found(version, groups).await, expected, "{said}");
        }
    }
}
