//! Authorization responses: the parameters of the callback that a browser is redirected to.

use thiserror::Error;

use crate::text::printable;

/// The parameters of an authorization response.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CallbackParams {
    /// The state that was sent.
    pub state: Option<String>,
    /// The authorization code.
    pub code: Option<String>,
    /// The issuer's error code.
    pub error: Option<String>,
    /// The issuer's error message.
    pub error_description: Option<String>,
    /// The issuer that sent the response (RFC 9207).
    pub issuer: Option<String>,
}

/// Why an authorization response yields no code.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum CallbackError {
    /// It came from another issuer: a mix-up attack.
    #[error("the response came from another issuer than the one that was asked")]
    WrongIssuer,
    /// It does not name its issuer, although this issuer always does.
    #[error("the response does not name its issuer")]
    MissingIssuer,
    /// The issuer reports an error.
    #[error("{error}")]
    Denied {
        /// Its code, safe to show.
        error: String,
        /// Its message, safe to show; empty if there is none.
        description: String,
    },
    /// It has no code.
    #[error("the response contains no code")]
    MissingCode,
}

impl CallbackParams {
    /// Parses the query of a callback; `None` if a parameter is repeated, because two parsers could choose
    /// different values.
    pub fn parse(query: &str) -> Option<Self> {
        let mut params = Self::default();
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            let field = match &*name {
                "state" => &mut params.state,
                "code" => &mut params.code,
                "error" => &mut params.error,
                "error_description" => &mut params.error_description,
                "iss" => &mut params.issuer,
                _ => continue,
            };
            if field.replace(value.into_owned()).is_some() {
                return None;
            }
        }
        Some(params)
    }

    /// Returns the authorization code, if `issuer` sent it. The issuer is checked first, because errors of another
    /// issuer must not be shown. `names_issuer` is the issuer's
    /// `authorization_response_iss_parameter_supported`.
    pub fn authorization_code(
        &self,
        issuer: &str,
        names_issuer: bool,
    ) -> Result<&str, CallbackError> {
        match self.issuer.as_deref() {
            Some(named) if named != issuer => return Err(CallbackError::WrongIssuer),
            None if names_issuer => return Err(CallbackError::MissingIssuer),
            Some(_) | None => {}
        }
        if let Some(error) = &self.error {
            let description = self.error_description.as_deref().unwrap_or_default();
            return Err(CallbackError::Denied {
                error: printable(error),
                description: printable(description),
            });
        }
        self.code.as_deref().ok_or(CallbackError::MissingCode)
    }
}

#[cfg(test)]
mod tests {
    use super::{CallbackError, CallbackParams};

    #[test]
    fn parameters_must_not_be_repeated() {
        let params = CallbackParams::parse("code=a%20b&state=s&x=1&x=2").unwrap();
        assert_eq!((params.code.as_deref(), params.state.as_deref()), (Some("a b"), Some("s")));
        assert_eq!(CallbackParams::parse("code=a&code=b&state=s"), None);
        assert_eq!(CallbackParams::parse("state=a&state=a"), None);
        assert_eq!(CallbackParams::parse(""), Some(CallbackParams::default()));
    }

    #[test]
    fn the_issuer_is_checked_before_anything_is_believed() {
        let code = |query: &str, names_issuer| {
            let params = CallbackParams::parse(query).unwrap();
            params.authorization_code("https://i", names_issuer).map(str::to_owned)
        };
        assert_eq!(code("code=c", false), Ok("c".to_owned()));
        assert_eq!(code("code=c", true), Err(CallbackError::MissingIssuer));
        assert_eq!(code("code=c&iss=https://i", true), Ok("c".to_owned()));
        assert_eq!(code("error=e&iss=https://j", false), Err(CallbackError::WrongIssuer));
        assert_eq!(code("", false), Err(CallbackError::MissingCode));
        let denied = CallbackError::Denied { error: "e".to_owned(), description: "d".to_owned() };
        assert_eq!(code("error=e&error_description=d&code=c", false), Err(denied));
    }
}
