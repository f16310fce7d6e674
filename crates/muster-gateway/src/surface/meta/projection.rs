//! A projection of a result: the part of it that a caller requests, in place of all of it.

use muster_core::json::{Raw, RawObject};

use super::arguments::MetaArguments;
use crate::outputs::excerpt::{ExcerptRequest, NextPage};

/// The arguments of a projection.
pub(in crate::surface) const ARGUMENTS: [&str; 3] = ["select", "grep", "head"];

/// The part of a result that a caller requests.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in crate::surface) struct Projection {
    /// A JSON path: only the values that it selects.
    select: Option<String>,
    /// A regular expression: only the lines that match.
    grep: Option<String>,
    /// The number of lines, or of items of a list.
    head: Option<usize>,
}

impl Projection {
    /// Reads those arguments of a call that are ours rather than the tool's, as `is_ours` says; `None` if none is
    /// given. A malformed argument is an error before the tool runs.
    pub(in crate::surface) fn read(
        given: &MetaArguments<'_>,
        is_ours: impl Fn(&str) -> bool,
    ) -> Result<Option<Self>, String> {
        let text = |key| if is_ours(key) { given.text_only(key) } else { Ok(None) };
        let head = if is_ours("head") { given.count("head", 1)? } else { None };
        let projection = Self { select: text("select")?, grep: text("grep")?, head };
        if projection == Self::default() {
            return Ok(None);
        }
        let said = |problem: String| match problem.strip_prefix("path ") {
            Some(rest) => format!("select {rest}"),
            None => problem,
        };
        projection.request().validate().map_err(said)?;
        Ok(Some(projection))
    }

    /// The arguments of `get_output` for the page after an excerpt.
    pub(super) fn next_page(&self, handle: &str, next: &NextPage) -> Raw {
        let mut arguments = RawObject::new();
        arguments.set_value("handle", handle);
        for (key, value) in [("path", &self.select), ("grep", &self.grep)] {
            if let Some(value) = value {
                arguments.set_value(key, value);
            }
        }
        match next {
            NextPage::Offset(offset) => arguments.set_value("offset", offset),
            NextPage::Line(line) => arguments.set_value("line", line),
        }
        arguments.to_raw()
    }

    /// The excerpt of a stored result.
    pub(super) fn request(&self) -> ExcerptRequest {
        let Self { select, grep, head } = self.clone();
        ExcerptRequest { path: select, grep, limit: head, ..ExcerptRequest::default() }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::value::RawValue;

    use super::{MetaArguments, Projection};

    /// The values of `select`, `grep` and `head`.
    type Given<'a> = (&'a str, &'a str, usize);

    #[track_caller]
    fn check(given: &str, expect: Result<Option<Given<'_>>, &str>) {
        let raw: &RawValue = serde_json::from_str(given).unwrap();
        let read = Projection::read(&MetaArguments::read(raw), |_| true);
        let text = |text: &str| Some(text).filter(|text| !text.is_empty()).map(ToOwned::to_owned);
        let expect = expect.map(|fields| {
            fields.map(|(select, grep, head)| Projection {
                select: text(select),
                grep: text(grep),
                head: Some(head).filter(|head| *head > 0),
            })
        });
        match (read, expect) {
            (Err(read), Err(expect)) => assert!(read.starts_with(expect), "{given}: {read}"),
            (read, expect) => assert_eq!(read, expect.map_err(ToOwned::to_owned), "{given}"),
        }
    }

    #[test]
    fn a_projection_is_checked_before_the_call() {
        check("{}", Ok(None));
        check(r#"{"select":"","grep":null}"#, Ok(None));
        check(r#"{"select":"$.a[*].b","head":3}"#, Ok(Some(("$.a[*].b", "", 3))));
        check(r#"{"grep":"^a","head":"2"}"#, Ok(Some(("", "^a", 2))));
        check(r#"{"select":"a..."}"#, Err("select must be a JSON path such as $.items[0].name"));
        check(r#"{"select":["$.a"]}"#, Err("select must be text"));
        check(r#"{"grep":"("}"#, Err("grep must be a regular expression"));
        check(r#"{"head":0}"#, Err("head must be at least 1"));
    }
}
