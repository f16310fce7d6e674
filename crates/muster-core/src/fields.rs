//! Field tables: the fields of a file format, described once.
//!
//! A row gives a field's name, type, default and meaning. Readers accept the fields of their table and
//! report all others; the JSON Schemas for editors, the input schemas of core tools and the reference
//! pages are generated from the same rows.

/// The fields of one mapping.
#[derive(Debug)]
pub struct FieldTable {
    /// The type name that error messages use: `ToolPolicy`.
    pub model: &'static str,
    /// The noun for such a mapping on reference pages: `rule`.
    pub noun: &'static str,
    /// Its own fields, in the order in which they are read.
    pub fields: &'static [Field],
    /// Tables whose fields it also has.
    pub includes: &'static [&'static Self],
}

/// One field of a mapping.
#[derive(Debug)]
pub struct Field {
    /// Its name in files.
    pub name: &'static str,
    /// Its name in the arguments of core tools, where that differs.
    pub call_name: Option<&'static str>,
    /// The type of its value.
    pub holds: FieldType,
    /// Its value when it is left out.
    pub default: FieldDefault,
    /// Whether `null` is accepted and equals leaving it out.
    pub nullable: bool,
    /// The least number of items in its list.
    pub min_items: usize,
    /// Whether it is accepted for old files and callers only, and not shown in the schemas of core tools.
    pub legacy: bool,
    /// What it is for. No full stop at the end.
    pub meaning: &'static str,
}

/// The type of a field's value.
#[derive(Debug)]
pub enum FieldType {
    /// Text.
    String,
    /// Text that is never shown.
    Secret,
    /// Text; numbers and booleans are taken as they are written.
    Scalar,
    /// `true` or `false`.
    Boolean,
    /// A whole number within bounds.
    Integer {
        /// The minimum.
        min: i64,
        /// The maximum; `i64::MAX` for no bound.
        max: i64,
    },
    /// Any number.
    Number,
    /// A length of time: `1m30s` in files, nanoseconds in the arguments of core tools.
    Duration,
    /// Any value.
    Any,
    /// One of a few words.
    Enum(&'static [&'static str]),
    /// One of a few words; readers accept any text, and the check of the whole definition rejects others.
    EnumByCheck(&'static [&'static str]),
    /// A list of values of one type.
    List(&'static Self),
    /// A mapping from names to values of one type.
    Map(&'static Self),
    /// A mapping with known fields.
    Object(&'static FieldTable),
    /// A value of any of these types.
    Either(&'static [Self]),
}

/// The value of a field that is left out.
#[derive(Debug, Clone, Copy)]
pub enum FieldDefault {
    /// None: readers report a field that is left out.
    Required,
    /// None: the check of the whole definition rejects a definition without the field.
    RequiredByCheck,
    /// None; the text says what applies instead.
    Unset(&'static str),
    /// This value, written as JSON.
    Json(&'static str),
}

/// The default of lists, maps and other fields that have no value.
pub const NONE: FieldDefault = FieldDefault::Unset("none");
/// The default of text fields that are empty.
pub const EMPTY: FieldDefault = FieldDefault::Json("\"\"");
/// The default of most booleans.
pub const FALSE: FieldDefault = FieldDefault::Json("false");

impl FieldTable {
    /// A table of its own fields only.
    pub const fn new(model: &'static str, noun: &'static str, fields: &'static [Field]) -> Self {
        Self { model, noun, fields, includes: &[] }
    }

    /// This table with the own fields of others.
    #[must_use]
    pub const fn including(mut self, includes: &'static [&'static Self]) -> Self {
        self.includes = includes;
        self
    }

    /// All its fields: its own, then those of the tables it includes.
    pub fn all(&self) -> impl Iterator<Item = &'static Field> + Clone + use<> {
        let included = self.includes.iter().flat_map(|table| {
            let nested = table.includes.iter().flat_map(|table| table.fields);
            table.fields.iter().chain(nested)
        });
        self.fields.iter().chain(included)
    }

    /// The names that a file may use: those of files, and those of core tools.
    pub fn names(&self) -> impl Iterator<Item = &'static str> + Clone + use<> {
        self.all().flat_map(|field| [Some(field.name), field.call_name]).flatten()
    }
}

impl Field {
    /// A field that must be given.
    pub const fn required(name: &'static str, holds: FieldType, meaning: &'static str) -> Self {
        Self::optional(name, holds, FieldDefault::Required, meaning)
    }

    /// A field that may be left out, or `null`, which is the same.
    pub const fn nullable(
        name: &'static str,
        holds: FieldType,
        default: FieldDefault,
        meaning: &'static str,
    ) -> Self {
        Self::optional(name, holds, default, meaning).or_null()
    }

    /// A field that may be left out.
    pub const fn optional(
        name: &'static str,
        holds: FieldType,
        default: FieldDefault,
        meaning: &'static str,
    ) -> Self {
        Self {
            name,
            call_name: None,
            holds,
            default,
            nullable: false,
            min_items: 0,
            legacy: false,
            meaning,
        }
    }

    /// This field, which may also be `null`.
    #[must_use]
    pub const fn or_null(mut self) -> Self {
        self.nullable = true;
        self
    }

    /// This field, which core tools call `name`.
    #[must_use]
    pub const fn in_calls(mut self, name: &'static str) -> Self {
        self.call_name = Some(name);
        self
    }

    /// This field, whose list has at least `items` items.
    #[must_use]
    pub const fn at_least(mut self, items: usize) -> Self {
        self.min_items = items;
        self
    }

    /// This field, accepted for old files and callers only.
    #[must_use]
    pub const fn legacy(mut self) -> Self {
        self.legacy = true;
        self
    }

    /// Whether leaving it out is an error.
    pub const fn is_required(&self) -> bool {
        matches!(self.default, FieldDefault::Required | FieldDefault::RequiredByCheck)
    }

    /// The name that schemas of core tools show.
    pub fn shown_in_calls(&self) -> &'static str {
        self.call_name.unwrap_or(self.name)
    }
}
