//! The parser, with the grammar and the error messages of Go's `text/template/parse`.

use super::{
    ErrorStage, TemplateError,
    ast::{Branch, Node, Pos, Tree},
    lex::{Keyword, Lexed, Token, TokenKind, lex},
    quote::{quote, unquote},
    state::DEPTH,
    text::lossy,
};

mod pipeline;

/// Parses `text` into trees; the first one is the main template.
pub(crate) fn parse(text: &str) -> Result<Vec<Tree>, TemplateError> {
    let lexed = lex(text);
    let mut parser = Parser::new(&lexed, text);
    let nodes = parser.top()?;
    parser.add("template".to_owned(), nodes)?;
    // The main template is defined last, unless a `define` took its name.
    let own = parser.trees.iter().position(|tree| tree.name == "template").unwrap_or_default();
    parser.trees.swap(0, own);
    Ok(parser.trees)
}

/// How a list of nodes ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ending {
    End,
    Else,
}

impl Ending {
    const fn shown(self) -> &'static str {
        match self {
            Self::End => "{{end}}",
            Self::Else => "{{else}}",
        }
    }
}

enum Item {
    Node(Node),
    Ending(Ending),
}

struct Parser<'a> {
    lexed: &'a Lexed<'a>,
    text: &'a str,
    next: usize,
    /// One past the last token seen; errors report its line.
    seen: usize,
    variables: Vec<&'a str>,
    ranges: u32,
    depth: u32,
    /// The start of the current action.
    action: Option<Pos>,
    trees: Vec<Tree>,
}

type Parsed<T> = Result<T, TemplateError>;

impl<'a> Parser<'a> {
    fn new(lexed: &'a Lexed<'a>, text: &'a str) -> Self {
        let variables = vec!["$"];
        let (action, trees) = (None, Vec::new());
        Self { lexed, text, next: 0, seen: 0, variables, ranges: 0, depth: 0, action, trees }
    }

    fn token(&self, at: usize) -> Token<'a> {
        // Past the end, repeat the last token, which is `End` or `Error`.
        let token = self.lexed.tokens.get(at).or(self.lexed.tokens.last());
        token.copied().unwrap_or(Token { kind: TokenKind::End, at: 0, text: "" })
    }

    fn peek(&mut self) -> Token<'a> {
        self.seen = self.seen.max(self.next + 1);
        self.token(self.next)
    }

    fn next(&mut self) -> Token<'a> {
        let token = self.peek();
        self.next += 1;
        token
    }

    fn next_word(&mut self) -> Token<'a> {
        self.peek_word();
        self.next()
    }

    fn peek_word(&mut self) -> Token<'a> {
        while self.peek().kind == TokenKind::Space {
            self.next += 1;
        }
        self.peek()
    }

    fn line(&self, at: Pos) -> usize {
        1 + self.text.bytes().take(at).filter(|byte| *byte == b'\n').count()
    }

    fn error<T>(&self, message: &str) -> Parsed<T> {
        let at = self.token(self.seen.saturating_sub(1)).at;
        let line = self.line(at);
        let text = format!("template: template:{line}: {message}");
        Err(TemplateError::new(ErrorStage::Parse, self.text, at, text))
    }

    fn unexpected<T>(&self, token: Token<'_>, context: &str) -> Parsed<T> {
        if token.kind != TokenKind::Error {
            return self.error(&format!("unexpected {} in {context}", shown(token)));
        }
        let error = &self.lexed.error;
        let begun = self.action.map(|at| self.line(at)).filter(|line| *line != self.line(token.at));
        let extra = match begun {
            Some(line) if error.ends_with(" action") => format!(" started at template:{line}"),
            Some(line) => format!(" in action started at template:{line}"),
            None => String::new(),
        };
        self.error(&format!("{error}{extra}"))
    }

    fn expect(&mut self, kind: TokenKind, context: &str) -> Parsed<Token<'a>> {
        let token = self.next_word();
        if token.kind == kind { Ok(token) } else { self.unexpected(token, context) }
    }

    fn add(&mut self, name: String, nodes: Vec<Node>) -> Parsed<()> {
        let tree = Tree { name, nodes };
        match self.trees.iter_mut().find(|known| known.name == tree.name) {
            Some(known) if known.is_empty() => *known = tree,
            Some(_) if tree.is_empty() => {}
            Some(_) => {
                let name = quote(tree.name.as_bytes(), false);
                return self.error(&format!("template: multiple definition of template {name}"));
            }
            None => self.trees.push(tree),
        }
        Ok(())
    }

    fn top(&mut self) -> Parsed<Vec<Node>> {
        let mut nodes = Vec::new();
        while self.peek().kind != TokenKind::End {
            if self.peek().kind == TokenKind::LeftDelim {
                let start = self.next;
                self.next();
                if self.next_word().kind == TokenKind::Keyword(Keyword::Define) {
                    self.definition()?;
                    continue;
                }
                self.next = start;
            }
            match self.item()? {
                Item::Node(node) => nodes.push(node),
                Item::Ending(ending) => {
                    return self.error(&format!("unexpected {}", ending.shown()));
                }
            }
        }
        Ok(nodes)
    }

    fn definition(&mut self) -> Parsed<()> {
        let token = self.next_word();
        let name = self.template_name(token, "define clause")?;
        self.expect(TokenKind::RightDelim, "define clause")?;
        let nodes = self.apart("define clause")?;
        self.add(name, nodes)
    }

    /// Parses the body of another template; outer variables and loops are not in scope.
    fn apart(&mut self, context: &str) -> Parsed<Vec<Node>> {
        let variables = std::mem::replace(&mut self.variables, vec!["$"]);
        let ranges = std::mem::take(&mut self.ranges);
        let (nodes, ending) = self.list()?;
        if ending != Ending::End {
            return self.error(&format!("unexpected {} in {context}", ending.shown()));
        }
        self.variables = variables;
        self.ranges = ranges;
        Ok(nodes)
    }

    fn list(&mut self) -> Parsed<(Vec<Node>, Ending)> {
        self.deeper()?;
        let mut nodes = Vec::new();
        while self.peek_word().kind != TokenKind::End {
            match self.item()? {
                Item::Node(node) => nodes.push(node),
                Item::Ending(ending) => {
                    self.depth -= 1;
                    return Ok((nodes, ending));
                }
            }
        }
        self.error("unexpected EOF")
    }

    fn deeper(&mut self) -> Parsed<()> {
        if self.depth >= DEPTH {
            return self.error("it nests too deeply");
        }
        self.depth += 1;
        Ok(())
    }

    fn item(&mut self) -> Parsed<Item> {
        let token = self.next_word();
        match token.kind {
            TokenKind::Text => Ok(Item::Node(Node::Text(token.text.to_owned()))),
            TokenKind::LeftDelim => {
                self.action = Some(token.at);
                let item = self.action();
                self.action = None;
                item
            }
            _ => self.unexpected(token, "input"),
        }
    }

    fn action(&mut self) -> Parsed<Item> {
        let token = self.peek_word();
        let TokenKind::Keyword(keyword) = token.kind else {
            return Ok(Item::Node(Node::Action(self.pipeline("command", TokenKind::RightDelim)?)));
        };
        self.next();
        Ok(Item::Node(match keyword {
            Keyword::Block => self.block()?,
            Keyword::Break => self.jump("{{break}}", Node::Break)?,
            Keyword::Continue => self.jump("{{continue}}", Node::Continue)?,
            Keyword::If => Node::If(self.branch("if")?),
            Keyword::Range => Node::Range(self.branch("range")?),
            Keyword::With => Node::With(self.branch("with")?),
            Keyword::Template => self.template()?,
            Keyword::Else => {
                let inner = self.peek_word().kind;
                if !matches!(inner, TokenKind::Keyword(Keyword::If | Keyword::With)) {
                    self.expect(TokenKind::RightDelim, "else")?;
                }
                return Ok(Item::Ending(Ending::Else));
            }
            Keyword::End => {
                self.expect(TokenKind::RightDelim, "end")?;
                return Ok(Item::Ending(Ending::End));
            }
            Keyword::Define => return self.unexpected(token, "command"),
        }))
    }

    fn jump(&mut self, shown: &str, node: Node) -> Parsed<Node> {
        let token = self.next_word();
        if token.kind != TokenKind::RightDelim {
            return self.unexpected(token, shown);
        }
        if self.ranges == 0 {
            return self.error(&format!("{shown} outside {{{{range}}}}"));
        }
        Ok(node)
    }

    fn branch(&mut self, context: &str) -> Parsed<Branch> {
        let variables = self.variables.len();
        let pipe = self.pipeline(context, TokenKind::RightDelim)?;
        let ranges = u32::from(context == "range");
        self.ranges += ranges;
        let (then, ending) = self.list()?;
        self.ranges -= ranges;
        let otherwise = match (ending, self.peek().kind, context) {
            (Ending::End, ..) => None,
            (_, TokenKind::Keyword(Keyword::If), "if") => Some(vec![Node::If(self.chained("if")?)]),
            (_, TokenKind::Keyword(Keyword::With), "with") => {
                Some(vec![Node::With(self.chained("with")?)])
            }
            _ => {
                let (nodes, ending) = self.list()?;
                if ending != Ending::End {
                    return self.error(&format!("expected end; found {}", ending.shown()));
                }
                Some(nodes)
            }
        };
        self.variables.truncate(variables);
        Ok(Branch { pipe, then, otherwise })
    }

    /// `else if`: one branch inside the other.
    fn chained(&mut self, context: &str) -> Parsed<Branch> {
        self.deeper()?;
        self.next();
        let branch = self.branch(context)?;
        self.depth -= 1;
        Ok(branch)
    }

    fn block(&mut self) -> Parsed<Node> {
        let token = self.next_word();
        let name = self.template_name(token, "block clause")?;
        let pipe = Some(self.pipeline("block clause", TokenKind::RightDelim)?);
        let nodes = self.apart("block clause")?;
        self.add(name.clone(), nodes)?;
        Ok(Node::Template { at: token.at, name, pipe })
    }

    fn template(&mut self) -> Parsed<Node> {
        let token = self.next_word();
        let name = self.template_name(token, "template clause")?;
        let pipe = if self.peek_word().kind == TokenKind::RightDelim {
            self.next();
            None
        } else {
            Some(self.pipeline("template clause", TokenKind::RightDelim)?)
        };
        Ok(Node::Template { at: token.at, name, pipe })
    }

    fn template_name(&self, token: Token<'_>, context: &str) -> Parsed<String> {
        match token.kind {
            TokenKind::String | TokenKind::RawString => match unquote(token.text) {
                Some(bytes) => Ok(lossy(&bytes).into_owned()),
                None => self.error("invalid syntax"),
            },
            _ => self.unexpected(token, context),
        }
    }
}

fn shown(token: Token<'_>) -> String {
    match token.kind {
        TokenKind::End => "EOF".to_owned(),
        TokenKind::Keyword(_) | TokenKind::Nil | TokenKind::Dot => format!("<{}>", token.text),
        _ => match token.text.char_indices().nth(10) {
            Some((cut, _)) => {
                let start = token.text.get(..cut).unwrap_or_default();
                format!("{}...", quote(start.as_bytes(), false))
            }
            None => quote(token.text.as_bytes(), false),
        },
    }
}
