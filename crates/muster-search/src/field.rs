//! The parts of a document, and what a word in each of them is worth.
//!
//! **Invariant:** what a word is worth in a document depends on that document alone. Lengths are held
//! against fixed ones instead of the catalog's averages, so that no backend changes what another
//! one's words are worth, and an index of one backend never has to be made again for another's sake.

/// A part of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DocumentField {
    /// What the tool is called.
    Name,
    /// What it is called for people.
    Title,
    /// Who offers it.
    Server,
    /// What it does.
    Description,
    /// The names of what it takes.
    Parameter,
    /// The descriptions of what it takes.
    ParameterText,
    /// Words for search.
    Tag,
    /// Other names for it.
    Alias,
}

impl DocumentField {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Name,
        Self::Title,
        Self::Server,
        Self::Description,
        Self::Parameter,
        Self::ParameterText,
        Self::Tag,
        Self::Alias,
    ];

    /// Its place among the bits of a set of fields.
    pub(super) const fn bit(self) -> u8 {
        1 << self as u8
    }

    fn rule(self) -> Rule {
        let rule = |weight, length, strictness| Rule { weight, length, strictness };
        match self {
            Self::Name => rule(3.0, 3.0, 0.3),
            Self::Alias => rule(2.5, 3.0, 0.3),
            Self::Title => rule(2.0, 3.0, 0.3),
            Self::Tag => rule(1.5, 3.0, 0.0),
            Self::Server => rule(1.0, 2.0, 0.3),
            Self::Description => rule(1.0, 30.0, 0.75),
            Self::Parameter => rule(0.5, 6.0, 0.75),
            Self::ParameterText => rule(0.25, 40.0, 0.75),
        }
    }
}

/// How often a term is in each field of a document.
pub(super) type Counts = [u16; DocumentField::ALL.len()];

/// From how many occurrences on a further one hardly counts.
const SATURATION: f32 = 1.2;
/// No impact is greater.
pub(super) const MOST: f32 = SATURATION + 1.0;

/// What one term is worth in one document, and where it stands there: 24 bits and 8.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Impact(u32);

impl Impact {
    /// From how often the term is in each field, and how many words each field has.
    pub(super) fn new(counts: &Counts, lengths: &Counts) -> Self {
        let mut sum = 0.0;
        let mut fields = 0;
        for (field, (count, length)) in
            DocumentField::ALL.into_iter().zip(counts.iter().zip(lengths))
        {
            if *count > 0 {
                sum += field.rule().worth(*count, *length);
                fields |= u32::from(field.bit());
            }
        }
        let impact = sum * MOST / (sum + SATURATION);
        Self(((impact / MOST * Self::STEPS) as u32) << 8 | fields)
    }

    /// What it is worth.
    pub(super) fn worth(self) -> f32 {
        (self.0 >> 8) as f32 * (MOST / Self::STEPS)
    }

    /// Whether the term is in the name.
    pub(super) fn in_name(self) -> bool {
        self.0 as u8 & DocumentField::Name.bit() != 0
    }

    /// Where the term stands.
    pub(super) fn fields(self) -> impl Iterator<Item = DocumentField> {
        DocumentField::ALL.into_iter().filter(move |field| self.0 as u8 & field.bit() != 0)
    }

    const STEPS: f32 = 0xff_ffff as f32;
}

struct Rule {
    weight: f32,
    /// How many words are usual.
    length: f32,
    /// How much a word loses among more words than usual, from 0 to 1.
    strictness: f32,
}

impl Rule {
    fn worth(&self, count: u16, length: u16) -> f32 {
        let share = f32::from(length) / self.length;
        self.weight * f32::from(count) / (1.0 - self.strictness + self.strictness * share)
    }
}

#[cfg(test)]
mod tests {
    use super::{DocumentField, Impact, MOST};

    #[test]
    fn a_name_is_worth_more_than_a_description() {
        let one = |field: usize, length: u16| {
            let (mut counts, mut lengths) = ([0; 8], [0; 8]);
            counts[field] = 1;
            lengths[field] = length;
            Impact::new(&counts, &lengths)
        };
        let name = one(DocumentField::Name as usize, 2);
        let description = one(DocumentField::Description as usize, 20);
        assert!(name.worth() > description.worth());
        assert!(name.in_name() && !description.in_name());
        assert!(one(DocumentField::Description as usize, 200).worth() < description.worth());
        assert_eq!(description.fields().collect::<Vec<_>>(), [DocumentField::Description]);
    }

    #[test]
    fn repetition_has_a_limit() {
        let endless = Impact::new(&[u16::MAX; 8], &[1; 8]);
        assert!(endless.worth() <= MOST && endless.worth() > 0.99 * MOST);
        assert_eq!(endless.fields().count(), 8);
    }
}
