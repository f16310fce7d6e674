//! Whether an address may have been made from a template (RFC 6570).

/// Whether `uri` fits `template`: its literal parts occur in order, and each expression in between
/// stands for something. What exactly, the backend decides.
pub(super) fn fits(template: &str, uri: &str) -> bool {
    let mut literals = Literals { rest: template };
    let Some((first, mut open)) = literals.next() else { return uri.is_empty() };
    let Some(mut rest) = uri.strip_prefix(first) else { return false };
    while open {
        let Some((literal, more)) = literals.next() else { return true };
        open = more;
        if literal.is_empty() && !open {
            return !rest.is_empty();
        }
        // The last literal has to end the address; one in between is found at its first place.
        let found =
            if open { rest.find(literal) } else { rest.strip_suffix(literal).map(str::len) };
        let Some(at) = found.filter(|at| *at > 0 || literal.is_empty()) else { return false };
        rest = rest.get(at + literal.len()..).unwrap_or_default();
    }
    rest.is_empty()
}

/// The literal parts of a template, each with whether an expression follows it.
struct Literals<'a> {
    rest: &'a str,
}

impl<'a> Iterator for Literals<'a> {
    type Item = (&'a str, bool);

    fn next(&mut self) -> Option<Self::Item> {
        let (literal, after) = self.rest.split_once('{').unwrap_or((self.rest, ""));
        let open = literal.len() < self.rest.len();
        if literal.is_empty() && !open {
            return None;
        }
        let next = after.split_once('}').map_or("", |(_, next)| next);
        self.rest = next;
        if open && next.is_empty() {
            // An expression at the very end: what follows it is nothing.
            return Some((literal, true));
        }
        Some((literal, open))
    }
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
