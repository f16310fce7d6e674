//! Markup that is safe by construction: text becomes markup only by being escaped.
//!
//! **Invariant:** only literals of this crate are markup. Text from servers, tools and callers is always the content of
//! an element or the value of an attribute: it is escaped, and characters that control a terminal or reorder the text
//! around them are replaced.

use std::borrow::Cow;

use muster_core::{markup::push_escaped, text::for_terminal};

/// A piece of markup.
#[derive(Debug, Clone, Default)]
pub(crate) struct Html(String);

impl Html {
    /// Appends content.
    pub(crate) fn put(mut self, content: impl Content) -> Self {
        content.write(&mut self.0);
        self
    }

    /// Whether it has no content.
    pub(crate) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the markup.
    pub(crate) fn into_string(self) -> String {
        self.0
    }
}

/// Content of an element.
pub(crate) trait Content {
    /// Appends its markup.
    fn write(self, out: &mut String);
}

impl Content for &str {
    fn write(self, out: &mut String) {
        for_terminal(self).chars().for_each(|c| push_escaped(out, c));
    }
}

impl Content for String {
    fn write(self, out: &mut String) {
        self.as_str().write(out);
    }
}

impl Content for &String {
    fn write(self, out: &mut String) {
        self.as_str().write(out);
    }
}

impl Content for Cow<'_, str> {
    fn write(self, out: &mut String) {
        (*self).write(out);
    }
}

impl Content for Html {
    fn write(self, out: &mut String) {
        out.push_str(&self.0);
    }
}

impl<T: Content> Content for Option<T> {
    fn write(self, out: &mut String) {
        if let Some(content) = self {
            content.write(out);
        }
    }
}

impl<T: Content> Content for Vec<T> {
    fn write(self, out: &mut String) {
        self.into_iter().for_each(|content| content.write(out));
    }
}

impl<A: Content, B: Content> Content for (A, B) {
    fn write(self, out: &mut String) {
        self.0.write(out);
        self.1.write(out);
    }
}

impl<A: Content, B: Content, C: Content> Content for (A, B, C) {
    fn write(self, out: &mut String) {
        self.0.write(out);
        self.1.write(out);
        self.2.write(out);
    }
}

/// A builder of an element.
#[derive(Debug)]
pub(crate) struct Element {
    name: &'static str,
    attributes: String,
    body: String,
}

/// Elements without an end tag.
const VOID: [&str; 6] = ["input", "link", "meta", "br", "img", "hr"];

/// Starts an element.
pub(crate) fn el(name: &'static str) -> Element {
    Element { name, attributes: String::new(), body: String::new() }
}

impl Element {
    /// Adds an attribute.
    pub(crate) fn attr(mut self, name: &'static str, value: impl AsRef<str>) -> Self {
        self.attributes.push(' ');
        self.attributes.push_str(name);
        self.attributes.push_str("=\"");
        value.as_ref().write(&mut self.attributes);
        self.attributes.push('"');
        self
    }

    /// Adds an attribute without a value, if it applies.
    pub(crate) fn flag(mut self, name: &'static str, applies: bool) -> Self {
        if applies {
            self.attributes.push(' ');
            self.attributes.push_str(name);
        }
        self
    }

    /// Sets the classes.
    pub(crate) fn class(self, classes: &str) -> Self {
        self.attr("class", classes)
    }

    /// Appends content.
    pub(crate) fn put(mut self, content: impl Content) -> Self {
        content.write(&mut self.body);
        self
    }
}

impl Content for Element {
    fn write(self, out: &mut String) {
        let Self { name, attributes, body } = self;
        out.push('<');
        out.push_str(name);
        out.push_str(&attributes);
        out.push('>');
        if !VOID.contains(&name) {
            out.push_str(&body);
            out.push_str("</");
            out.push_str(name);
            out.push('>');
        }
    }
}

impl From<Element> for Html {
    fn from(element: Element) -> Self {
        Self::default().put(element)
    }
}

#[cfg(test)]
mod tests {
    use super::{Html, el};

    #[test]
    fn text_of_others_is_never_markup() {
        let hostile = "</p><script>alert('1')</script>\u{202e}\u{1b}[31m\0";
        let element = el("p").attr("title", "\" onload=\"x").put(hostile).put(el("br"));
        assert_eq!(
            Html::from(element).into_string(),
            "<p title=\"&quot; onload=&quot;x\">&lt;/p&gt;&lt;script&gt;alert(&#39;1&#39;)&lt;/script&gt;\u{fffd}␛[31m␀<br></p>"
        );
    }
}
