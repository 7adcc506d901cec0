//! Who waits for whom: for the end of a transaction, and for relations.
//!
//! All waits are under one lock, and so is the search for circles: whoever is about to wait follows
//! the waits of those it would wait for, and if they lead back to itself it does not. So a circle
//! never closes, and the one that would have closed it is told.
//!
//! A shared lock of a relation, which every transaction takes, is noted in the transaction's own
//! slot, as long as nobody has or wants a relation for itself. Whoever does says so first, in
//! [`Shared::strong`], and looks through all slots then.
use std::collections::VecDeque;

use hashbrown::HashMap;
use pgtoast_base::Xid;

use super::{LockMode, Shared, full_xid};
use crate::error::Awaited;
use crate::sync::atomic::Ordering;
use crate::sync::mutated;
use crate::{RelationId, StoreError};

/// What is awaited; slots stand for their transactions.
#[derive(Debug, Default)]
pub(super) struct Waits {
    waiting: HashMap<usize, Wait>,
    /// Those that somebody has or wants for itself.
    relations: HashMap<RelationId, Claims>,
    /// Since the beginning.
    waits: u64,
    deadlocks: u64,
}

/// How often transactions had to wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct WaitStatistics {
    /// How many wait now.
    pub waiting: u64,
    /// How many began to wait.
    pub waits: u64,
    /// How many were refused to wait, because that would have closed a circle.
    pub deadlocks: u64,
}

impl Waits {
    /// Adds a wait to the graph.
    fn begin(&mut self, slot: usize, wait: Wait) {
        self.waiting.insert(slot, wait);
        self.waits += 1;
    }

    /// Takes a wait that closes a circle out of the graph.
    fn refuse(&mut self, slot: usize, awaited: Awaited) -> StoreError {
        self.waiting.remove(&slot);
        self.waits -= 1;
        self.deadlocks += 1;
        StoreError::Deadlock { awaited }
    }

    pub(super) fn statistics(&self) -> WaitStatistics {
        let Self { ref waiting, waits, deadlocks, .. } = *self;
        WaitStatistics { waiting: waiting.len() as u64, waits, deadlocks }
    }
}

#[derive(Clone, Copy, Debug)]
enum Wait {
    Xid(u64),
    Relation(RelationId),
}

#[derive(Debug, Default)]
struct Claims {
    exclusive: Option<usize>,
    queue: VecDeque<Request>,
}

#[derive(Clone, Copy, Debug)]
struct Request {
    slot: usize,
    mode: LockMode,
}

impl LockMode {
    fn conflicts(self, other: Self) -> bool {
        self == Self::Exclusive || other == Self::Exclusive
    }
}

impl Shared {
    /// Waits until that one is over.
    pub(super) fn wait_for(&self, slot: usize, xid: Xid) -> Result<(), StoreError> {
        let full = {
            let running = self.running.lock();
            let full = full_xid::near(running.next(), xid);
            if running.holder(full).is_none() {
                return Ok(());
            }
            full
        };
        let mut waits = self.waits.lock();
        waits.begin(slot, Wait::Xid(full));
        // Whoever ends that one takes it out of what runs first and looks here then: it either is
        // found to be out below, or finds the number changed.
        if !mutated!(NotCounted) {
            self.waiters.fetch_add(1, Ordering::AcqRel);
        }
        let result = if self.closes_circle(&waits, slot) {
            Err(waits.refuse(slot, Awaited::Transaction(xid)))
        } else {
            while self.running.lock().holder(full).is_some() {
                self.slots.get(slot).wakeup.wait(&mut waits);
            }
            waits.waiting.remove(&slot);
            Ok(())
        };
        if !mutated!(NotCounted) {
            self.waiters.fetch_sub(1, Ordering::AcqRel);
        }
        result
    }

    /// Wakes those that wait for one that is over now.
    pub(super) fn wake(&self) {
        if self.waiters.load(Ordering::Acquire) == 0 {
            return;
        }
        let waits = self.waits.lock();
        let running = self.running.lock();
        for (&slot, wait) in &waits.waiting {
            if let Wait::Xid(full) = *wait
                && running.holder(full).is_none()
            {
                self.slots.get(slot).wakeup.notify_all();
            }
        }
    }

    /// Takes the lock of a relation for the transaction in that slot, which does not have it in
    /// that mode; `Ok(false)` if it is not to be had and `wait` is not set.
    pub(super) fn lock_relation(
        &self,
        slot: usize,
        relation: RelationId,
        mode: LockMode,
        wait: bool,
    ) -> Result<bool, StoreError> {
        if mode == LockMode::Shared {
            let mut state = self.slots.get(slot).state.lock();
            if self.strong.load(Ordering::Acquire) == 0 {
                state.shared.push(relation);
                return Ok(true);
            }
        }
        let mut waits = self.waits.lock();
        let request = Request { slot, mode };
        if mode == LockMode::Exclusive && !mutated!(AnnounceLate) {
            // Announced before the slots are looked at.
            self.claims(&mut waits, relation);
        }
        if self.is_free(&waits, relation, request) {
            self.give(&mut waits, relation, request);
            return Ok(true);
        }
        if !wait {
            self.forget(&mut waits, relation);
            return Ok(false);
        }
        let has_shared = self.has_shared(slot, relation);
        let queue = &mut self.claims(&mut waits, relation).queue;
        // Whoever has it shared and wants it for itself goes before those that have nothing: they
        // would wait for it anyway.
        let place = if has_shared { 0 } else { queue.len() };
        queue.insert(place, request);
        waits.begin(slot, Wait::Relation(relation));
        if self.closes_circle(&waits, slot) {
            let error = waits.refuse(slot, Awaited::Relation(relation));
            self.claims(&mut waits, relation).queue.retain(|request| request.slot != slot);
            self.grant(&mut waits, relation);
            return Err(error);
        }
        while waits.waiting.contains_key(&slot) {
            self.slots.get(slot).wakeup.wait(&mut waits);
        }
        Ok(true)
    }

    /// Takes those locks from a slot, and lets those have the relations that wait for them; the shared
    /// ones are gone from the slot already.
    pub(super) fn unlock_relations(&self, slot: usize, locks: &[(RelationId, LockMode)]) {
        let mut waits = self.waits.lock();
        for &(relation, mode) in locks {
            if let Some(claims) = waits.relations.get_mut(&relation) {
                claims.exclusive.take_if(|holder| *holder == slot && mode == LockMode::Exclusive);
                self.grant(&mut waits, relation);
            }
        }
    }

    /// The claims to a relation, there from now on until forgotten.
    fn claims<'w>(&self, waits: &'w mut Waits, relation: RelationId) -> &'w mut Claims {
        waits.relations.entry(relation).or_insert_with(|| {
            self.strong.fetch_add(1, Ordering::AcqRel);
            Claims::default()
        })
    }

    /// Forgets that there are claims, if there are none.
    fn forget(&self, waits: &mut Waits, relation: RelationId) {
        let idle = |claims: &Claims| claims.exclusive.is_none() && claims.queue.is_empty();
        if waits.relations.get(&relation).is_some_and(idle) {
            waits.relations.remove(&relation);
            self.strong.fetch_sub(1, Ordering::AcqRel);
        }
    }

    /// Whether nobody is in the way of that request, neither who has the relation nor who asked
    /// before.
    fn is_free(&self, waits: &Waits, relation: RelationId, request: Request) -> bool {
        let mut free = true;
        self.in_the_way(waits, relation, request, &mut |_| free = false);
        free
    }

    /// Calls `visit` with each slot that is in the way of that request.
    fn in_the_way(
        &self,
        waits: &Waits,
        relation: RelationId,
        request: Request,
        visit: &mut dyn FnMut(usize),
    ) {
        let Request { slot, mode } = request;
        if let Some(claims) = waits.relations.get(&relation) {
            claims.exclusive.iter().filter(|&&holder| holder != slot).for_each(|&h| visit(h));
            let upgrade = mode == LockMode::Exclusive && self.has_shared(slot, relation);
            let is_queued = claims.queue.iter().any(|other| other.slot == slot);
            if is_queued || !upgrade {
                let before = claims.queue.iter().take_while(|other| other.slot != slot);
                before.filter(|other| other.mode.conflicts(mode)).for_each(|o| visit(o.slot));
            }
        }
        if mode == LockMode::Exclusive {
            for (other, _) in self.slots.iter().filter(|&(other, _)| other != slot) {
                if self.has_shared(other, relation) {
                    visit(other);
                }
            }
        }
    }

    fn has_shared(&self, slot: usize, relation: RelationId) -> bool {
        self.slots.get(slot).state.lock().shared.contains(&relation)
    }

    fn give(&self, waits: &mut Waits, relation: RelationId, Request { slot, mode }: Request) {
        match mode {
            LockMode::Shared => self.slots.get(slot).state.lock().shared.push(relation),
            LockMode::Exclusive => self.claims(waits, relation).exclusive = Some(slot),
        }
    }

    /// Gives the relation to those at the head of its queue that nobody is in the way of.
    fn grant(&self, waits: &mut Waits, relation: RelationId) {
        while let Some(&request) = waits.relations.get(&relation).and_then(|c| c.queue.front())
            && self.is_free(waits, relation, request)
        {
            self.claims(waits, relation).queue.pop_front();
            self.give(waits, relation, request);
            waits.waiting.remove(&request.slot);
            self.slots.get(request.slot).wakeup.notify_all();
        }
        self.forget(waits, relation);
    }

    /// Whether the waits lead from that slot back to it.
    fn closes_circle(&self, waits: &Waits, start: usize) -> bool {
        let (mut seen, mut next) = (vec![start], vec![start]);
        let mut closes = false;
        while let Some(slot) = next.pop() {
            let mut follow = |other: usize| {
                closes |= other == start;
                if !seen.contains(&other) {
                    seen.push(other);
                    next.push(other);
                }
            };
            match waits.waiting.get(&slot) {
                _ if mutated!(NoCircle) => {}
                None => {}
                Some(&Wait::Xid(full)) => {
                    if let Some(holder) = self.running.lock().holder(full) {
                        follow(holder);
                    }
                }
                Some(&Wait::Relation(relation)) => {
                    let queue = waits.relations.get(&relation).map(|claims| &claims.queue);
                    let mut queued = queue.into_iter().flatten();
                    if let Some(&request) = queued.find(|request| request.slot == slot) {
                        self.in_the_way(waits, relation, request, &mut follow);
                    }
                }
            }
        }
        closes
    }
}
