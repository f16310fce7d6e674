//! Matching of URIs against URI templates (RFC 6570).

/// Whether `uri` may be an expansion of `template`: its literals occur in order, with at least one
/// character for each expression. The backend decides what an expression may expand to.
pub(super) fn matches(template: &str, uri: &str) -> bool {
    let mut literals = template.split('{').enumerate().map(|(number, part)| match number {
        0 => part,
        _ => part.split_once('}').map_or("", |(_, literal)| literal),
    });
    let first = literals.next().unwrap_or_default();
    let Some(mut rest) = uri.strip_prefix(first) else { return false };
    let mut literals = literals.peekable();
    if literals.peek().is_none() {
        return rest.is_empty();
    }
    while let Some(literal) = literals.next() {
        // The last literal must end the URI. Earlier ones are taken at their first occurrence,
        // which keeps the match linear.
        let Some(after) = rest.chars().next().map(char::len_utf8).and_then(|at| rest.get(at..))
        else {
            return false;
        };
        if literals.peek().is_none() {
            return after.ends_with(literal);
        }
        let Some((_, next)) = after.split_once(literal).filter(|_| !literal.is_empty()) else {
            if literal.is_empty() {
                rest = after;
                continue;
            }
            return false;
        };
        rest = next;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[track_caller]
    fn check(template: &str, uri: &str, expect: bool) {
        assert_eq!(matches(template, uri), expect, "{template} ~ {uri}");
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
        check("{a}{b}", "xy", true);
        check("{a}{b}", "x", false);
        check("é{a}é", "ééé", true);
    }
}
