//! As much JSON as a server of one's own needs: reads any text of it, up to a depth; writes strings.
//!
//! Honest about itself: numbers are f64, of a key that is there twice the first counts, and the
//! message of an error is its position. A program with crates takes serde_json.

const DEEPEST: usize = 32;

#[derive(Debug)]
pub enum Json {
    Null,
    Bool(bool),
    Number(f64),
    Text(String),
    Array(Vec<Json>),
    Object(Vec<(String, Json)>),
}

impl Json {
    pub fn get(&self, key: &str) -> Option<&Json> {
        match self {
            Json::Object(members) => members.iter().find(|(name, _)| name == key).map(|(_, value)| value),
            _ => None,
        }
    }

    pub fn text(&self) -> Option<&str> {
        match self {
            Json::Text(text) => Some(text),
            _ => None,
        }
    }
}

/// The one value that TEXT is, or where it stops being JSON.
pub fn parse(text: &str) -> Result<Json, usize> {
    let mut reader = Reader { text, at: 0 };
    let value = reader.value(0).ok_or(reader.at)?;
    reader.space();
    if reader.at == text.len() {
        Ok(value)
    } else {
        Err(reader.at)
    }
}

pub fn quote(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            c if c < ' ' => quoted += &format!("\\u{:04x}", c as u32),
            c => quoted.push(c),
        }
    }
    quoted + "\""
}

struct Reader<'a> {
    text: &'a str,
    at: usize, // always between characters
}

impl Reader<'_> {
    fn peek(&self) -> Option<char> {
        self.text[self.at..].chars().next()
    }

    fn next(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.at += c.len_utf8();
        Some(c)
    }

    fn eat(&mut self, word: &str) -> Option<()> {
        self.text[self.at..].starts_with(word).then(|| self.at += word.len())
    }

    fn run_of(&mut self, belongs: impl Fn(char) -> bool) -> &str {
        let rest = &self.text[self.at..];
        let length = rest.find(|c| !belongs(c)).unwrap_or(rest.len());
        self.at += length;
        &rest[..length]
    }

    fn space(&mut self) {
        self.run_of(|c| matches!(c, ' ' | '\t' | '\n' | '\r'));
    }

    fn value(&mut self, depth: usize) -> Option<Json> {
        self.space();
        match self.peek()? {
            '"' => self.string().map(Json::Text),
            '[' if depth < DEEPEST => {
                self.list('[', ']', |reader| reader.value(depth + 1)).map(Json::Array)
            }
            '{' if depth < DEEPEST => {
                self.list('{', '}', |reader| reader.member(depth + 1)).map(Json::Object)
            }
            't' => self.eat("true").map(|_| Json::Bool(true)),
            'f' => self.eat("false").map(|_| Json::Bool(false)),
            'n' => self.eat("null").map(|_| Json::Null),
            '-' | '0'..='9' => {
                // (Rust's own reader takes "1." too; it does no harm.)
                let digits = self.run_of(|c| matches!(c, '0'..='9' | '+' | '-' | '.' | 'e' | 'E'));
                digits.parse().ok().map(Json::Number)
            }
            _ => None,
        }
    }

    fn list<T>(&mut self, open: char, close: char, item: impl Fn(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        let mut items = Vec::new();
        let mut before = open;
        self.space();
        while self.next()? == before {
            self.space();
            if self.peek()? == close && before == open {
                break;
            }
            items.push(item(self)?);
            self.space();
            if self.peek()? == close {
                break;
            }
            before = ',';
        }
        (self.next()? == close).then_some(items)
    }

    fn member(&mut self, depth: usize) -> Option<(String, Json)> {
        self.space();
        let name = self.string()?;
        self.space();
        self.eat(":")?;
        Some((name, self.value(depth)?))
    }

    fn string(&mut self) -> Option<String> {
        let mut string = String::new();
        self.eat("\"")?;
        loop {
            string.push(match self.next()? {
                '"' => return Some(string),
                '\\' => self.escape()?,
                c if c < ' ' => return None,
                c => c,
            });
        }
    }

    fn escape(&mut self) -> Option<char> {
        Some(match self.next()? {
            'b' => '\u{8}',
            'f' => '\u{c}',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'u' => self.unit()?,
            c @ ('"' | '\\' | '/') => c,
            _ => return None,
        })
    }

    /// What \u tells of, of which a second may be needed. Half a pair is no character.
    fn unit(&mut self) -> Option<char> {
        let mut units = vec![self.hex()?];
        if (0xd800..0xdc00).contains(&units[0]) {
            self.eat("\\u")?;
            units.push(self.hex()?);
        }
        String::from_utf16(&units).ok()?.chars().next()
    }

    fn hex(&mut self) -> Option<u16> {
        let digits = self.text.get(self.at..self.at + 4)?;
        self.at += 4;
        digits.bytes().all(|b| b.is_ascii_hexdigit()).then(|| u16::from_str_radix(digits, 16).ok())?
    }
}
