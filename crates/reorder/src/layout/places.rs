use alloc::vec::Vec;

use pgtoast_memctx::MemoryError;

/// Things that several transactions may share, by number.
#[derive(Debug)]
pub(super) struct Places<T> {
    places: Vec<Option<(T, usize)>>,
    free: Vec<usize>,
}

impl<T> Places<T> {
    pub(super) const fn new() -> Self {
        Self { places: Vec::new(), free: Vec::new() }
    }

    /// A place that one uses.
    pub(super) fn open(&mut self, thing: T) -> usize {
        let number = self.free.pop().unwrap_or(self.places.len());
        if number == self.places.len() {
            self.places.push(None);
        }
        self.places[number] = Some((thing, 1));
        number
    }

    pub(super) fn get(&self, number: usize) -> Result<&T, MemoryError> {
        match self.places.get(number) {
            Some(Some((thing, _))) => Ok(thing),
            _ => Err(MemoryError::Foreign),
        }
    }

    #[inline]
    pub(super) fn get_mut(&mut self, number: usize) -> Result<&mut T, MemoryError> {
        match self.places.get_mut(number) {
            Some(Some((thing, _))) => Ok(thing),
            _ => Err(MemoryError::Foreign),
        }
    }

    /// One more uses it.
    pub(super) fn share(&mut self, number: usize) {
        if let Some(Some((_, users))) = self.places.get_mut(number) {
            *users += 1;
        }
    }

    /// One fewer uses it; what nobody uses is returned.
    pub(super) fn close(&mut self, number: usize) -> Result<Option<T>, MemoryError> {
        let Some(place) = self.places.get_mut(number) else { return Err(MemoryError::Foreign) };
        let Some((_, users)) = place else { return Err(MemoryError::Foreign) };
        *users -= 1;
        if *users > 0 {
            return Ok(None);
        }
        self.free.push(number);
        Ok(place.take().map(|(thing, _)| thing))
    }
}
