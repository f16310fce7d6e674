//! Whether an address may have been made from a template (RFC 6570).

/// Whether `uri` fits `template`: its literal parts occur in order, and each expression in between
/// stands for something. What exactly, the backend decides.
pub(super) fn fits(template: &str, uri: &str) -> bool {
    let Some((literal, after)) = template.split_once('{') else { return template == uri };
    let Some(rest) = uri.strip_prefix(literal) else { return false };
    let next = after.split_once('}').map_or("", |(_, next)| next);
    let mut ends = rest.char_indices().skip(1).map(|(at, _)| at).chain([rest.len()]);
    !rest.is_empty() && ends.any(|at| rest.get(at..).is_some_and(|tail| fits(next, tail)))
}

#[cfg(test)]
mod tests {
    use super::fits;

    #[track_caller]
    fn check(template: &str, uri: &str, expect: bool) {
        assert_eq!(fits(template, uri), expect, "{template} ~ {uri}");
    }

    #[test]
    fn literal_parts_decide() {
        check("test://template/{id}/data", "test://template/123/data", true);
        check("test://template/{id}/data", "test://template//data", false);
        check("test://template/{id}/data", "test://template/123/other", false);
        check("demo://text/{id}", "demo://text/9", true);
        check("demo://text/{id}", "demo://text/", false);
        check("file:///{+path}", "file:///a/b/c", true);
        check("a://{x}/b/{y}", "a://1/b/2", true);
        check("a://{x}/b/{y}", "a://1/c/2", false);
        check("a://fixed", "a://fixed", true);
        check("a://fixed", "a://fixed/more", false);
        check("{scheme}", "anything", true);
    }
}
