//! The fields of a form or a query. Each may stand there once: two readers of a doubled one may choose
//! differently.

use super::reply::Failure;

/// Nobody needs more of them. Each is compared with those before it.
const MOST: usize = 64;

/// Fields of a request.
#[derive(Default)]
pub(super) struct Fields(Vec<(String, String)>);

impl Fields {
    /// Reads them.
    pub(super) fn parse(text: &[u8]) -> Result<Self, Failure> {
        let mut fields: Vec<(String, String)> = Vec::new();
        for (count, (name, value)) in form_urlencoded::parse(text).enumerate() {
            if count >= MOST {
                return Err(Failure::request(format!("there are more than {MOST} parameters")));
            }
            if fields.iter().any(|(known, _)| *known == name) {
                // A token may be for several resources; all of them must be ours, so one says it.
                if name == "resource" {
                    continue;
                }
                return Err(Failure::request(format!("parameter {name} is repeated")));
            }
            fields.push((name.into_owned(), value.into_owned()));
        }
        Ok(Self(fields))
    }

    /// A field, if it is there and says something.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        let found = self.0.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str()).filter(|value| !value.is_empty())
    }

    /// A field that must be there.
    pub(super) fn need(&self, name: &str) -> Result<&str, Failure> {
        self.get(name).ok_or_else(|| Failure::request(format!("{name} is required")))
    }
}
