use pgtoast_memctx::{Account, Chunk, Cohort, Cohorts, Context, MemoryError, root};

use super::{Layout, places::Places};

/// Pages that a transaction does not share with others as soon as it has some kilobytes, and in which each
/// change is freed alone: what is held stays near what is live.
#[derive(Debug)]
pub struct CohortPages {
    context: Context<'static, Cohorts>,
    places: Places<Cohort>,
}

impl CohortPages {
    /// Holds nothing yet.
    ///
    /// # Errors
    /// None at present.
    pub fn new() -> Result<Self, MemoryError> {
        Ok(Self { context: root("Tuples").cohorts()?, places: Places::new() })
    }
}

impl Layout for CohortPages {
    type Place = usize;
    type Held = Chunk<Cohorts>;

    fn open(&mut self) -> Result<usize, MemoryError> {
        Ok(self.places.open(Cohort::new()))
    }

    fn share(&mut self, place: &usize) -> usize {
        self.places.share(*place);
        *place
    }

    #[inline]
    fn hold(&mut self, place: &usize, bytes: &[u8]) -> Result<Self::Held, MemoryError> {
        self.context.take_for(self.places.get_mut(*place)?, bytes)
    }

    #[inline]
    fn bytes<'l>(&'l self, held: &'l Self::Held) -> Result<&'l [u8], MemoryError> {
        self.context.bytes(held)
    }

    #[inline]
    fn give_back(&mut self, held: Self::Held) -> Result<(), MemoryError> {
        self.context.give_back(held)
    }

    fn close(&mut self, place: usize) -> Result<(), MemoryError> {
        match self.places.close(place)? {
            Some(cohort) => self.context.close(cohort),
            None => Ok(()),
        }
    }

    fn account(&self) -> &Account {
        self.context.account()
    }
}
