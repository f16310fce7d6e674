//! Parameters of a form or a query. None may be repeated, because two parsers could choose different values.

use super::responses::OAuthError;

/// The maximum number of parameters. Each is compared with all before it, which is quadratic.
const MAX_PARAMS: usize = 64;

/// The parameters of a request.
#[derive(Default)]
pub(super) struct Params(Vec<(String, String)>);

impl Params {
    /// Parses form-encoded text.
    pub(super) fn parse(text: &[u8]) -> Result<Self, OAuthError> {
        let mut params: Vec<(String, String)> = Vec::new();
        for (count, (name, value)) in form_urlencoded::parse(text).enumerate() {
            if count >= MAX_PARAMS {
                return Err(OAuthError::request(format!(
                    "there are more than {MAX_PARAMS} parameters"
                )));
            }
            if params.iter().any(|(known, _)| *known == name) {
                // `resource` may be repeated (RFC 8707). Every resource would have to be ours, so the first is enough.
                if name == "resource" {
                    continue;
                }
                return Err(OAuthError::request(format!("parameter {name} is repeated")));
            }
            params.push((name.into_owned(), value.into_owned()));
        }
        Ok(Self(params))
    }

    /// Returns a parameter, unless it is missing or empty.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        let found = self.0.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str()).filter(|value| !value.is_empty())
    }

    /// Returns a required parameter.
    pub(super) fn require(&self, name: &str) -> Result<&str, OAuthError> {
        self.get(name).ok_or_else(|| OAuthError::request(format!("{name} is required")))
    }
}
