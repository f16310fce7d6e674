//! Whether an address may have been made from a template (RFC 6570).

/// Whether `uri` fits `template`: its literal parts occur in order, and each expression in between
/// stands for something. What exactly, the backend decides.
pub(super) fn fits(template: &str, uri: &str) -> bool {
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
        // An expression stands for one character at least. The last literal ends the address; one
        // before it is taken where it first occurs, so that no template makes this slow.
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
        check("{a}{b}", "xy", true);
        check("{a}{b}", "x", false);
        check("é{a}é", "ééé", true);
    }
}
